// Parallel 1x1 convolutions of one input, each batch-normalised, and their sum, at the cost of
// little more than one.
#pragma once
#include "libtrain/ops/op.h"

namespace train {

/// y = sum over branches i of norm_i(W_i x), and with `identity` norm(x), by the batch's statistics
/// (the reparameterised blocks of Ding et al. 2021 while they train). All branches are linear in x,
/// so their statistics follow from the mean and the covariance of x's channels, one merged
/// convolution gives y, and the gradient of every branch follows from sum dy (x - mean)^T.
///
/// Inputs: x [N, C, H, W]; for each branch weight [O, C, 1, 1], scale [O], bias [O]; with
/// `identity` (O = C) its scale and bias [C]. Outputs: y [N, O, H, W]; mean, 1 / sqrt(var + eps)
/// and (biased) var [R, O], where R counts the identity as the last; and for the gradient W_i cov
/// [branches, O, C] and the channels' mean [C]. A variance's error is that of a sum of |W||cov||W|
/// terms, as it is when the branch is computed.
class PointwiseBranchesOp final : public Op {
 public:
  PointwiseBranchesOp(int branches, bool identity, float epsilon)
      : branches(branches), identity(identity), epsilon(epsilon) {}
  static constexpr size_t kOutputs = 6;
  std::string_view type() const override { return "PointwiseBranches"; }
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  LayoutChoice layouts(Infos inputs, Infos outputs) const override;
  double flops(Infos inputs, Infos outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;
  size_t inputs() const { return 1 + 3 * static_cast<size_t>(branches) + (identity ? 2 : 0); }

  int branches;
  bool identity;
  float epsilon;
};

}  // namespace train
