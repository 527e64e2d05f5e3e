// SGD: stochastic gradient descent with momentum and weight decay.
#pragma once
#include "libtrain/optim/optimizer.h"

namespace train::optim {

struct SgdOptions {
  double learning_rate = 0.01;
  double momentum = 0;
  double weight_decay = 0;  // L2: added to the gradient, as in PyTorch and Paddle
  bool nesterov = false;
};

/// d = grad + weight_decay w; v = momentum v + d; w -= learning_rate v, with `nesterov`
/// w -= learning_rate (d + momentum v). (Sutskever et al. 2013; PyTorch's SGD, Paddle's Momentum.)
class Sgd final : public Optimizer {
 public:
  Sgd(std::vector<nn::Parameter> parameters, const SgdOptions& options,
      std::span<const ParameterRule> rules = {});

 private:
  void update(Item& item, double rate, const float* grad, float* w, int64_t n) override;
  float momentum_;
  bool nesterov_;
};

}  // namespace train::optim
