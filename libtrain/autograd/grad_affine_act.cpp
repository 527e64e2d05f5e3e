// AffineAct, forward and backward; sums of the four numbers' gradients over blocks of fixed size.
#include <vector>

#include "libtrain/autograd/affine_act.h"
#include "libtrain/autograd/gradient.h"
#include "libtrain/autograd/kernels.h"
#include "libtrain/autograd/simple_op.h"
#include "libtrain/ops/common.h"

namespace train {
namespace {

constexpr int64_t kBlock = 2048;  // elements that one f32 sum runs over
constexpr int64_t kNumbers = 4;

int64_t blocks_of(int64_t n) { return (n + kBlock - 1) / kBlock; }

// The numbers from input `first` on.
cpu::AffineActArgs args_of(const cpu::Activation& act, Views in, size_t first) {
  const auto at = [&](size_t i, float otherwise) {
    return first + i < in.size() && in[first + i].data ? *in[first + i].as<float>() : otherwise;
  };
  return {at(0, 1), at(1, 0), at(2, 1), at(3, 0), act};
}

template <class F>
void for_blocks(int64_t n, F&& fn) {
  parallel_for(blocks_of(n), kElementGrain / kBlock, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) fn(b, b * kBlock, std::min(kBlock, n - b * kBlock));
  });
}

// Inputs: x, dy, then the numbers. Outputs: dx and the numbers' gradients.
std::shared_ptr<const Op> affine_act_grad_op(const cpu::Activation& act) {
  return make_op(
      "AffineActGrad", OpLayout::kFollow,
      [](Infos in, std::span<ValueInfo> out) {
        out[0] = ValueInfo(in[0].shape, DType::kF32);
        for (size_t i = 1; i < out.size(); ++i) out[i] = ValueInfo(Shape{1}, DType::kF32);
      },
      [act](Infos in, Infos) {
        const int64_t n = in[0].shape.numel();
        return make_plan(
            [act, n](Views in, Views out, void* workspace) {
              const cpu::AffineActArgs args = args_of(act, in, 2);
              auto* sums = static_cast<float*>(workspace);
              for_blocks(n, [&](int64_t b, int64_t at, int64_t len) {
                grad_kernels().affine_act_grad(args, in[0].as<float>() + at, in[1].as<float>() + at,
                                               out[0].as<float>() + at, len, sums + b * kNumbers);
              });
              for (size_t i = 1; i < out.size(); ++i) {
                double total = 0;
                for (int64_t b = 0; b < blocks_of(n); ++b) total += sums[b * kNumbers + i - 1];
                *out[i].as<float>() = static_cast<float>(total);
              }
            },
            static_cast<size_t>(kNumbers * blocks_of(n)) * sizeof(float));
      });
}

class AffineActGradient final : public Gradient {
 public:
  explicit AffineActGradient(const AffineActOp& op)
      : Gradient({.inputs = 0b11111}), grad_(affine_act_grad_op(op.act)) {}
  void run(GradContext& c) const override {
    std::vector<Array> inputs{c.input(0), c.grad()};
    for (size_t i = 1; i < c.inputs(); ++i) inputs.push_back(c.input(i));
    const std::vector<Array> d = c.eager().run(grad_, inputs, c.inputs());
    for (size_t i = 0; i < d.size(); ++i)
      if (c.needs(i)) c.set(i, d[i]);
  }

 private:
  std::shared_ptr<const Op> grad_;
};

}  // namespace

void AffineActOp::infer(Infos in, std::span<ValueInfo> out) const {
  require(in.size() == 3 || in.size() == 5, "the op takes a value and two or four numbers");
  // A kernel's lanes past the end of x hold 0, where these need not be finite.
  require(act.kind != cpu::Act::kLog && act.kind != cpu::Act::kSqrt,
          "logarithms and roots have no affines around them");
  for (const ValueInfo& v : in) require_f32(v);
  for (size_t i = 1; i < in.size(); ++i)
    require(in[i].shape.numel() == 1, "scale and bias are one number each");
  out[0] = ValueInfo(in[0].shape, DType::kF32);
}

LayoutChoice AffineActOp::layouts(Infos in, Infos out) const {
  LayoutChoice c = Op::layouts(in, out);
  c.inputs[0] = c.outputs[0] = in[0].layout;
  return c;
}

std::unique_ptr<Plan> AffineActOp::plan(Infos in, Infos, PackCache&) const {
  return make_plan([act = act, n = in[0].shape.numel()](Views in, Views out, void*) {
    const cpu::AffineActArgs args = args_of(act, in, 1);
    for_blocks(n, [&](int64_t, int64_t at, int64_t len) {
      grad_kernels().affine_act(args, in[0].as<float>() + at, out[0].as<float>() + at, len);
    });
  });
}

std::shared_ptr<const Gradient> affine_act_gradient(const Op& op) {
  return std::make_shared<AffineActGradient>(dynamic_cast<const AffineActOp&>(op));
}

}  // namespace train
