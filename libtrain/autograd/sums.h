// Sums that the gradients of broadcast operands need (biases, gates, added vectors), as ops.
#pragma once
#include "libtrain/ops/op.h"

namespace train {

/// The sum over all axes but the channels: x [N, C, H, W], or [..., C] for other ranks -> [C]. Two
/// levels of blocks of fixed size, so the bits do not depend on the thread count.
class ChannelSumOp final : public Op {
 public:
  std::string_view type() const override { return "ChannelSum"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  LayoutChoice layouts(Infos inputs, Infos outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;
};

/// Undoes a broadcast: x summed over the axes along which input 1 (its shape alone is read) was
/// repeated, in input 1's shape.
class SumToOp final : public Op {
 public:
  std::string_view type() const override { return "SumTo"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  LayoutChoice layouts(Infos inputs, Infos outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;
};

/// SumTo of a product that is not written down: inputs a, b of one shape, and a third whose shape
/// alone is read.
class DotToOp final : public Op {
 public:
  std::string_view type() const override { return "DotTo"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  LayoutChoice layouts(Infos inputs, Infos outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;
};

}  // namespace train
