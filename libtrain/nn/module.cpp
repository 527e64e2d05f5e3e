#include "libtrain/nn/module.h"

#include <algorithm>
#include <cmath>

#include "libtrain/core/philox.h"

namespace train::nn {
namespace {

// A standard normal number within two deviations: the first of 16 draws that is.
double truncated(const RandomStream& random, uint64_t index) {
  for (uint64_t k = 0; k < 16; ++k)
    if (const double v = random.normal(index * 16 + k); std::abs(v) <= 2) return v;
  return 0;
}

std::string state_name(const std::string& name, Naming naming) {
  if (naming == Naming::kTorch) return name;
  const size_t dot = name.rfind('.');
  const std::string last = dot == std::string::npos ? name : name.substr(dot + 1);
  const std::string prefix = name.substr(0, name.size() - last.size());
  if (last == "running_mean") return prefix + "_mean";
  if (last == "running_var") return prefix + "_variance";
  return name;
}

}  // namespace

void fill(Tensor& t, const Init& init, uint64_t seed, std::string_view name) {
  const RandomStream random(seed, stream_of(name));
  const double fan = static_cast<double>(init.fan_in);
  double bound = init.gain;
  if (init.kind == Init::Kind::kKaimingUniform) bound *= std::sqrt(3 / fan);
  if (init.kind == Init::Kind::kKaimingNormal) bound /= std::sqrt(fan);
  float* x = t.data<float>();
  for (int64_t i = 0; i < t.numel(); ++i) {
    const auto index = static_cast<uint64_t>(i);
    switch (init.kind) {
      case Init::Kind::kConstant:
        x[i] = static_cast<float>(init.gain);
        break;
      case Init::Kind::kUniform:
      case Init::Kind::kKaimingUniform:
        x[i] = random.uniform(index, static_cast<float>(-bound), static_cast<float>(bound));
        break;
      case Init::Kind::kKaimingNormal:
      case Init::Kind::kNormal:
        x[i] = static_cast<float>(bound * random.normal(index));
        break;
      case Init::Kind::kTruncatedNormal:
        x[i] = static_cast<float>(bound * truncated(random, index));
        break;
      case Init::Kind::kValues:
        x[i] = init.values.at(index);
        break;
    }
  }
}

template <class F>
void Module::each_module(const std::string& prefix, F&& f) const {
  f(prefix, *this);
  for (const auto& [name, child] : children_) child->each_module(prefix + name + ".", f);
}

std::vector<Parameter> Module::parameters() const {
  std::vector<Parameter> all;
  each_module("", [&](const std::string& prefix, const Module& m) {
    for (Parameter p : m.own_) {
      p.name = prefix + p.name;
      all.push_back(std::move(p));
    }
  });
  return all;
}

std::vector<Buffer> Module::buffers() const {
  std::vector<Buffer> all;
  each_module("", [&](const std::string& prefix, const Module& m) {
    for (const OwnBuffer& b : m.buffers_)
      all.push_back({prefix + b.buffer.name, b.buffer.variable});
  });
  return all;
}

std::vector<StateEntry> Module::state_dict(Naming naming) const {
  std::vector<StateEntry> all;
  each_module("", [&](const std::string& prefix, const Module& m) {
    for (const Parameter& p : m.own_)
      all.push_back({state_name(prefix + p.name, naming), p.variable, false,
                     p.matrix && naming == Naming::kPaddle});
    for (const OwnBuffer& b : m.buffers_)
      all.push_back({state_name(prefix + b.buffer.name, naming), b.buffer.variable, true, false});
  });
  return all;
}

std::vector<Module*> Module::descendants() const {
  std::vector<Module*> all;
  for (const auto& [name, child] : children_) {
    all.push_back(child);
    for (Module* m : child->descendants()) all.push_back(m);
  }
  return all;
}

void Module::initialize(uint64_t seed) {
  for (Parameter& p : parameters()) fill(p.variable.writable(), p.init, seed, p.name);
  each_module("", [](const std::string&, const Module& m) {
    for (OwnBuffer b : m.buffers_) {  // a handle: the value is shared
      Tensor& t = b.buffer.variable.writable();
      std::fill_n(t.data<float>(), t.numel(), b.start);
    }
  });
}

void Module::train(bool on) {
  training_ = on;
  for (const auto& [name, child] : children_) child->train(on);
}

void Module::scale_learning_rate(float factor) {
  for (Parameter& p : own_) p.lr_multiplier *= factor;
  for (const auto& [name, child] : children_) child->scale_learning_rate(factor);
}

void Module::set_weight_decay(float decay) {
  for (Parameter& p : own_) p.weight_decay = decay;
  for (const auto& [name, child] : children_) child->set_weight_decay(decay);
}

void Module::each_parameter(const std::function<void(Parameter&)>& f) {
  for (Parameter& p : own_) f(p);
  for (const auto& [name, child] : children_) child->each_parameter(f);
}

void Module::set_requires_grad(bool on) {
  for (Parameter& p : own_) p.variable.set_requires_grad(on);
  for (const auto& [name, child] : children_) child->set_requires_grad(on);
}

Variable Module::add_parameter(std::string name, const Shape& shape, const Init& init,
                               bool matrix) {
  Parameter p;
  p.name = std::move(name);
  p.variable = Variable::parameter(Tensor::zeros(shape));
  p.init = init;
  p.matrix = matrix;
  own_.push_back(std::move(p));
  return own_.back().variable;
}

Variable Module::add_buffer(std::string name, const Shape& shape, float value) {
  Tensor t(shape);
  std::fill_n(t.data<float>(), t.numel(), value);
  buffers_.push_back({{std::move(name), Variable::input(t)}, value});
  return buffers_.back().buffer.variable;
}

void Module::add_module(std::string name, Module& child) {
  children_.emplace_back(std::move(name), &child);
}

}  // namespace train::nn
