// Two steps of which every pixel needs no neighbour, run over a few rows at a time, so that what
// lies between them never leaves the cache; passes make it.
#pragma once
#include "libtrain/ops/op.h"

namespace train {

/// second(first(x)). Both are 1x1 convolutions of stride 1 or 2x2 transposed convolutions of stride
/// 2 (see `rowwise`). Inputs: all of `first` (`first_inputs` of them), then those of `second` but
/// its first. Bits are those of the two steps.
class ChainOp final : public Op {
 public:
  ChainOp(std::shared_ptr<const Op> first, size_t first_inputs, std::shared_ptr<const Op> second)
      : first(std::move(first)), second(std::move(second)), first_inputs(first_inputs) {}
  std::string_view type() const override { return "Chain"; }
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  LayoutChoice layouts(Infos inputs, Infos outputs) const override;
  bool strided_output() const override { return second->strided_output(); }
  bool by_image(Infos inputs) const override;
  double flops(Infos inputs, Infos outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  /// Whether a row of `op`'s output depends on one row of its input, given its weights' shape.
  static bool rowwise(const Op& op, const Shape& weights);

  std::shared_ptr<const Op> first, second;
  size_t first_inputs;

 private:
  struct Parts;
  Parts parts(Infos inputs) const;
};

}  // namespace train
