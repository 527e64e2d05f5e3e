// CTC (Graves et al. 2006): the loss of label sequences without alignment, from logits or fused
// with the linear layer that makes them.
#pragma once
#include "libtrain/autograd/tape.h"

namespace train {

struct CtcOptions {
  int64_t blank = 0;
  /// Each sample's loss times (1 - exp(-loss))^2, so that what is learnt already counts less
  /// (PaddleOCR's use_focal_loss); the gradient passes through the factor.
  bool focal = false;
  /// A sample whose label does not fit its T steps (they need one each, and one more between equal
  /// neighbours) or whose probability is 0 counts as loss 0 without gradient; else as +inf and the
  /// gradient is NaN.
  bool zero_infinity = true;
};

/// The mean over the batch of each sample's -log p(label), as Paddle reduces it (PyTorch's `mean`
/// divides by the label lengths too). Inputs: logits [N, T, C] before any softmax, labels i64 [N,
/// L] of which the first lengths[n] count, lengths i64 [N]. Outputs: loss [], per-sample losses [N]
/// (inf where a label does not fit), d loss / d logits [N, T, C]. All T steps are read. Running it
/// throws Error naming the sample on a label that is blank or outside the classes, or a length
/// outside [0, L].
class CtcLossOp final : public Op {
 public:
  explicit CtcLossOp(const CtcOptions& options = {}) : options(options) {}
  std::string_view type() const override { return "CtcLoss"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  CtcOptions options;
};

/// The same behind a linear layer, without logits for the whole batch: samples pass in chunks whose
/// logits turn into their gradient in place. Inputs: x [N, T, D], weight [C, D], bias [C], labels,
/// lengths. Outputs: loss, per-sample losses, and d loss by x, weight and bias. For dictionaries of
/// thousands of characters.
class LinearCtcLossOp final : public Op {
 public:
  explicit LinearCtcLossOp(const CtcOptions& options = {}) : options(options) {}
  std::string_view type() const override { return "LinearCtcLoss"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  double flops(Infos inputs, Infos outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  CtcOptions options;
};

struct CtcResult {
  Variable loss;        // []
  Variable per_sample;  // [N], before the focal factor; inf where the label does not fit
};
CtcResult ctc_loss(Tape& tape, const Variable& logits, const Variable& labels,
                   const Variable& lengths, const CtcOptions& options = {});
CtcResult linear_ctc_loss(Tape& tape, const Variable& x, const Variable& weight,
                          const Variable& bias, const Variable& labels, const Variable& lengths,
                          const CtcOptions& options = {});

}  // namespace train
