#include "libtrain/optim/optimizer.h"

#include "libtrain/core/error.h"

namespace train::optim {
namespace {

bool glob(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p, ++t;
    } else if (star != std::string_view::npos) {  // let the last star take one character more
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

}  // namespace

bool matches(std::string_view pattern, std::string_view name) {
  if (pattern.find('*') != std::string_view::npos) return glob(pattern, name);
  return name.starts_with(pattern) &&
         (name.size() == pattern.size() || name[pattern.size()] == '.') && !pattern.empty();
}

int64_t freeze(std::span<nn::Parameter> parameters, std::span<const std::string> patterns) {
  int64_t frozen = 0;
  for (const std::string& pattern : patterns) {
    bool found = false;
    for (nn::Parameter& p : parameters) {
      if (!matches(pattern, p.name)) continue;
      found = true;
      frozen += p.variable.requires_grad();
      p.variable.set_requires_grad(false);
    }
    if (!found) throw Error("freeze: no parameter's name matches '" + pattern + "'");
  }
  return frozen;
}

Optimizer::Optimizer(std::vector<nn::Parameter> parameters, double learning_rate,
                     double weight_decay, std::span<const ParameterRule> rules,
                     std::vector<std::string> slot_names, bool decoupled)
    : learning_rate(learning_rate),
      parameters_(std::move(parameters)),
      items_(parameters_.size()),
      slot_names_(std::move(slot_names)) {
  for (size_t i = 0; i < items_.size(); ++i) {  // the layer's own settings, then the rules
    items_[i].lr_multiplier = parameters_[i].lr_multiplier;
    const double own = parameters_[i].weight_decay ? double{*parameters_[i].weight_decay} : 0;
    items_[i].penalty = decoupled ? own : 0;
    items_[i].weight_decay = parameters_[i].weight_decay && !decoupled ? own : weight_decay;
    items_[i].slots.resize(slot_names_.size());
  }
  for (const ParameterRule& rule : rules) {
    bool found = false;
    for (size_t i = 0; i < items_.size(); ++i) {
      if (!matches(rule.pattern, parameters_[i].name)) continue;
      found = true;
      if (rule.lr_multiplier) items_[i].lr_multiplier = *rule.lr_multiplier;
      if (rule.weight_decay) items_[i].weight_decay = *rule.weight_decay;
    }
    if (!found)
      throw Error("optimiser: no parameter's name matches the rule '" + rule.pattern + "'");
  }
}

void Optimizer::step() {
  for (size_t i = 0; i < items_.size(); ++i) {
    Variable& v = parameters_[i].variable;
    if (!v.requires_grad() || !v.grad().defined()) continue;
    ++items_[i].steps;
    for (Tensor& slot : items_[i].slots)
      if (!slot.defined()) slot = Tensor::zeros(v.shape());
    update(items_[i], learning_rate * items_[i].lr_multiplier, v.grad().data<float>(),
           v.writable().data<float>(), v.value().numel());
  }
}

void Optimizer::clear_grad() {
  for (nn::Parameter& p : parameters_) p.variable.clear_grad();
}

void Optimizer::visit_state(StateVisitor& visitor) {
  for (size_t i = 0; i < items_.size(); ++i) {
    visitor.value("steps." + parameters_[i].name, items_[i].steps);
    for (size_t s = 0; s < slot_names_.size(); ++s)
      visitor.maybe_tensor(slot_names_[s] + "." + parameters_[i].name, items_[i].slots[s]);
  }
}

}  // namespace train::optim
