// Gradients of ops that give the same elements another shape.
#include "libtrain/autograd/gradient.h"

namespace train {
namespace {

class ReshapeGradient final : public Gradient {
 public:
  ReshapeGradient() : Gradient({}) {}
  void run(GradContext& c) const override {
    if (!c.needs(0)) return;
    const Array dy = c.eager().to_layout(c.grad(), Layout::kLinear);
    c.set(0, Array(dy.tensor.reshaped(c.input(0).shape)));
  }
};

}  // namespace

std::shared_ptr<const Gradient> reshape_gradient(const Op&) {
  return std::make_shared<ReshapeGradient>();
}

}  // namespace train
