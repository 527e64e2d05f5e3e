#include "libocr/models/layers.h"

#include <algorithm>
#include <cmath>

namespace ocr::models {

using nn::Init;
using train::Window;

namespace {

class Activation final : public Layer {
 public:
  explicit Activation(Act act) : act_(act) {}
  Variable operator()(Tape& tape, const Variable& x) const override {
    return activate(tape, x, act_);
  }

 private:
  Act act_;
};

}  // namespace

void Sequential::append_act(Act act) { append<Activation>(act); }

Variable Sequential::operator()(Tape& tape, const Variable& x) const {
  Variable y = x;
  for (const Layer* layer : layers_) y = (*layer)(tape, y);
  return y;
}

Conv::Conv(int64_t in, int64_t out, const Window& window, int64_t groups, bool bias)
    : op_(std::make_shared<train::ConvOp>(window, groups)) {
  const train::Shape shape{out, in / groups, window.kernel[0], window.kernel[1]};
  weight_ = add_parameter("weight", shape,
                          {Init::Kind::kKaimingNormal, std::sqrt(2.), shape.count(1, 4)});
  if (bias) bias_ = add_parameter("bias", {out}, {});
}

Variable Conv::operator()(Tape& tape, const Variable& x) const {
  return tape.apply(op_, {x, weight_, bias_});
}

ConvBn::ConvBn(int64_t in, int64_t out, const Window& window, int64_t groups, Act act,
               ConvBnNames names, bool bias)
    : conv_(add<Conv>(names.conv, in, out, window, groups, bias)),
      norm_(add<BatchNorm>(names.norm, out)),
      act_(act) {}

Variable ConvBn::operator()(Tape& tape, const Variable& x) const {
  return norm_(tape, conv_(tape, x), activation(act_));
}

SqueezeExcite::SqueezeExcite(int64_t channels, float slope, int64_t reduction)
    : reduce_(add<Conv>("conv1", channels, channels / reduction, window(1))),
      expand_(add<Conv>("conv2", channels / reduction, channels, window(1))),
      slope_(slope) {}

Variable SqueezeExcite::operator()(Tape& tape, const Variable& x) const {
  const Variable squeezed = reduce_(tape, train::global_average_pool(tape, x));
  const Variable gate = expand_(tape, activate(tape, squeezed, Act::kRelu));
  return train::mul(tape, x, train::hard_sigmoid(tape, gate, slope_));
}

LearnableAffine::LearnableAffine(double learning_rate)
    : scale_(add_parameter("scale", {1}, {Init::Kind::kConstant, 1})),
      bias_(add_parameter("bias", {1}, {})) {
  scale_learning_rate(static_cast<float>(learning_rate));
}

Variable LearnableAffine::operator()(Tape& tape, const Variable& x) const {
  return train::add(tape, train::mul(tape, x, scale_), bias_);
}

namespace {

// `init` says how a weight [out, in] starts.
template <class F>
void start_linears(nn::Module& module, F&& init) {
  module.each_parameter([&](nn::Parameter& p) {
    if (p.matrix) {
      const train::Shape& s = p.variable.shape();
      p.init = init(static_cast<double>(s[0] + s[1]));
    } else if (p.name == "bias") {
      p.init = {};
    }
  });
}

}  // namespace

void start_truncated_normal(nn::Module& module) {
  start_linears(module, [](double) { return Init{Init::Kind::kTruncatedNormal, .02}; });
}

void start_glorot_normal(nn::Module& module) {
  start_linears(module, [](double fans) { return Init{Init::Kind::kNormal, std::sqrt(2 / fans)}; });
}

void start_glorot_uniform(nn::Module& module) {
  start_linears(module, [](double fans) {
    return Init{Init::Kind::kUniform, std::sqrt(6 / fans)};
  });
}

void start_he_uniform(nn::Module& module) {
  module.each_parameter([](nn::Parameter& p) {
    if (p.variable.shape().rank() == 4) p.init.kind = Init::Kind::kKaimingUniform;
  });
}

void start_over_all_channels(nn::Module& module) {
  module.each_parameter([](nn::Parameter& p) {
    const train::Shape& s = p.variable.shape();
    if (s.rank() == 4 && s[1] == 1) p.init.fan_in = s.numel();
  });
}

int64_t make_divisible(double v, int64_t divisor) {
  const double d = static_cast<double>(divisor);
  auto rounded = std::max(divisor, static_cast<int64_t>(v + d / 2) / divisor * divisor);
  if (static_cast<double>(rounded) < .9 * v) rounded += divisor;
  return rounded;
}

}  // namespace ocr::models
