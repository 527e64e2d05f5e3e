// A convolution over a sum or a concatenation of enlarged feature maps; passes make it.
#pragma once
#include <vector>

#include "libtrain/ops/op.h"

#include "libtrain/cpu/activation.h"

namespace train {

/// y [N, M, H, W] = act(bias + sum over sources of conv(up(gate * (lateral x)), w)), a k x k
/// convolution of stride 1 with k / 2 pixels of padding; see cpu/pyramid_conv.h. Inputs: per source
/// x [N, C, H / factor, W / factor], w [M, D, k, k] (constant; absent with k == 1: the
/// identity), lateral [D, C, 1, 1] (constant,
/// optional; else C == D), gate [N, D, 1, 1] (optional); then bias [M] (constant, optional).
class PyramidConvOp final : public Op {
 public:
  enum Part { kX, kWeights, kLateral, kGate, kParts };

  PyramidConvOp(std::vector<int> factors, int k, cpu::Activation act)
      : factors(std::move(factors)), k(k), act(act) {}
  std::string_view type() const override { return "PyramidConv"; }
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  LayoutChoice layouts(Infos inputs, Infos outputs) const override;
  bool strided_output() const override { return true; }
  double flops(Infos inputs, Infos outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  std::vector<int> factors;  // one per source
  int k;
  cpu::Activation act;
};

}  // namespace train
