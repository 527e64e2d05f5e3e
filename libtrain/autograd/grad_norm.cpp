// Gradients of layer and group normalisation.
#include <cmath>

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

// Inputs: x [N, C, ...], dy, scale (optional) -> dx, dscale, dbias [C]. Sums in double, a group at
// a time.
std::shared_ptr<const Op> group_norm_grad_op(int64_t num_groups, double epsilon) {
  return make_op(
      "GroupNormGrad", OpLayout::kLinear,
      [](Infos in, std::span<ValueInfo> out) {
        out[0] = ValueInfo(in[0].shape, DType::kF32);
        out[1] = out[2] = ValueInfo(Shape{in[0].shape[1]}, DType::kF32);
      },
      [=](Infos in, Infos) {
        const Shape& s = in[0].shape;
        const int64_t n = s[0], c = s[1], inner = s.count(2, s.rank());
        const int64_t groups = num_groups ? num_groups : c, each = c / groups;
        return make_plan(
            [=](Views in, Views out, void* workspace) {
              auto *dscale = static_cast<float*>(workspace), *dbias = dscale + n * c;  // [n, c]
              parallel_for(n * groups, 1, [&](int64_t begin, int64_t end) {
                for (int64_t g = begin; g < end; ++g) {
                  const int64_t c0 = g % groups * each, at = (g / groups * c + c0) * inner;
                  const float *x = in[0].as<float>() + at, *dy = in[1].as<float>() + at;
                  const auto* scale = in[2].as<float>();
                  const int64_t count = each * inner;
                  double sum = 0, square = 0, mean_g = 0, mean_gx = 0;
                  for (int64_t i = 0; i < count; ++i) sum += x[i];
                  const double mean = sum / static_cast<double>(count);
                  for (int64_t i = 0; i < count; ++i) square += (x[i] - mean) * (x[i] - mean);
                  const double inv = 1 / std::sqrt(square / static_cast<double>(count) + epsilon);
                  for (int64_t k = 0; k < each; ++k) {
                    double d = 0, dx = 0;
                    for (int64_t i = k * inner; i < (k + 1) * inner; ++i) {
                      d += dy[i];
                      dx += dy[i] * (x[i] - mean) * inv;
                    }
                    dscale[g / groups * c + c0 + k] = static_cast<float>(dx);
                    dbias[g / groups * c + c0 + k] = static_cast<float>(d);
                    const double w = scale ? scale[c0 + k] : 1.f;
                    mean_g += w * d / static_cast<double>(count);
                    mean_gx += w * dx / static_cast<double>(count);
                  }
                  float* to = out[0].as<float>() + at;
                  for (int64_t i = 0; i < count; ++i) {
                    const double w = scale ? scale[c0 + i / inner] : 1.f;
                    const double xhat = (x[i] - mean) * inv;
                    to[i] = static_cast<float>(inv * (w * dy[i] - mean_g - xhat * mean_gx));
                  }
                }
              });
              add_blocks(dscale, n, c, out[1].as<float>());
              add_blocks(dbias, n, c, out[2].as<float>());
            },
            static_cast<size_t>(2 * n * c) * sizeof(float));
      });
}

// dx, dscale and dbias of a normalisation whose inputs are x, scale, bias.
class NormGradient final : public Gradient {
 public:
  explicit NormGradient(std::shared_ptr<const Op> grad)
      : Gradient({.inputs = 0b11}), grad_(std::move(grad)) {}
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

std::shared_ptr<const Gradient> group_norm_gradient(const Op& op) {
  const auto& norm = dynamic_cast<const GroupNormOp&>(op);
  return std::make_shared<NormGradient>(group_norm_grad_op(norm.num_groups, double{norm.epsilon}));
}
std::shared_ptr<const Gradient> layer_norm_gradient(const Op& op) {
  const auto& norm = dynamic_cast<const LayerNormOp&>(op);
  return std::make_shared<NormGradient>(layer_norm_grad_op(norm.axis, norm.epsilon));
}

}  // namespace train
