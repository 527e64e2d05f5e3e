#include "libtrain/optim/ema.h"

#include <algorithm>
#include <cmath>

#include "libtrain/core/error.h"
#include "libtrain/core/thread_pool.h"

namespace train::optim {

constexpr int64_t kGrain = 16384;  // elements

Ema::Ema(const nn::Module& model, const EmaOptions& options)
    : state_(model.state_dict()), averages_(state_.size()), options_(options) {
  if (!(options.decay >= 0 && options.decay < 1))
    throw ConfigError("", 0, 0, cat("ema_decay must be in [0, 1), not ", options.decay));
}

double Ema::decay_now() const {
  const auto n = static_cast<double>(updates_);
  switch (options_.type) {
    case EmaOptions::Type::kThreshold:
      return std::min(options_.decay, (1 + n) / (10 + n));
    case EmaOptions::Type::kExponential:
      return options_.decay * (1 - std::exp(-(n + 1) / 2000));
    case EmaOptions::Type::kNormal:
      return options_.decay;
  }
  return options_.decay;
}

void Ema::update() {
  const double decay = decay_now();
  total_ = decay * total_ + (1 - decay);
  const auto weight = static_cast<float>((1 - decay) / total_);  // 1 at first
  for (size_t i = 0; i < state_.size(); ++i) {
    const Tensor& value = state_[i].variable.value();
    if (!averages_[i].defined()) averages_[i] = Tensor::zeros(value.shape());
    float* average = averages_[i].data<float>();
    const float* w = value.data<float>();
    parallel_for(value.numel(), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) average[j] += weight * (w[j] - average[j]);
    });
  }
  ++updates_;
}

void Ema::swap() {
  if (updates_ == 0) return;
  for (size_t i = 0; i < state_.size(); ++i) {
    float* w = state_[i].variable.writable().data<float>();
    std::swap_ranges(w, w + averages_[i].numel(), averages_[i].data<float>());
  }
}

void Ema::visit_state(StateVisitor& visitor) {
  visitor.value("updates", updates_);
  visitor.value("total", total_);
  for (size_t i = 0; i < state_.size(); ++i) visitor.maybe_tensor(state_[i].name, averages_[i]);
}

}  // namespace train::optim
