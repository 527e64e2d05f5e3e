// Gradient of layer normalisation.
#include "libtrain/autograd/gradient.h"
#include "libtrain/autograd/kernels.h"
#include "libtrain/autograd/simple_op.h"
#include "libtrain/ops/nn.h"

namespace train {
namespace {

// Inputs: x, dy, scale (optional) -> dx, dscale, dbias [cols].
std::shared_ptr<const Op> layer_norm_grad_op(int64_t axis, float epsilon) {
  const auto cols_of = [axis](const Shape& s) { return s.count(s.axis(axis), s.rank()); };
  return make_op(
      "LayerNormGrad", OpLayout::kLinear,
      [cols_of](Infos in, std::span<ValueInfo> out) {
        out[0] = ValueInfo(in[0].shape, DType::kF32);
        out[1] = out[2] = ValueInfo(Shape{cols_of(in[0].shape)}, DType::kF32);
      },
      [cols_of, epsilon](Infos in, Infos) {
        const int64_t cols = cols_of(in[0].shape);
        const int64_t rows = cols ? in[0].shape.numel() / cols : 0, blocks = row_blocks(rows);
        return make_plan(
            [=](Views in, Views out, void* workspace) {
              const cpu::GradTable& t = grad_kernels();
              auto *dscale = static_cast<float*>(workspace), *dbias = dscale + blocks * cols;
              std::fill_n(dscale, 2 * blocks * cols, 0.f);
              for_row_blocks(rows, cols, [&](int64_t b, int64_t r0, int64_t r1) {
                t.layer_norm_grad(in[0].as<float>() + r0 * cols, in[1].as<float>() + r0 * cols,
                                  in[2].as<float>(), epsilon, r1 - r0, cols,
                                  out[0].as<float>() + r0 * cols, dscale + b * cols,
                                  dbias + b * cols);
              });
              add_blocks(dscale, blocks, cols, out[1].as<float>());
              add_blocks(dbias, blocks, cols, out[2].as<float>());
            },
            static_cast<size_t>(2 * blocks * cols) * sizeof(float));
      });
}

class LayerNormGradient final : public Gradient {
 public:
  explicit LayerNormGradient(const LayerNormOp& op)
      : Gradient({.inputs = 0b11}), grad_(layer_norm_grad_op(op.axis, op.epsilon)) {}
  void run(GradContext& c) const override {
    const Array scale = c.inputs() > 1 ? c.input(1) : Array();
    const auto d = c.eager().run(grad_, std::array{c.input(0), c.grad(), scale}, 3);
    for (size_t i = 0; i < 3; ++i)
      if (c.needs(i)) c.set(i, i ? Array(d[i].tensor.reshaped(c.input(i).shape)) : d[i]);
  }

 private:
  std::shared_ptr<const Op> grad_;
};

}  // namespace

std::shared_ptr<const Gradient> layer_norm_gradient(const Op& op) {
  return std::make_shared<LayerNormGradient>(dynamic_cast<const LayerNormOp&>(op));
}

}  // namespace train
