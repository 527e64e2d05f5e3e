// The backbones by name, each with the keys its section of a config may hold.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "libocr/models/net.h"

namespace ocr::models {

// Options are read from a config by `describe` (libtrain/config/reader.h). Only the sizes that a
// paper or a shipped model has are accepted; make_...() throws train::Error naming key and choices.

/// Howard et al. 2019. Detection: four scales; recognition and angle classification: one row.
struct MobileNetV3Options {
  std::string model_name = "large";  // or "small"
  double scale = .5;
  bool disable_se = false;
  std::vector<int> large_stride, small_stride;  // recognition: rows only, after the stem
  template <class V>
  void describe(V& v) {
    v.field("model_name", model_name);
    v.field("scale", scale);
    v.field("disable_se", disable_se);
    v.field("large_stride", large_stride);
    v.field("small_stride", small_stride);
  }
};
std::unique_ptr<Backbone> make_mobilenet_v3_det(const MobileNetV3Options& options);
std::unique_ptr<Backbone> make_mobilenet_v3_rec(const MobileNetV3Options& options);

/// He et al. 2019 ("bag of tricks", D). Detection: "ResNet_vd", four scales; recognition:
/// "ResNet", which halves the height only.
struct ResNetOptions {
  int layers = 50;
  std::vector<std::string> dcn_stage;  // deformable convolutions: not built, all must be False
  template <class V>
  void describe(V& v) {
    v.field("layers", layers);
    v.field("dcn_stage", dcn_stage);
    v.ignore("disable_se");
  }
};
std::unique_ptr<Backbone> make_resnet_vd_det(const ResNetOptions& options);
std::unique_ptr<Backbone> make_resnet_vd_rec(const ResNetOptions& options);

/// The backbone of PP-OCRv4 and v5 mobile: depthwise blocks of several branches that an export
/// merges.
struct PPLCNetV3Options {
  double scale = 1;
  int conv_kxk_num = 4;
  bool det = false;
  std::vector<double> lr_mult_list = {1, 1, 1, 1, 1, 1};  // of the stem and the five stages
  double lab_lr = .1;                                     // on top of it, of the learnt affines
  template <class V>
  void describe(V& v) {
    v.field("scale", scale);
    v.field("conv_kxk_num", conv_kxk_num);
    v.field("det", det);
    v.field("lr_mult_list", lr_mult_list);
    v.field("lab_lr", lab_lr);
  }
};
std::unique_ptr<Backbone> make_pplcnet_v3(const PPLCNetV3Options& options);

/// The backbone of PP-OCRv6.
struct PPLCNetV4Options {
  std::string model_size = "small";  // tiny, small, medium
  bool det = false;
  std::vector<double> lr_mult_list = {1, 1, 1, 1, 1, 1};  // recognition: the stem's, the gates'
  template <class V>
  void describe(V& v) {
    v.field("model_size", model_size);
    v.field("det", det);
    v.field("lr_mult_list", lr_mult_list);
  }
};
std::unique_ptr<Backbone> make_pplcnet_v4(const PPLCNetV4Options& options);

/// The backbones of the server models, of dense blocks whose layers' outputs are all joined (after
/// Lee et al. 2019): PP-OCRv4's PPHGNet_small and v5's PPHGNetV2_B4.
struct PPHGNetOptions {
  bool det = false, text_rec = false;  // recognition is text_rec, or neither
  template <class V>
  void describe(V& v) {
    v.field("det", det);
    v.field("text_rec", text_rec);
  }
};
std::unique_ptr<Backbone> make_pphgnet_small(const PPHGNetOptions& options);
std::unique_ptr<Backbone> make_pphgnet_v2_b4(const PPHGNetOptions& options);

/// PP-LCNet (Cui et al. 2021), for text line and document orientation.
struct PPLCNetOptions {
  double scale = 1;
  int class_expand = 1280;
  double dropout_prob = .2;
  template <class V>
  void describe(V& v) {
    v.field("scale", scale);
    v.field("class_expand", class_expand);
    v.field("dropout_prob", dropout_prob);
  }
};
std::unique_ptr<Backbone> make_pplcnet(const PPLCNetOptions& options);

/// The backbone of PP-OCRv3's recognisers.
struct MobileNetV1EnhanceOptions {
  double scale = .5;
  std::vector<int> last_conv_stride{1};
  std::string last_pool_type = "max";  // or "avg"
  template <class V>
  void describe(V& v) {
    v.field("scale", scale);
    v.field("last_conv_stride", last_conv_stride);
    v.field("last_pool_type", last_pool_type);
  }
};
std::unique_ptr<Backbone> make_mobilenet_v1_enhance(const MobileNetV1EnhanceOptions& options);

/// SVTR (Du et al. 2022); the image size is fixed.
struct SvtrNetOptions {
  std::vector<int> img_size{32, 100};
  std::vector<int> embed_dim{64, 128, 256}, depth{3, 6, 3}, num_heads{2, 4, 8};
  std::vector<std::string> mixer{"Local",  "Local",  "Local",  "Local",  "Local",  "Local",
                                 "Global", "Global", "Global", "Global", "Global", "Global"};
  std::vector<std::vector<int>> local_mixer{{7, 11}, {7, 11}, {7, 11}};
  std::string patch_merging = "Conv";  // Conv, Pool, or None
  double mlp_ratio = 4;
  bool qkv_bias = true, last_stage = true, prenorm = true;
  double drop_rate = 0, last_drop = .1, attn_drop_rate = 0, drop_path_rate = .1;
  double epsilon = 1e-6;
  int out_channels = 192, out_char_num = 25, sub_num = 2;
  template <class V>
  void describe(V& v) {
    v.field("img_size", img_size);
    v.field("embed_dim", embed_dim);
    v.field("depth", depth);
    v.field("num_heads", num_heads);
    v.field("mixer", mixer);
    v.field("local_mixer", local_mixer);
    v.field("patch_merging", patch_merging);
    v.field("mlp_ratio", mlp_ratio);
    v.field("qkv_bias", qkv_bias);
    v.field("last_stage", last_stage);
    v.field("prenorm", prenorm);
    v.field("drop_rate", drop_rate);
    v.field("last_drop", last_drop);
    v.field("attn_drop_rate", attn_drop_rate);
    v.field("drop_path_rate", drop_path_rate);
    v.field("epsilon", epsilon);
    v.field("out_channels", out_channels);
    v.field("out_char_num", out_char_num);
    v.field("sub_num", sub_num);
  }
};
std::unique_ptr<Backbone> make_svtr_net(const SvtrNetOptions& options);

}  // namespace ocr::models
