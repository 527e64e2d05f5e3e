// Gradients of point-wise ops.
#include "libtrain/autograd/gradient.h"
#include "libtrain/autograd/sums.h"
#include "libtrain/ops/nn.h"

namespace train {
namespace {

constexpr int64_t kGrain = 8192;  // elements

// dx = y > 0 ? dy : 0. Inputs: y, dy. At exactly zero the slope is 0, as in PyTorch.
class ReluGradOp final : public Op {
 public:
  std::string_view type() const override { return "ReluGrad"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override {
    outputs[0] = ValueInfo(inputs[0].shape, DType::kF32);
  }
  LayoutChoice layouts(Infos inputs, Infos) const override {
    return {{inputs[0].layout, inputs[0].layout}, {inputs[0].layout}};
  }
  std::unique_ptr<Plan> plan(Infos inputs, Infos, PackCache&) const override {
    return make_plan([n = inputs[0].shape.numel()](Views in, Views out, void*) {
      const auto *y = in[0].as<float>(), *dy = in[1].as<float>();
      auto* dx = out[0].as<float>();
      parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) dx[i] = y[i] > 0 ? dy[i] : 0.f;
      });
    });
  }
};

// Reads its output alone, which the next op has saved anyway.
class ReluGradient final : public Gradient {
 public:
  ReluGradient() : Gradient({.outputs = 1}), grad_(std::make_shared<ReluGradOp>()) {}
  void run(GradContext& c) const override {
    c.set(0, c.eager().run(grad_, {c.output(0), c.grad()}));
  }

 private:
  std::shared_ptr<const Op> grad_;
};

class AddGradient final : public Gradient {
 public:
  AddGradient() : Gradient({}), sum_to_(std::make_shared<SumToOp>()) {}
  void run(GradContext& c) const override {
    const Array& dy = c.grad();
    for (size_t i = 0; i < 2; ++i) {
      if (!c.needs(i)) continue;
      const Array& x = c.input(i);
      c.set(i, x.shape == dy.shape ? dy : c.eager().run(sum_to_, {dy, x}));
    }
  }

 private:
  std::shared_ptr<const Op> sum_to_;
};

}  // namespace

std::shared_ptr<const Gradient> relu_gradient(const Op&) {
  return std::make_shared<ReluGradient>();
}
std::shared_ptr<const Gradient> add_gradient(const Op&) { return std::make_shared<AddGradient>(); }

}  // namespace train
