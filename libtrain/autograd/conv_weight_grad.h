// The gradient of a convolution's weights.
#pragma once
#include "libtrain/ops/nn.h"

namespace train {

/// Inputs: x [N, C, H, W], dy [N, M, OH, OW], w (shape alone) -> dw [M, C/groups, kh, kw].
///
/// Dense: with x transposed to zero-padded planes (one set per stride phase) and dy padded to the
/// planes' width, every tap of the kernel is a plain product of shifted planes and dy, and a packed
/// block of dy serves all taps: no im2col. In bf16 the planes are bf16, and a word of two pixels is
/// read at any pixel. Depthwise, which is f32 whatever the precision says: channels run through the
/// vector lanes.
class ConvWeightGradOp final : public Op {
 public:
  ConvWeightGradOp(const Window& window, int64_t groups,
                   cpu::Precision precision = cpu::Precision::kF32)
      : window(window), groups(groups), precision(precision) {}
  std::string_view type() const override { return "ConvWeightGrad"; }
  std::string describe() const override {
    return "ConvWeightGrad " + window.str() + (precision == cpu::Precision::kBf16 ? " bf16" : "");
  }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  LayoutChoice layouts(Infos inputs, Infos outputs) const override;
  double flops(Infos inputs, Infos outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  Window window;
  int64_t groups;
  cpu::Precision precision;
};

}  // namespace train
