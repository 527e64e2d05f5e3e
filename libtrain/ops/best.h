// SoftmaxBest: the greedy CTC step without the probabilities that nobody reads.
#pragma once
#include "libtrain/ops/op.h"

namespace train {

/// x [..., C] -> [..., 3]: per row the class with the largest value (the first of equals), its
/// softmax probability, and the probability of `extra_class` (0 when that is negative). Replaces a
/// last Softmax of 18,710 classes: no row of it is written.
class SoftmaxBestOp final : public Op {
 public:
  explicit SoftmaxBestOp(int64_t extra_class) : extra_class(extra_class) {}
  std::string_view type() const override { return "SoftmaxBest"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  int64_t extra_class;
};

}  // namespace train
