#include "libtrain/nn/sequence.h"

#include <cmath>

#include "libtrain/autograd/lstm.h"

namespace train::nn {

Lstm::Lstm(int64_t in, int64_t hidden, int layers, bool bidirectional)
    : op_(std::make_shared<LstmOp>(bidirectional)) {
  require(in > 0 && hidden > 0 && layers > 0, "an LSTM needs inputs, hidden units and layers");
  const Init init{Init::Kind::kUniform, 1 / std::sqrt(static_cast<double>(hidden))};
  for (int k = 0; k < layers; ++k) {
    layers_.emplace_back();
    const int64_t width = k ? hidden * (bidirectional ? 2 : 1) : in;
    for (const char* suffix : {"", "_reverse"}) {
      if (*suffix && !bidirectional) break;
      const auto add = [&](const char* name, const Shape& shape) {
        layers_.back().push_back(add_parameter(cat(name, "_l", k, suffix), shape, init));
      };
      add("weight_ih", {4 * hidden, width});
      add("weight_hh", {4 * hidden, hidden});
      add("bias_ih", {4 * hidden});
      add("bias_hh", {4 * hidden});
    }
  }
}

Variable Lstm::operator()(Tape& tape, const Variable& x) const {
  Variable y = x;
  for (const auto& parameters : layers_) {
    std::vector<Variable> inputs{y};
    inputs.insert(inputs.end(), parameters.begin(), parameters.end());
    y = tape.apply(op_, inputs, 3)[0];
  }
  return y;
}

SelfAttention::SelfAttention(const AttentionOptions& options)
    : options_(options),
      qkv_(options.channels, 3 * options.channels, options.qkv_bias),
      proj_(options.channels, options.channels) {
  add_module("qkv", qkv_);
  add_module("proj", proj_);
}

Variable SelfAttention::operator()(Tape& tape, const Variable& x, const Variable& mask) const {
  const Variable y = self_attention(tape, qkv_(tape, x), options_.heads, mask,
                                    training() ? options_.attention_dropout : 0);
  const Variable out = proj_(tape, y);
  return training() ? dropout(tape, out, options_.output_dropout) : out;
}

}  // namespace train::nn
