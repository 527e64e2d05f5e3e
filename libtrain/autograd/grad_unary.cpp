// Gradients of the element-wise functions of one tensor.
#include "libtrain/autograd/gradient.h"
#include "libtrain/autograd/kernels.h"
#include "libtrain/autograd/simple_op.h"
#include "libtrain/ops/nn.h"

namespace train {
namespace {

bool has_slope(cpu::Act kind) {
  using cpu::Act;
  switch (kind) {
    case Act::kNone:
    case Act::kRelu:
    case Act::kClip:
    case Act::kLeakyRelu:
    case Act::kSigmoid:
    case Act::kHardSigmoid:
    case Act::kHardSwish:
    case Act::kSwish:
    case Act::kTanh:
    case Act::kGelu:
    case Act::kGeluTanh:
    case Act::kExp:
    case Act::kLog:
    case Act::kSqrt:
    case Act::kAbs:
    case Act::kNeg:
    case Act::kSquare:
      return true;
    default:
      return false;
  }
}

// Saves whichever of input and output the slope is computed from.
class UnaryGradient final : public Gradient {
 public:
  explicit UnaryGradient(const cpu::Activation& act)
      : Gradient(cpu::act_grad_reads_output(act.kind) ? Saves{.outputs = 1} : Saves{.inputs = 1}),
        grad_(make_op("UnaryGrad", OpLayout::kFollow, shape_of_input(0), [act](Infos in, Infos) {
          return make_plan([act, n = in[0].shape.numel()](Views in, Views out, void*) {
            const cpu::GradTable& t = grad_kernels();
            const auto *v = in[0].as<float>(), *dy = in[1].as<float>();
            parallel_for((n + 63) / 64, kElementGrain / 64, [&](int64_t begin, int64_t end) {
              const int64_t at = begin * 64;
              t.act_grad(act, v + at, dy + at, out[0].as<float>() + at, std::min(n, end * 64) - at);
            });
          });
        })) {}
  void run(GradContext& c) const override {
    c.set(0, c.eager().run(grad_, {saves.outputs ? c.output(0) : c.input(0), c.grad()}));
  }

 private:
  std::shared_ptr<const Op> grad_;
};

}  // namespace

std::shared_ptr<const Gradient> unary_gradient(const Op& op) {
  const auto* unary = dynamic_cast<const UnaryOp*>(&op);
  if (!unary || !has_slope(unary->activation.kind)) return nullptr;
  return std::make_shared<UnaryGradient>(unary->activation);
}

}  // namespace train
