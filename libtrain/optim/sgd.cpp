#include "libtrain/optim/sgd.h"

#include "libtrain/autograd/kernels.h"

namespace train::optim {

constexpr int64_t kGrain = 16384;  // elements

Sgd::Sgd(std::vector<nn::Parameter> parameters, const SgdOptions& options,
         std::span<const ParameterRule> rules)
    : Optimizer(std::move(parameters), options.learning_rate, options.weight_decay, rules,
                options.momentum != 0 ? std::vector<std::string>{"velocity"}
                                      : std::vector<std::string>{}),
      momentum_(static_cast<float>(options.momentum)),
      nesterov_(options.nesterov) {}

void Sgd::update(Item& item, double rate, const float* grad, float* w, int64_t n) {
  const auto lr = static_cast<float>(rate), decay = static_cast<float>(item.weight_decay);
  if (momentum_ == 0)
    return parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
      grad_kernels().sgd(lr, decay, grad + begin, w + begin, end - begin);
    });
  float* velocity = item.slots[0].data<float>();
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float d = grad[i] + decay * w[i];
      const float v = velocity[i] = momentum_ * velocity[i] + d;
      w[i] -= lr * (nesterov_ ? d + momentum_ * v : v);
    }
  });
}

}  // namespace train::optim
