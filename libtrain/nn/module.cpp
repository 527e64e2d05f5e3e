#include "libtrain/nn/module.h"

#include <cmath>

#include "libtrain/core/philox.h"

namespace train::nn {

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
        x[i] = static_cast<float>(bound * random.normal(index));
        break;
    }
  }
}

std::vector<Parameter> Module::parameters() const {
  std::vector<Parameter> all;
  collect("", all);
  return all;
}

void Module::initialize(uint64_t seed) {
  for (Parameter& p : parameters()) fill(p.variable.writable(), p.init, seed, p.name);
}

Variable Module::add_parameter(std::string name, const Shape& shape, const Init& init) {
  own_.push_back({std::move(name), Variable::parameter(Tensor::zeros(shape)), init});
  return own_.back().variable;
}

void Module::add_module(std::string name, Module& child) {
  children_.emplace_back(std::move(name), &child);
}

void Module::collect(const std::string& prefix, std::vector<Parameter>& out) const {
  for (const Parameter& p : own_) out.push_back({prefix + p.name, p.variable, p.init});
  for (const auto& [name, child] : children_) child->collect(prefix + name + ".", out);
}

}  // namespace train::nn
