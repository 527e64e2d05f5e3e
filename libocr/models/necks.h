// The necks by name: pyramids that bring a detector's scales together, and encoders that turn a
// recogniser's row into a sequence.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libocr/models/net.h"

namespace ocr::models {

/// DBFPN: the pyramid of DB (Liao et al. 2020). RSEFPN: with gates in place of plain convolutions.
/// RepLKFPN: with large depthwise kernels of several branches. LKPAN: 9 x 9 kernels and a second,
/// upward path; RepLKPAN: the same with depthwise kernels of several branches. Scales may be 1/4 to
/// 1/32.
struct PyramidOptions {
  int out_channels = 256;
  bool shortcut = true;         // RSEFPN, RepLKFPN
  int dilated_kernel_size = 7;  // RepLKFPN
  bool use_asf = false;         // DB++'s adaptive scale fusion: not built
  std::string mode = "large";   // LKPAN, RepLKPAN; "lite" is not built
  bool intracl = false;         // LKPAN, RepLKPAN: PP-OCRv4's intra-class blocks at the end
  template <class V>
  void describe(V& v) {
    v.field("out_channels", out_channels);
    v.field("shortcut", shortcut);
    v.field("dilated_kernel_size", dilated_kernel_size);
    v.field("use_asf", use_asf);
    v.field("mode", mode);
    v.field("intracl", intracl);
  }
};
std::unique_ptr<Neck> make_db_fpn(const std::vector<int64_t>& in, const PyramidOptions& options);
std::unique_ptr<Neck> make_rse_fpn(const std::vector<int64_t>& in, const PyramidOptions& options);
std::unique_ptr<Neck> make_rep_lk_fpn(const std::vector<int64_t>& in,
                                      const PyramidOptions& options);
std::unique_ptr<Neck> make_lk_pan(const std::vector<int64_t>& in, const PyramidOptions& options);
std::unique_ptr<Neck> make_rep_lk_pan(const std::vector<int64_t>& in,
                                      const PyramidOptions& options);

/// How a row [N, C, 1, W] becomes a sequence [N, W, C]. "reshape": as it is. "fc": a linear layer.
/// "rnn": two bidirectional LSTMs. "svtr", "lightsvtr": transformer blocks with convolutions
/// around.
struct SequenceOptions {
  std::string encoder_type = "reshape";
  int hidden_size = 48;  // fc, rnn
  int dims = 64, depth = 2, hidden_dims = 120, num_heads = 8, local_kernel = 7;
  std::optional<double> mlp_ratio;
  std::vector<int> kernel_size{3, 3};
  bool use_guide = false;  // MultiHead: cut off from the backbone, for a guide to teach that
  bool qkv_bias = true;
  double drop_rate = .1, attn_drop_rate = .1, drop_path = 0;
  template <class V>
  void describe(V& v) {
    v.field("encoder_type", encoder_type);
    v.field("hidden_size", hidden_size);
    v.field("dims", dims);
    v.field("depth", depth);
    v.field("hidden_dims", hidden_dims);
    v.field("num_heads", num_heads);
    v.field("local_kernel", local_kernel);
    v.field("mlp_ratio", mlp_ratio);
    v.field("kernel_size", kernel_size);
    v.field("use_guide", use_guide);
    v.field("qkv_bias", qkv_bias);
    v.field("drop_rate", drop_rate);
    v.field("attn_drop_rate", attn_drop_rate);
    v.field("drop_path", drop_path);
  }
};
std::unique_ptr<Neck> make_sequence_encoder(int64_t in, const SequenceOptions& options);

}  // namespace ocr::models
