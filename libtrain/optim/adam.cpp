#include "libtrain/optim/adam.h"

#include <algorithm>
#include <cmath>

#include "libtrain/autograd/kernels.h"

namespace train::optim {

constexpr int64_t kGrain = 4096;  // elements

namespace {

// The exclusions, as rules that stand before the caller's.
std::vector<ParameterRule> with_exclusions(const std::vector<nn::Parameter>& parameters,
                                           const AdamOptions& o,
                                           std::span<const ParameterRule> rules) {
  std::vector<ParameterRule> all;
  for (const nn::Parameter& p : parameters) {
    const bool named = std::ranges::any_of(o.no_weight_decay_name, [&](const std::string& part) {
      return p.name.find(part) != std::string::npos;
    });
    if (named || (o.one_dim_param_no_weight_decay && p.variable.shape().rank() == 1))
      all.push_back({.pattern = p.name, .weight_decay = 0});
  }
  all.insert(all.end(), rules.begin(), rules.end());
  return all;
}

}  // namespace

Adam::Adam(std::vector<nn::Parameter> parameters, const AdamOptions& options,
           std::span<const ParameterRule> rules)
    : Optimizer(parameters, options.learning_rate, options.weight_decay,
                with_exclusions(parameters, options, rules), {"moment1", "moment2"},
                options.decoupled),
      options_(options) {}

void Adam::update(Item& item, double rate, const float* grad, float* w, int64_t n) {
  const auto t = static_cast<double>(item.steps);
  const double root = std::sqrt(1 - std::pow(options_.beta2, t));
  // m / (1 - b1^t) / (sqrt(v) / root + eps) = m (root / (1 - b1^t)) / (sqrt(v) + eps root)
  const auto lr = static_cast<float>(rate * root / (1 - std::pow(options_.beta1, t)));
  const auto eps = static_cast<float>(options_.epsilon * root);
  const auto b1 = static_cast<float>(options_.beta1), b2 = static_cast<float>(options_.beta2);
  const auto c1 = static_cast<float>(1 - options_.beta1);
  const auto c2 = static_cast<float>(1 - options_.beta2);
  const auto l2 = static_cast<float>(options_.decoupled ? item.penalty : item.weight_decay);
  const auto keep = static_cast<float>(options_.decoupled ? 1 - rate * item.weight_decay : 1);
  const cpu::AdamArgs args{lr, eps, b1, b2, c1, c2, l2, keep};
  float* const m = item.slots[0].data<float>();
  float* const v = item.slots[1].data<float>();
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    grad_kernels().adam(args, grad + begin, w + begin, m + begin, v + begin, end - begin);
  });
}

}  // namespace train::optim
