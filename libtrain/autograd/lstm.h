// One layer of a (bidirectional) LSTM as one op, with its gradient.
#pragma once
#include "libtrain/cpu/activation.h"
#include "libtrain/ops/op.h"

namespace train {

/// Inputs: x [N, T, I], then for each of D directions w_ih [4 H, I], w_hh [4 H, H], b_ih [4 H],
/// b_hh [4 H]: the layout of PyTorch and Paddle, gates in the order i f g o (ONNX: i o f c).
/// Outputs: y [N, T, D H], the gates after their functions [D, N, T, 4 H], the cells [D, N, T, H].
/// The second direction runs from the end. The state starts at 0.
///
///   i, f, o = sigmoid, g = tanh of (w_ih x + b_ih + w_hh h + b_hh); c = f c + i g; h = o tanh(c)
///
/// One product gives w_ih x of all steps; a step multiplies the state of a batch slice that a
/// thread keeps for the whole sequence.
class LstmOp final : public Op {
 public:
  explicit LstmOp(bool bidirectional, cpu::Precision precision = cpu::Precision::kF32)
      : directions(bidirectional ? 2 : 1), precision(precision) {}
  std::string_view type() const override { return "LstmTrain"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  double flops(Infos inputs, Infos outputs) const override;
  std::string describe() const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;
  std::shared_ptr<const Op> in_bf16() const override;

  int64_t directions;
  cpu::Precision precision;  // of the products over all steps; those of a step are f32
};

}  // namespace train
