// Dropout and drop-path: random zeros, a pure function of a key.
#pragma once
#include "libtrain/ops/op.h"

namespace train {

/// y = x m / (1 - p), m 0 with probability p. Inputs: x, key i64 [2] (Tape::random_key). One draw
/// per element, in memory order, or with `per_sample` one for each entry of the first axis
/// (stochastic depth, Huang et al. 2016).
class DropoutOp final : public Op {
 public:
  explicit DropoutOp(float p, bool per_sample = false);
  std::string_view type() const override { return per_sample ? "DropPath" : "Dropout"; }
  std::string describe() const override { return cat(type(), " ", p); }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  LayoutChoice layouts(Infos inputs, Infos outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  float p;
  bool per_sample;
};

}  // namespace train
