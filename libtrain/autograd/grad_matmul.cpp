// Gradient of MatMul by a matrix: x [..., K] times w [K, N] (or [N, K] with trans_b), plus bias.
#include "libtrain/autograd/gradient.h"
#include "libtrain/autograd/sums.h"
#include "libtrain/autograd/weight_gemm.h"
#include "libtrain/ops/common.h"
#include "libtrain/ops/nn.h"

namespace train {
namespace {

// dw = x^T dy, or dy^T x when w is stored transposed. Inputs: x [..., K], dy [..., N].
class MatMulWeightGradOp final : public Op {
 public:
  explicit MatMulWeightGradOp(bool trans_b) : trans_b_(trans_b) {}
  std::string_view type() const override { return "MatMulWeightGrad"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override {
    const int64_t k = inputs[0].shape.dim(-1), n = inputs[1].shape.dim(-1);
    outputs[0] = ValueInfo(trans_b_ ? Shape{n, k} : Shape{k, n}, DType::kF32);
  }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache&) const override {
    const int a = trans_b_ ? 1 : 0;  // the input whose columns become the rows of dw
    const int64_t rows = outputs[0].shape[0], cols = outputs[0].shape[1];
    const int64_t samples = inputs[a].shape.count(0, inputs[a].shape.rank() - 1);
    return make_plan(
        [a, rows, cols, samples](Views in, Views out, void* workspace) {
          auto* transposed = static_cast<float*>(workspace);  // [rows, samples]
          transpose_rows(in[a].as<float>(), rows, samples, rows, transposed, samples);
          const RowGroup group{transposed, samples, rows};
          weight_gemm({&group, 1}, in[1 - a].as<float>(), cols, samples, cols, out[0].as<float>(),
                      false);
        },
        static_cast<size_t>(rows * samples) * sizeof(float));
  }

 private:
  bool trans_b_;
};

class MatMulGradient final : public Gradient {
 public:
  explicit MatMulGradient(const MatMulOp& op)
      : Gradient({.inputs = 0b11}),
        input_grad_(std::make_shared<MatMulOp>(!op.trans_b)),
        weight_grad_(std::make_shared<MatMulWeightGradOp>(op.trans_b)),
        bias_grad_(std::make_shared<ChannelSumOp>()) {}

  void run(GradContext& c) const override {
    if (c.input(1).shape.rank() != 2 || c.input(0).shape.rank() < 2)
      throw ShapeError("MatMul has a gradient for a matrix as its second operand only");
    const Array& dy = c.grad();
    if (c.needs(0)) c.set(0, c.eager().run(input_grad_, {dy, c.input(1)}));
    if (c.needs(1)) c.set(1, c.eager().run(weight_grad_, {c.input(0), dy}));
    if (c.needs(2)) c.set(2, c.eager().run(bias_grad_, {dy}));
  }

 private:
  std::shared_ptr<const Op> input_grad_, weight_grad_, bias_grad_;
};

}  // namespace

std::shared_ptr<const Gradient> matmul_gradient(const Op& op) {
  const auto& matmul = dynamic_cast<const MatMulOp&>(op);
  if (matmul.alpha != 1 || matmul.epilogue.act.kind != cpu::Act::kNone ||
      matmul.epilogue.residual != cpu::Residual::kNone || matmul.epilogue.post_scale != 1 ||
      matmul.epilogue.post_bias != 0)
    throw Error("a fused MatMul has no gradient; train on the graph before fusion");
  return std::make_shared<MatMulGradient>(matmul);
}

}  // namespace train
