// Learnt affines of two numbers around an activation, in one pass.
#pragma once
#include "libtrain/cpu/activation.h"
#include "libtrain/ops/op.h"

namespace train {

/// y = scale2 act(scale1 x + bias1) + bias2 (PP-LCNetV3's blocks). Inputs: x of any shape, scale1
/// [1], bias1 [1], scale2 [1], bias2 [1]; the last two may be missing and are 1 and 0. For
/// training: a graph that is exported holds the single steps.
class AffineActOp final : public Op {
 public:
  explicit AffineActOp(const cpu::Activation& act = {}) : act(act) {}
  std::string_view type() const override { return "AffineAct"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  LayoutChoice layouts(Infos inputs, Infos outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  cpu::Activation act;
};

}  // namespace train
