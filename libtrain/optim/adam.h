// Adam and AdamW.
#pragma once
#include <string>

#include "libtrain/optim/optimizer.h"

namespace train::optim {

struct AdamOptions {
  double learning_rate = 1e-3;
  double beta1 = .9, beta2 = .999, epsilon = 1e-8;
  double weight_decay = 0;
  /// False: Adam, the decay is L2 and goes through the moments (Kingma & Ba 2015; Paddle's
  /// `regularizer: L2`). True: AdamW, w shrinks by learning_rate weight_decay beside the moments
  /// (Loshchilov & Hutter 2019).
  bool decoupled = false;
  /// No decay for parameters whose name contains one of these parts.
  std::vector<std::string> no_weight_decay_name = {};
  /// No decay for parameters of one dimension: biases and norms.
  bool one_dim_param_no_weight_decay = false;
};

/// m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
/// w -= learning_rate m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon).
/// A rule's weight decay counts also where the exclusions say none.
class Adam final : public Optimizer {
 public:
  Adam(std::vector<nn::Parameter> parameters, const AdamOptions& options,
       std::span<const ParameterRule> rules = {});

 private:
  void update(Item& item, double rate, const float* grad, float* w, int64_t n) override;
  AdamOptions options_;
};

}  // namespace train::optim
