// SVTR (Du et al. 2022): text recognition by transformer blocks over patches, height halved twice.
#include <array>

#include "libocr/models/backbones.h"
#include "libocr/models/svtr_block.h"
#include "libtrain/core/error.h"

namespace ocr::models {
namespace {

using train::cat;

// Halves the height between stages and widens the channels; tokens in, tokens out.
class SubSample final : public Block {
 public:
  SubSample(int64_t in, int64_t out, bool pool)
      : conv_(pool ? nullptr : &add<Conv>("conv", in, out, window(3, {2, 1}))),
        project_(pool ? &add<nn::Linear>("proj", in, out) : nullptr),
        norm_(add<LayerNorm>("norm", out)) {}

  Variable operator()(Tape& tape, const Variable& tokens, int64_t height) const {
    const Variable x = to_image(tape, tokens, height);
    if (conv_) return norm_(tape, train::image_to_sequence(tape, (*conv_)(tape, x)));
    const train::Window w = window({3, 5}, {2, 1});
    const Variable sum =
        train::add(tape, train::average_pool(tape, x, w), train::max_pool(tape, x, w));
    return norm_(tape,
                 (*project_)(tape, train::image_to_sequence(tape, train::scale(tape, sum, .5f))));
  }

 private:
  Conv* conv_;
  nn::Linear* project_;
  LayerNorm& norm_;
};

// An image into tokens of 4 x 4 (or 8 x 8) pixels, by overlapping convolutions.
class PatchEmbed final : public Block {
 public:
  PatchEmbed(int64_t channels, int halvings) : proj_(add<Sequential>("proj")) {
    int64_t in = 3;
    for (int i = halvings - 1; i >= 0; --i) {
      const int64_t out = channels >> i;
      proj_.append<ConvBn>(in, out, window(3, 2), 1, Act::kGelu, kSvtrNames, true);
      in = out;
    }
  }
  Variable operator()(Tape& tape, const Variable& images) const {
    return train::image_to_sequence(tape, proj_(tape, images));
  }

 private:
  Sequential& proj_;
};

class SvtrNet final : public Backbone {
 public:
  explicit SvtrNet(const SvtrNetOptions& o)
      : o_(checked(o)),
        image_(o.img_size[0], o.img_size[1]),
        grid_(image_.h >> o.sub_num, image_.w >> o.sub_num),
        merge_(o.patch_merging == "Conv" || o.patch_merging == "Pool"),
        embed_(add<PatchEmbed>("patch_embed", o.embed_dim[0], o.sub_num)),
        drop_(add<Dropout>("pos_drop", static_cast<float>(o.drop_rate))) {
    const int64_t tokens = int64_t{grid_.h} * grid_.w, first = o.embed_dim[0];
    positions_ =
        add_parameter("pos_embed", {1, tokens, first}, {nn::Init::Kind::kTruncatedNormal, .02});
    int block = 0;
    for (size_t s = 0; s < 3; ++s) {
      stages_[s] = &add<List<SvtrBlock>>(cat("blocks", s + 1));
      for (int i = 0; i < o.depth[s]; ++i) stages_[s]->append(block_options(s, block++));
      if (merge_ && s < 2)
        merges_[s] = &add<SubSample>(cat("sub_sample", s + 1), o.embed_dim[s], o.embed_dim[s + 1],
                                     o.patch_merging == "Pool");
    }
    start_truncated_normal(*this);
    start_he_uniform(*this);
    channels_ = {o.last_stage ? o.out_channels : o.embed_dim[2]};
    if (o.last_stage)
      last_ = &add<Conv>("last_conv", o.embed_dim[2], o.out_channels, window(1), 1, false);
    last_drop_ = &add<Dropout>("dropout", static_cast<float>(o.last_drop));
    if (!o.prenorm) norm_ = &add<LayerNorm>("norm", o.embed_dim[2], float(o.epsilon));
  }

  std::optional<Size> image_size() const override { return image_; }

  std::vector<Variable> operator()(Tape& tape, const Variable& images) const override {
    const train::Shape& s = images.shape();
    if (s[2] != image_.h || s[3] != image_.w)
      throw train::ShapeError(cat("SVTRNet was built for images of ", image_.h, " x ", image_.w,
                                  " (img_size), not ", s[2], " x ", s[3]));
    Variable x = drop_(tape, train::add(tape, embed_(tape, images), positions_));
    for (size_t i = 0; i < 3; ++i) {
      for (const SvtrBlock* block : *stages_[i]) x = (*block)(tape, x);
      if (merge_ && i < 2) x = (*merges_[i])(tape, x, height(i));
    }
    if (norm_) x = (*norm_)(tape, x);
    x = to_image(tape, x, height(2));
    if (!last_) return {x};
    x = (*last_)(tape, adaptive_row_pool(tape, x, o_.out_char_num));
    return {(*last_drop_)(tape, activate(tape, x, Act::kHardSwish))};
  }

 private:
  static const SvtrNetOptions& checked(const SvtrNetOptions& o) {
    const auto need = [](bool ok, const std::string& what) {
      if (!ok) throw train::Error("SVTRNet: " + what);
    };
    need(o.img_size.size() == 2, "img_size must be [height, width]");
    need(o.embed_dim.size() == 3 && o.depth.size() == 3 && o.num_heads.size() == 3 &&
             o.local_mixer.size() == 3,
         "embed_dim, depth, num_heads and local_mixer need 3 entries, one per stage");
    need(o.sub_num == 2 || o.sub_num == 3, "sub_num must be 2 or 3");
    const size_t blocks = static_cast<size_t>(o.depth[0] + o.depth[1] + o.depth[2]);
    need(o.mixer.size() >= blocks,
         cat("mixer names ", o.mixer.size(), " blocks, depth asks for ", blocks));
    for (const std::string& m : o.mixer)
      need(m == "Local" || m == "Global" || m == "Conv",
           "mixer '" + m + "': it is 'Local', 'Global' or 'Conv'");
    for (const auto& w : o.local_mixer) need(w.size() == 2, "a local_mixer is [height, width]");
    return o;
  }

  // Of the grid in stage s.
  int height(size_t s) const { return merge_ ? grid_.h >> s : grid_.h; }

  SvtrBlockOptions block_options(size_t s, int block) const {
    const std::string& mixer = o_.mixer[static_cast<size_t>(block)];
    const int last = o_.depth[0] + o_.depth[1] + o_.depth[2] - 1;
    return {.channels = o_.embed_dim[s],
            .heads = o_.num_heads[s],
            .mixer = mixer == "Local"    ? Mixer::kLocal
                     : mixer == "Global" ? Mixer::kGlobal
                                         : Mixer::kConv,
            .grid = {height(s), grid_.w},
            .window = {o_.local_mixer[s][0], o_.local_mixer[s][1]},
            .mlp_ratio = o_.mlp_ratio,
            .qkv_bias = o_.qkv_bias,
            .drop = o_.drop_rate,
            .attention_drop = o_.attn_drop_rate,
            .drop_path = last ? o_.drop_path_rate * block / last : 0,  // deeper blocks drop more
            .epsilon = static_cast<float>(o_.epsilon),
            .norm_after = o_.prenorm};
  }

  SvtrNetOptions o_;
  Size image_, grid_;
  bool merge_;
  PatchEmbed& embed_;
  Dropout& drop_;
  Variable positions_;
  std::array<List<SvtrBlock>*, 3> stages_{};
  std::array<SubSample*, 2> merges_{};
  Conv* last_ = nullptr;
  Dropout* last_drop_ = nullptr;
  LayerNorm* norm_ = nullptr;
};

}  // namespace

std::unique_ptr<Backbone> make_svtr_net(const SvtrNetOptions& options) {
  return std::make_unique<SvtrNet>(options);
}

}  // namespace ocr::models
