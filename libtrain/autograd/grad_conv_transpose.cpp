// Gradient of transposed convolution: the input's is a convolution with the same weights, the
// weights' is a convolution's with input and output exchanged.
#include "libtrain/autograd/conv_weight_grad.h"
#include "libtrain/autograd/gradient.h"
#include "libtrain/autograd/sums.h"
#include "libtrain/ops/nn.h"

namespace train {
namespace {

class ConvTransposeGradient final : public Gradient {
 public:
  explicit ConvTransposeGradient(const ConvTransposeOp& op)
      : Gradient({.inputs = 0b11}),
        input_grad_(input_grad(op)),
        weight_grad_(std::make_shared<ConvWeightGradOp>(op.window, op.groups, op.precision)),
        bias_grad_(std::make_shared<ChannelSumOp>()) {}

  void run(GradContext& c) const override {
    const Array& dy = c.grad();
    if (c.needs(0)) c.set(0, c.eager().run(input_grad_, {dy, c.input(1)}));
    if (c.needs(1))
      c.set(1, c.eager().run(weight_grad_, {dy, c.input(0), c.input(1).without_data()}));
    if (c.needs(2)) c.set(2, c.eager().run(bias_grad_, {dy}));
  }

 private:
  static std::shared_ptr<const Op> input_grad(const ConvTransposeOp& op) {
    auto conv = std::make_shared<ConvOp>(op.window, op.groups);
    conv->precision = op.precision;
    return conv;
  }

  std::shared_ptr<const Op> input_grad_, weight_grad_, bias_grad_;
};

}  // namespace

std::shared_ptr<const Gradient> conv_transpose_gradient(const Op& op) {
  const auto& conv = dynamic_cast<const ConvTransposeOp&>(op);
  if (conv.epilogue.act.kind != cpu::Act::kNone || conv.output_shape ||
      conv.window.auto_pad != AutoPad::kNotSet)
    throw Error("ConvTranspose has a gradient with plain pads and no fused epilogue only");
  for (int a = 0; a < 2; ++a)
    if (conv.output_padding[a] >= conv.window.strides[a])
      throw Error("ConvTranspose has a gradient for an output_padding below the stride only");
  return std::make_shared<ConvTransposeGradient>(conv);
}

}  // namespace train
