// Gradients of sums and means, softmax and log-softmax.
#include <cmath>

#include "libtrain/autograd/gradient.h"
#include "libtrain/autograd/kernels.h"
#include "libtrain/autograd/simple_op.h"
#include "libtrain/ops/broadcast.h"
#include "libtrain/ops/nn.h"
#include "libtrain/ops/reduce.h"

namespace train {
namespace {

// x repeated to the shape of input 1 (its shape alone is read), times a factor.
std::shared_ptr<const Op> expand_op(bool mean) {
  return make_op("ExpandGrad", OpLayout::kLinear, shape_of_input(1), [mean](Infos in, Infos) {
    const float scale =
        mean ? static_cast<float>(static_cast<double>(in[0].shape.numel()) /
                                  static_cast<double>(std::max<int64_t>(in[1].shape.numel(), 1)))
             : 1.f;
    return make_plan([scale](Views in, Views out, void*) {
      if (out[0].shape().numel() == 0) return;
      const auto* x = in[0].as<float>();
      auto* y = out[0].as<float>();
      for_each_run(broadcast_nest(*in[0].info, *in[0].info, *out[0].info),
                   [&](int64_t ix, int64_t, int64_t iy, int64_t n, int64_t step, int64_t) {
                     for (int64_t i = 0; i < n; ++i) y[iy + i] = x[ix + i * step] * scale;
                   });
    });
  });
}

class ReduceGradient final : public Gradient {
 public:
  explicit ReduceGradient(const ReduceOp& op)
      : Gradient({.inputs = 0b10}),
        op_(op.kind, op.keepdims, op.noop_with_empty_axes),
        expand_(expand_op(op.kind == ReduceKind::kMean)) {}
  void run(GradContext& c) const override {
    if (!c.needs(0)) return;
    const Array& x = c.input(0);
    std::vector<ValueInfo> infos{x.info()};
    if (c.inputs() > 1 && c.input(1).present) {
      infos.push_back(c.input(1).info());
      infos.back().constant = &c.input(1).tensor;
    }
    Shape kept = x.shape;  // reduced axes of size 1
    const auto reduced = op_.reduced_axes(infos);
    for (int i = 0; i < kept.rank(); ++i)
      if (reduced[i]) kept[i] = 1;
    const Array dy = c.eager().to_layout(c.grad(), Layout::kLinear);
    c.set(0, c.eager().run(expand_, {Array(dy.tensor.reshaped(kept)), x.without_data()}));
  }

 private:
  ReduceOp op_;
  std::shared_ptr<const Op> expand_;
};

// Along an axis that is not the last: one strided column at a time.
void softmax_grad_strided(const float* y, const float* dy, float* dx, int64_t n, int64_t inner,
                          bool log) {
  double sum = 0;
  for (int64_t j = 0; j < n; ++j)
    sum += log ? double{dy[j * inner]} : double{dy[j * inner]} * y[j * inner];
  for (int64_t j = 0; j < n; ++j) {
    const double v = y[j * inner], d = dy[j * inner];
    dx[j * inner] = static_cast<float>(log ? d - std::exp(v) * sum : v * (d - sum));
  }
}

std::shared_ptr<const Op> softmax_grad_op(int64_t axis, bool log) {
  return make_op("SoftmaxGrad", OpLayout::kLinear, shape_of_input(0), [=](Infos in, Infos) {
    const Shape& s = in[0].shape;
    const int a = s.axis(axis);
    const int64_t outer = s.count(0, a), n = s[a], inner = s.count(a + 1, s.rank());
    return make_plan([=](Views in, Views out, void*) {
      const cpu::GradTable& t = grad_kernels();
      const auto *y = in[0].as<float>(), *dy = in[1].as<float>();
      auto* dx = out[0].as<float>();
      if (inner == 1)
        return parallel_for(outer, row_grain(n), [&](int64_t r0, int64_t r1) {
          t.softmax_grad(y + r0 * n, dy + r0 * n, dx + r0 * n, r1 - r0, n, log);
        });
      parallel_for(outer * inner, row_grain(n), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t at = i / inner * n * inner + i % inner;
          softmax_grad_strided(y + at, dy + at, dx + at, n, inner, log);
        }
      });
    });
  });
}

class SoftmaxGradient final : public Gradient {
 public:
  explicit SoftmaxGradient(const SoftmaxOp& op)
      : Gradient({.outputs = 1}), grad_(softmax_grad_op(op.axis, op.log)) {}
  void run(GradContext& c) const override {
    c.set(0, c.eager().run(grad_, {c.output(0), c.grad()}));
  }

 private:
  std::shared_ptr<const Op> grad_;
};

}  // namespace

std::shared_ptr<const Gradient> reduce_gradient(const Op& op) {
  return std::make_shared<ReduceGradient>(dynamic_cast<const ReduceOp&>(op));
}
std::shared_ptr<const Gradient> softmax_gradient(const Op& op) {
  return std::make_shared<SoftmaxGradient>(dynamic_cast<const SoftmaxOp&>(op));
}

}  // namespace train
