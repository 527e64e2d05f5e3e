// Gradients of element-wise arithmetic of two tensors, with their broadcasts undone.
#include "libtrain/autograd/gradient.h"
#include "libtrain/autograd/sums.h"
#include "libtrain/ops/nn.h"

namespace train {
namespace {

std::shared_ptr<const Op> binary(BinaryKind kind) { return std::make_shared<BinaryOp>(kind); }

// Sums what a broadcast repeated, and hands the gradient over.
class BroadcastGradient : public Gradient {
 public:
  explicit BroadcastGradient(Saves saves) : Gradient(saves), sum_to_(std::make_shared<SumToOp>()) {}

 protected:
  void set(GradContext& c, size_t i, const Array& d) const {
    const Array& x = c.input(i);
    c.set(i, x.shape == d.shape ? d : c.eager().run(sum_to_, {d, x.without_data()}));
  }

 private:
  std::shared_ptr<const Op> sum_to_;
};

class AddGradient final : public BroadcastGradient {
 public:
  AddGradient() : BroadcastGradient({}) {}
  void run(GradContext& c) const override {
    for (size_t i = 0; i < 2; ++i)
      if (c.needs(i)) set(c, i, c.grad());
  }
};

class SubGradient final : public BroadcastGradient {
 public:
  SubGradient()
      : BroadcastGradient({}),
        neg_(std::make_shared<UnaryOp>("Neg", cpu::Activation{.kind = cpu::Act::kNeg})) {}
  void run(GradContext& c) const override {
    if (c.needs(0)) set(c, 0, c.grad());
    if (c.needs(1)) set(c, 1, c.eager().run(neg_, {c.grad()}));
  }

 private:
  std::shared_ptr<const Op> neg_;
};

// A broadcast operand's gradient is the sum of a product: computed without the product where the
// shapes are an image's channel gate (see DotToOp).
class MulGradient final : public BroadcastGradient {
 public:
  MulGradient()
      : BroadcastGradient({.inputs = 0b11}),
        mul_(binary(BinaryKind::kMul)),
        dot_(std::make_shared<DotToOp>()) {}
  void run(GradContext& c) const override {
    for (size_t i = 0; i < 2; ++i) {
      if (!c.needs(i)) continue;
      const Array &x = c.input(i), &other = c.input(1 - i), &dy = c.grad();
      if (x.shape != dy.shape && other.shape == dy.shape)
        c.set(i, c.eager().run(dot_, {dy, other, x.without_data()}));
      else
        set(c, i, c.eager().run(mul_, {dy, other}));
    }
  }

 private:
  std::shared_ptr<const Op> mul_, dot_;
};

// y = a / b: da = dy / b, db = -dy y / b.
class DivGradient final : public BroadcastGradient {
 public:
  DivGradient()
      : BroadcastGradient({.inputs = 0b10, .outputs = 1}),
        mul_(binary(BinaryKind::kMul)),
        div_(binary(BinaryKind::kDiv)),
        neg_(std::make_shared<UnaryOp>("Neg", cpu::Activation{.kind = cpu::Act::kNeg})) {}
  void run(GradContext& c) const override {
    const Array da = c.eager().run(div_, {c.grad(), c.input(1)});
    if (c.needs(0)) set(c, 0, da);
    if (c.needs(1)) set(c, 1, c.eager().run(neg_, {c.eager().run(mul_, {da, c.output(0)})}));
  }

 private:
  std::shared_ptr<const Op> mul_, div_, neg_;
};

}  // namespace

std::shared_ptr<const Gradient> add_gradient(const Op&) { return std::make_shared<AddGradient>(); }
std::shared_ptr<const Gradient> sub_gradient(const Op&) { return std::make_shared<SubGradient>(); }
std::shared_ptr<const Gradient> mul_gradient(const Op&) { return std::make_shared<MulGradient>(); }
std::shared_ptr<const Gradient> div_gradient(const Op&) { return std::make_shared<DivGradient>(); }

}  // namespace train
