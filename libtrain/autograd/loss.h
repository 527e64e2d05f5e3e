// Losses, as ops that exist in training only.
#pragma once
#include <optional>

#include "libtrain/ops/op.h"

namespace train {

struct CrossEntropyOptions {
  float smoothing = 0;
  /// Where the smoothed part goes: e / C on every class (PyTorch, Paddle), or e / (C - 1) on all
  /// but the label (NRTR).
  bool smooth_others = false;
  std::optional<int64_t> ignore_index = {};  // rows with this label do not count
};

/// Softmax cross-entropy, the mean over the rows that count (0 when none does): inputs logits [N,
/// C], labels i64 [N]; outputs loss [], log-probabilities [N, C]. Label smoothing e: the target is
/// 1
/// - e on the label plus what CrossEntropyOptions says. Running it throws Error on a label outside
/// the classes.
class SoftmaxCrossEntropyOp final : public Op {
 public:
  explicit SoftmaxCrossEntropyOp(float smoothing = 0)
      : SoftmaxCrossEntropyOp(CrossEntropyOptions{.smoothing = smoothing}) {}
  explicit SoftmaxCrossEntropyOp(const CrossEntropyOptions& options);
  std::string_view type() const override { return "SoftmaxCrossEntropy"; }
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  CrossEntropyOptions options;
};

}  // namespace train
