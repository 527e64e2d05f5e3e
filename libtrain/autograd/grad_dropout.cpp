// Dropout: the gradient draws the same zeros again.
#include "libtrain/autograd/dropout.h"
#include "libtrain/autograd/gradient.h"
#include "libtrain/autograd/kernels.h"
#include "libtrain/core/philox.h"
#include "libtrain/ops/strided.h"

namespace train {
namespace {

class DropoutGradient final : public Gradient {
 public:
  explicit DropoutGradient(const DropoutOp& op)
      : Gradient({.inputs = 0b10}), op_(std::make_shared<DropoutOp>(op.p, op.per_sample)) {}
  void run(GradContext& c) const override { c.set(0, c.eager().run(op_, {c.grad(), c.input(1)})); }

 private:
  std::shared_ptr<const Op> op_;
};

}  // namespace

DropoutOp::DropoutOp(float p, bool per_sample) : p(p), per_sample(per_sample) {
  require(p >= 0 && p < 1, "the probability of dropout must lie in [0, 1)");
}

void DropoutOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  require(inputs[1].dtype == DType::kI64 && inputs[1].shape == Shape{2}, "a key is i64 [2]");
  require(!per_sample || inputs[0].shape.rank() > 0, "drop-path needs a batch axis");
  outputs[0] = ValueInfo(inputs[0].shape, DType::kF32);
}

LayoutChoice DropoutOp::layouts(Infos inputs, Infos outputs) const {
  return follow_input(inputs, outputs);
}

std::unique_ptr<Plan> DropoutOp::plan(Infos inputs, Infos, PackCache&) const {
  const Shape& s = inputs[0].shape;
  const int64_t n = s.numel(), each = per_sample && n ? n / s[0] : 1;
  return make_plan([n, each, p = p](Views in, Views out, void*) {
    const auto* key = in[1].as<int64_t>();
    const RandomStream random(static_cast<uint64_t>(key[0]), static_cast<uint64_t>(key[1]));
    const auto* x = in[0].as<float>();
    auto* y = out[0].as<float>();
    const float scale = 1 / (1 - p);
    parallel_for(n, kElementGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end;) {
        const int64_t draw = i / each, next = std::min(end, (draw + 1) * each);
        const float m = random.uniform(static_cast<uint64_t>(draw)) < p ? 0.f : scale;
        for (; i < next; ++i) y[i] = m == 0 ? 0.f : x[i] * m;
      }
    });
  });
}

std::shared_ptr<const Gradient> dropout_gradient(const Op& op) {
  return std::make_shared<DropoutGradient>(dynamic_cast<const DropoutOp&>(op));
}

}  // namespace train
