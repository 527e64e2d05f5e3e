#include "libocr/models/svtr_block.h"

#include <cmath>
#include <limits>

#include "libtrain/core/error.h"

namespace ocr::models {

using train::Tensor;

namespace {

// 0 where a token of the grid sees another through a window around it, else minus infinity.
Tensor local_mask(Size grid, Size window) {
  const int n = grid.h * grid.w;
  Tensor mask({n, n});
  float* m = mask.data<float>();
  for (int a = 0; a < n; ++a)
    for (int b = 0; b < n; ++b) {
      const int dy = b / grid.w - a / grid.w, dx = b % grid.w - a % grid.w;
      const bool seen = std::abs(dy) <= window.h / 2 && std::abs(dx) <= window.w / 2;
      *m++ = seen ? 0.f : -std::numeric_limits<float>::infinity();
    }
  return mask;
}

nn::AttentionOptions attention_options(const SvtrBlockOptions& o) {
  if (o.channels % o.heads != 0)
    throw train::Error(train::cat("num_heads ", o.heads, " does not divide the ", o.channels,
                                  " channels of its stage"));
  return {.channels = o.channels,
          .heads = o.heads,
          .qkv_bias = o.qkv_bias,
          .attention_dropout = static_cast<float>(o.attention_drop),
          .output_dropout = static_cast<float>(o.drop)};
}

}  // namespace

// A grouped convolution over the grid of tokens.
class ConvMixer final : public Layer {
 public:
  explicit ConvMixer(const SvtrBlockOptions& o)
      : height_(o.grid.h),
        conv_(add<Conv>("local_mixer", o.channels, o.channels, window(o.window), o.heads)) {}

  Variable operator()(Tape& tape, const Variable& x) const override {
    return train::image_to_sequence(tape, conv_(tape, to_image(tape, x, height_)));
  }

 private:
  int64_t height_;
  Conv& conv_;
};

Mlp::Mlp(int64_t channels, int64_t hidden, Act act, double drop)
    : fc1_(add<nn::Linear>("fc1", channels, hidden)),
      fc2_(add<nn::Linear>("fc2", hidden, channels)),
      drop_(add<Dropout>("drop", static_cast<float>(drop))),
      act_(act) {}

Variable Mlp::operator()(Tape& tape, const Variable& x) const {
  return drop_(tape, fc2_(tape, drop_(tape, activate(tape, fc1_(tape, x), act_))));
}

SvtrBlock::SvtrBlock(const SvtrBlockOptions& o)
    : norm1_(add<LayerNorm>("norm1", o.channels, o.epsilon)), norm_after_(o.norm_after) {
  if (o.mixer == Mixer::kConv)
    convolution_ = &add<ConvMixer>("mixer", o);
  else
    attention_ = &add<nn::SelfAttention>("mixer", attention_options(o));
  if (o.mixer == Mixer::kLocal) mask_ = Variable::input(local_mask(o.grid, o.window));
  norm2_ = &add<LayerNorm>("norm2", o.channels, o.epsilon);
  mlp_ =
      &add<Mlp>("mlp", o.channels,
                static_cast<int64_t>(static_cast<double>(o.channels) * o.mlp_ratio), o.act, o.drop);
  path_ = &add<DropPath>("drop_path", static_cast<float>(o.drop_path));
}

Variable SvtrBlock::mix(Tape& tape, const Variable& x) const {
  return convolution_ ? (*convolution_)(tape, x) : (*attention_)(tape, x, mask_);
}

Variable SvtrBlock::operator()(Tape& tape, const Variable& x) const {
  const auto path = [&](const Variable& y) { return (*path_)(tape, y); };
  if (norm_after_) {
    const Variable y = norm1_(tape, train::add(tape, x, path(mix(tape, x))));
    return (*norm2_)(tape, train::add(tape, y, path((*mlp_)(tape, y))));
  }
  const Variable y = train::add(tape, x, path(mix(tape, norm1_(tape, x))));
  return train::add(tape, y, path((*mlp_)(tape, (*norm2_)(tape, y))));
}

}  // namespace ocr::models
