#include "libtrain/nn/layers.h"

#include <cmath>
#include <numbers>

namespace train::nn {
namespace {

Window square(int kernel, int stride, int pad) {
  Window w;
  w.kernel = {kernel, kernel};
  w.strides = {stride, stride};
  w.pads = {pad, pad, pad, pad};
  return w;
}

}  // namespace

Linear::Linear(int64_t in, int64_t out, bool bias)
    : op_(std::make_shared<MatMulOp>(/*trans_b=*/true)) {
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  weight_ = add_parameter("weight", {out, in}, {Init::Kind::kUniform, bound});
  if (bias) bias_ = add_parameter("bias", {out}, {Init::Kind::kUniform, bound});
}

Variable Linear::operator()(Tape& tape, const Variable& x) const {
  return tape.apply(op_, {x, weight_, bias_});
}

Conv2d::Conv2d(int64_t in, int64_t out, const Window& window, int64_t groups, bool bias)
    : op_(std::make_shared<ConvOp>(window, groups)) {
  require(groups > 0 && in % groups == 0 && out % groups == 0,
          "the channels of a convolution must be multiples of its groups");
  const Shape shape{out, in / groups, window.kernel[0], window.kernel[1]};
  weight_ = add_parameter("weight", shape,
                          {Init::Kind::kKaimingUniform, std::numbers::sqrt2, shape.count(1, 4)});
  if (bias) bias_ = add_parameter("bias", {out}, {});
}

Conv2d::Conv2d(int64_t in, int64_t out, int kernel, int stride)
    : Conv2d(in, out, square(kernel, stride, kernel / 2)) {}

Variable Conv2d::operator()(Tape& tape, const Variable& x) const {
  return tape.apply(op_, {x, weight_, bias_});
}

MaxPool2d::MaxPool2d(const Window& window)
    : op_(std::make_shared<PoolOp>(PoolKind::kMax, window)) {}

MaxPool2d::MaxPool2d(int kernel) : MaxPool2d(square(kernel, kernel, 0)) {}

}  // namespace train::nn
