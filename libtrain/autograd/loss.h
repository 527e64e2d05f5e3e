// Losses, as ops that exist in training only.
#pragma once
#include "libtrain/ops/op.h"

namespace train {

/// Softmax cross-entropy, the mean over the rows: inputs logits [N, C], labels i64 [N]; outputs
/// loss [], log-probabilities [N, C]. Label smoothing e: the target is 1 - e on the label plus e /
/// C on every class, as in PyTorch. Running it throws Error on a label outside the classes.
class SoftmaxCrossEntropyOp final : public Op {
 public:
  explicit SoftmaxCrossEntropyOp(float smoothing = 0);
  std::string_view type() const override { return "SoftmaxCrossEntropy"; }
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  float smoothing;
};

}  // namespace train
