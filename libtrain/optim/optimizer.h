// Optimizer: what all optimisers share: parameters with their own rates and decays, freezing,
// state.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libtrain/core/state.h"
#include "libtrain/nn/module.h"

namespace train::optim {

/// True when `name` ("backbone.conv1.weight") is meant by `pattern`: with `*` a glob over the whole
/// name, without one a module's or parameter's full name ("backbone.conv1", "backbone").
bool matches(std::string_view pattern, std::string_view name);

/// Stops training of every parameter that a pattern matches; returns how many. Throws Error naming
/// a pattern that matches none: a typing error would train what should stand still.
int64_t freeze(std::span<nn::Parameter> parameters, std::span<const std::string> patterns);

/// What is different for the parameters that `pattern` matches, beyond what their layer says
/// (Parameter::lr_multiplier, weight_decay). Of several rules that set the same
/// thing the last one counts.
struct ParameterRule {
  std::string pattern;
  std::optional<double> lr_multiplier = {};
  std::optional<double> weight_decay = {};  // instead of the optimiser's own
};

/// Updates parameters in place from their gradients. Parameters that are frozen or have no gradient
/// stay as they are. Every element is computed alone, so the bits do not depend on thread counts.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One update with the present learning rate; counts the versions of what changed up.
  void step();
  void clear_grad();

  double learning_rate;  // may change between steps; a rule's multiplier comes on top
  std::span<nn::Parameter> parameters() { return parameters_; }

  /// The state under "<slot>.<parameter>"; what no step has made yet is left out.
  void visit_state(StateVisitor& visitor);

 protected:
  /// What one parameter's update needs and keeps.
  struct Item {
    double lr_multiplier = 1, weight_decay = 0;
    double penalty = 0;  // the layer's own decay where the optimiser's is decoupled: both act
    int64_t steps = 0;   // updates of this parameter so far, the present one included
    std::vector<Tensor> slots;  // as many as slot_names(), f32 in the parameter's shape
  };

  /// `weight_decay` is what holds where no rule says otherwise; a layer's own decay, which is an L2
  /// penalty, stands in its place, or beside it where that is `decoupled` (as in Paddle's AdamW).
  /// Throws Error naming a rule's pattern that matches no parameter.
  Optimizer(std::vector<nn::Parameter> parameters, double learning_rate, double weight_decay,
            std::span<const ParameterRule> rules, std::vector<std::string> slot_names,
            bool decoupled = false);
  /// w: the n weights, grad: their gradient; both linear. `rate` includes the multiplier.
  virtual void update(Item& item, double rate, const float* grad, float* w, int64_t n) = 0;

  std::vector<nn::Parameter> parameters_;
  std::vector<Item> items_;

 private:
  std::vector<std::string> slot_names_;
};

}  // namespace train::optim
