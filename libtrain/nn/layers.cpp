#include "libtrain/nn/layers.h"

#include <algorithm>
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

Window window_of(const ConvOptions& o) {
  Window w;
  w.kernel = o.kernel, w.strides = o.stride, w.dilations = o.dilation;
  w.pads = {o.padding[0], o.padding[1], o.padding[0], o.padding[1]};
  return w;
}

void check_groups(int64_t in, int64_t out, int64_t groups) {
  require(groups > 0 && in % groups == 0 && out % groups == 0,
          "the channels of a convolution must be multiples of its groups");
}

// running = keep running + (1 - keep) batch.
void follow(Variable running, std::span<const float> batch, float keep, double correction) {
  float* r = running.writable().data<float>();
  for (size_t i = 0; i < batch.size(); ++i)
    r[i] = static_cast<float>(double{keep} * r[i] + (1 - double{keep}) * correction * batch[i]);
}

}  // namespace

Linear::Linear(int64_t in, int64_t out, bool bias)
    : op_(std::make_shared<MatMulOp>(/*trans_b=*/true)) {
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  weight_ = add_parameter("weight", {out, in}, {Init::Kind::kUniform, bound}, /*matrix=*/true);
  if (bias) bias_ = add_parameter("bias", {out}, {Init::Kind::kUniform, bound});
}

Variable Linear::operator()(Tape& tape, const Variable& x) const {
  return tape.apply(op_, {x, weight_, bias_});
}

Conv2d::Conv2d(int64_t in, int64_t out, const Window& window, int64_t groups, bool bias)
    : op_(std::make_shared<ConvOp>(window, groups)) {
  check_groups(in, out, groups);
  const Shape shape{out, in / groups, window.kernel[0], window.kernel[1]};
  weight_ = add_parameter("weight", shape,
                          {Init::Kind::kKaimingUniform, std::numbers::sqrt2, shape.count(1, 4)});
  if (bias) bias_ = add_parameter("bias", {out}, {});
}

Conv2d::Conv2d(int64_t in, int64_t out, const ConvOptions& options)
    : Conv2d(in, out, window_of(options), options.groups, options.bias) {}

Conv2d::Conv2d(int64_t in, int64_t out, int kernel, int stride)
    : Conv2d(in, out, square(kernel, stride, kernel / 2)) {}

Variable Conv2d::operator()(Tape& tape, const Variable& x) const {
  return tape.apply(op_, {x, weight_, bias_});
}

ConvTranspose2d::ConvTranspose2d(int64_t in, int64_t out, const ConvOptions& options)
    : op_(std::make_shared<ConvTransposeOp>(window_of(options), options.groups,
                                            options.output_padding)) {
  check_groups(in, out, options.groups);
  const Shape shape{in, out / options.groups, options.kernel[0], options.kernel[1]};
  weight_ = add_parameter("weight", shape,
                          {Init::Kind::kKaimingUniform, std::numbers::sqrt2, shape.count(1, 4)});
  if (options.bias) bias_ = add_parameter("bias", {out}, {});
}

Variable ConvTranspose2d::operator()(Tape& tape, const Variable& x) const {
  return tape.apply(op_, {x, weight_, bias_});
}

MaxPool2d::MaxPool2d(const Window& window)
    : op_(std::make_shared<PoolOp>(PoolKind::kMax, window)) {}

MaxPool2d::MaxPool2d(int kernel) : MaxPool2d(square(kernel, kernel, 0)) {}

BatchNorm2d::BatchNorm2d(int64_t channels, const BatchNormOptions& options)
    : options_(options), eval_op_(std::make_shared<BatchNormOp>(options.epsilon)) {
  weight_ = add_parameter("weight", {channels}, {Init::Kind::kConstant, 1});
  bias_ = add_parameter("bias", {channels}, {});
  mean_ = add_buffer("running_mean", {channels}, 0);
  var_ = add_buffer("running_var", {channels}, 1);
}

void BatchNorm2d::synchronize(std::shared_ptr<BatchSync> sync) {
  sync_ = std::move(sync);
  train_op_.reset();
}

std::shared_ptr<const Op> BatchNorm2d::train_op(const cpu::Activation& act) const {
  if (!train_op_ || train_op_->act.kind != act.kind || train_op_->act.alpha != act.alpha ||
      train_op_->act.beta != act.beta)
    train_op_ = std::make_shared<BatchNormTrainOp>(options_.epsilon, act, sync_);
  return train_op_;
}

Variable BatchNorm2d::operator()(Tape& tape, const Variable& x, const cpu::Activation& act) const {
  if (!training())
    return activate(tape, tape.apply(eval_op_, {x, weight_, bias_, mean_, var_}), act);
  const auto out = tape.apply(train_op(act), std::array{x, weight_, bias_}, 4);
  follow_batch(out[1].value().span<float>(), out[3].value().span<float>(),
               x.shape().numel() / std::max<int64_t>(x.shape()[1], 1));
  return out[0];
}

void BatchNorm2d::follow_batch(std::span<const float> mean, std::span<const float> var,
                               int64_t count) const {
  const auto n = static_cast<double>(count);
  follow(mean_, mean, options_.keep, 1);
  follow(var_, var, options_.keep, options_.unbiased && n > 1 ? n / (n - 1) : 1.);
}

LayerNorm::LayerNorm(int64_t size, float epsilon)
    : op_(std::make_shared<LayerNormOp>(-1, epsilon)) {
  weight_ = add_parameter("weight", {size}, {Init::Kind::kConstant, 1});
  bias_ = add_parameter("bias", {size}, {});
}

Variable LayerNorm::operator()(Tape& tape, const Variable& x) const {
  return tape.apply(op_, {x, weight_, bias_});
}

Embedding::Embedding(int64_t count, int64_t size, std::optional<int64_t> padding)
    : padding_(padding) {
  weight_ = add_parameter("weight", {count, size}, {Init::Kind::kNormal, 1});
}

Variable Embedding::operator()(Tape& tape, const Variable& indices) const {
  return embed(tape, weight_, indices, padding_);
}

}  // namespace train::nn
