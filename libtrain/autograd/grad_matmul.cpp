// Gradient of MatMul: x [..., K] times w [K, N] (or [N, K] with trans_b) plus bias, or batches of
// products of two activations.
#include "libtrain/autograd/gradient.h"
#include "libtrain/autograd/row_product.h"
#include "libtrain/autograd/sums.h"
#include "libtrain/ops/common.h"
#include "libtrain/ops/move.h"
#include "libtrain/ops/nn.h"

namespace train {
namespace {

// dw = x^T dy, or dy^T x when w is stored transposed. Inputs: x [..., K], dy [..., N].
class MatMulWeightGradOp final : public Op {
 public:
  MatMulWeightGradOp(bool trans_b, cpu::Precision precision)
      : trans_b_(trans_b), precision_(precision) {}
  std::string_view type() const override { return "MatMulWeightGrad"; }
  std::string describe() const override {
    return precision_ == cpu::Precision::kBf16 ? "MatMulWeightGrad bf16" : "MatMulWeightGrad";
  }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override {
    const int64_t k = inputs[0].shape.dim(-1), n = inputs[1].shape.dim(-1);
    outputs[0] = ValueInfo(trans_b_ ? Shape{n, k} : Shape{k, n}, DType::kF32);
  }
  double flops(Infos inputs, Infos) const override {  // the product's
    return 2.0 * static_cast<double>(inputs[0].shape.numel()) *
           static_cast<double>(inputs[1].shape.dim(-1));
  }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache&) const override {
    const int a = trans_b_ ? 1 : 0;  // the input whose columns become the rows of dw
    const int64_t rows = outputs[0].shape[0], cols = outputs[0].shape[1];
    const int64_t samples = inputs[a].shape.count(0, inputs[a].shape.rank() - 1);
    const RowProduct product{samples, rows, cols, precision_};
    return make_plan(
        [a, product](Views in, Views out, void* workspace) {
          product.run(in[a].as<float>(), in[1 - a].as<float>(), out[0].as<float>(), false,
                      workspace);
        },
        product.workspace_bytes());
  }

 private:
  bool trans_b_;
  cpu::Precision precision_;
};

// y = alpha a op(b). By a matrix: with its bias. Of two activations (attention): batches, which a
// broadcast may have repeated.
class MatMulGradient final : public Gradient {
 public:
  explicit MatMulGradient(const MatMulOp& op)
      : Gradient({.inputs = 0b11}),
        trans_b_(op.trans_b),
        alpha_(op.alpha),
        input_grad_(input_grad(op)),
        product_(std::make_shared<MatMulOp>(false, op.alpha)),
        weight_grad_(std::make_shared<MatMulWeightGradOp>(op.trans_b, op.precision)),
        bias_grad_(std::make_shared<ChannelSumOp>()),
        sum_to_(std::make_shared<SumToOp>()) {}

  void run(GradContext& c) const override {
    const Array& dy = c.grad();
    const int ra = c.input(0).shape.rank(), rb = c.input(1).shape.rank();
    if (ra < 2 || rb < 2) throw ShapeError("MatMul has a gradient for operands of rank 2 or more");
    if (rb > 2 || alpha_ != 1) return run_batched(c);
    if (c.needs(0)) c.set(0, c.eager().run(input_grad_, {dy, c.input(1)}));
    if (c.needs(1)) c.set(1, c.eager().run(weight_grad_, {c.input(0), dy}));
    if (c.needs(2)) c.set(2, c.eager().run(bias_grad_, {dy}));
  }

 private:
  static std::shared_ptr<const Op> input_grad(const MatMulOp& op) {
    auto product = std::make_shared<MatMulOp>(!op.trans_b, op.alpha);
    product->precision = op.precision;
    return product;
  }
  Array transposed(Eager& eager, const Array& a) const {
    const int rank = a.shape.rank();
    const auto op = eager.shared<Op>(cat("swap last two of ", rank), [rank] {
      std::vector<int64_t> perm;
      for (int i = 0; i < rank; ++i) perm.push_back(i);
      std::swap(perm[rank - 1], perm[rank - 2]);
      return std::make_shared<TransposeOp>(perm);
    });
    return eager.run(op, {a});
  }
  void set(GradContext& c, size_t i, const Array& d) const {
    const Array& x = c.input(i);
    c.set(i, x.shape == d.shape ? d : c.eager().run(sum_to_, {d, x.without_data()}));
  }
  void run_batched(GradContext& c) const {
    const Array& dy = c.grad();
    if (c.needs(0)) set(c, 0, c.eager().run(input_grad_, {dy, c.input(1)}));
    if (!c.needs(1)) return;
    // db = a^T dy, or dy^T a where b is stored transposed.
    const Array left = transposed(c.eager(), trans_b_ ? dy : c.input(0));
    set(c, 1, c.eager().run(product_, {left, trans_b_ ? c.input(0) : dy}));
  }

  bool trans_b_;
  float alpha_;
  std::shared_ptr<const Op> input_grad_, product_, weight_grad_, bias_grad_, sum_to_;
};

}  // namespace

std::shared_ptr<const Gradient> matmul_gradient(const Op& op) {
  const auto& matmul = dynamic_cast<const MatMulOp&>(op);
  if (matmul.epilogue.act.kind != cpu::Act::kNone ||
      matmul.epilogue.residual != cpu::Residual::kNone || matmul.epilogue.post_scale != 1 ||
      matmul.epilogue.post_bias != 0)
    throw Error("a fused MatMul has no gradient; train on the graph before fusion");
  return std::make_shared<MatMulGradient>(matmul);
}

}  // namespace train
