#include "libtrain/optim/sgd.h"

#include "libtrain/core/thread_pool.h"

namespace train::optim {
namespace {

constexpr int64_t kGrain = 16384;  // elements

void update(const SgdOptions& o, const float* grad, float* velocity, float* w, int64_t n) {
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float d = grad[i] + o.weight_decay * w[i];
      if (velocity) d = velocity[i] = o.momentum * velocity[i] + d;
      w[i] -= o.learning_rate * d;
    }
  });
}

}  // namespace

Sgd::Sgd(std::vector<nn::Parameter> parameters, const SgdOptions& options)
    : options(options), parameters_(std::move(parameters)), velocity_(parameters_.size()) {}

void Sgd::step() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Variable& v = parameters_[i].variable;
    if (!v.requires_grad() || !v.grad().defined()) continue;
    if (options.momentum != 0 && !velocity_[i].defined()) velocity_[i] = Tensor::zeros(v.shape());
    float* velocity = options.momentum != 0 ? velocity_[i].data<float>() : nullptr;
    update(options, v.grad().data<float>(), velocity, v.writable().data<float>(),
           v.value().numel());
  }
}

void Sgd::clear_grad() {
  for (nn::Parameter& p : parameters_) p.variable.clear_grad();
}

}  // namespace train::optim
