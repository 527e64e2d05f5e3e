// Reductions along axes: sums, means, extremes, norms; arg-extremes, top-k and running sums.
#pragma once
#include "libtrain/ops/op.h"

namespace train {

enum class ReduceKind : uint8_t {
  kSum,
  kMean,
  kMax,
  kMin,
  kProd,
  kSumSquare,
  kL1,
  kL2,
  kLogSum,
  kLogSumExp
};

/// ReduceSum, ReduceMean, ... Inputs: x, axes (i64, optional: all, or none with
/// `noop_with_empty_axes`).
class ReduceOp final : public Op {
 public:
  explicit ReduceOp(ReduceKind kind, bool keepdims = true, bool noop_with_empty_axes = false)
      : kind(kind), keepdims(keepdims), noop_with_empty_axes(noop_with_empty_axes) {}
  std::string_view type() const override;
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  LayoutChoice layouts(Infos inputs, Infos outputs) const override;
  double flops(Infos inputs, Infos outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  /// reduced[i] is 1 when axis i goes.
  std::vector<char> reduced_axes(Infos inputs) const;
  ReduceKind kind;
  bool keepdims, noop_with_empty_axes;
};

/// ArgMax and ArgMin: the place of the extreme along an axis, the first or the last of equals.
class ArgExtremeOp final : public Op {
 public:
  ArgExtremeOp(bool max, int64_t axis, bool keepdims, bool select_last_index)
      : max(max), axis(axis), keepdims(keepdims), select_last_index(select_last_index) {}
  std::string_view type() const override { return max ? "ArgMax" : "ArgMin"; }
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  bool max;
  int64_t axis;
  bool keepdims, select_last_index;
};

/// TopK along an axis, sorted; of equals the one with the lower index first. Inputs: x, k (i64
/// [1]). Outputs: values, indices.
class TopKOp final : public Op {
 public:
  explicit TopKOp(int64_t axis = -1, bool largest = true) : axis(axis), largest(largest) {}
  std::string_view type() const override { return "TopK"; }
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  int64_t axis;
  bool largest;
};

/// CumSum. Inputs: x, axis (one integer).
class CumSumOp final : public Op {
 public:
  explicit CumSumOp(bool exclusive = false, bool reverse = false)
      : exclusive(exclusive), reverse(reverse) {}
  std::string_view type() const override { return "CumSum"; }
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  bool exclusive, reverse;
};

}  // namespace train
