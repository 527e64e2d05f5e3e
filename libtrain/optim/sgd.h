// SGD: stochastic gradient descent with momentum and weight decay.
#pragma once
#include <vector>

#include "libtrain/nn/module.h"

namespace train::optim {

struct SgdOptions {
  float learning_rate = 0.01f;
  float momentum = 0;
  float weight_decay = 0;  // L2: added to the gradient, as in PyTorch and Paddle
};

/// v = momentum v + (grad + weight_decay w); w -= learning_rate v. Parameters without a gradient,
/// or frozen, stay as they are.
class Sgd {
 public:
  Sgd(std::vector<nn::Parameter> parameters, const SgdOptions& options);
  /// Updates every parameter in place and counts its storage's version up.
  void step();
  void clear_grad();

  SgdOptions options;  // may change between steps

 private:
  std::vector<nn::Parameter> parameters_;
  std::vector<Tensor> velocity_;  // one per parameter, made by the first step that needs it
};

}  // namespace train::optim
