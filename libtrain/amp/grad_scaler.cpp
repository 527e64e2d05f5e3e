#include "libtrain/amp/grad_scaler.h"

#include <algorithm>
#include <limits>

#include "libtrain/core/error.h"
#include "libtrain/optim/gradients.h"

namespace train::amp {

GradScaler::GradScaler(const GradScalerOptions& options)
    : options_(options), scale_(options.init_scale) {
  const GradScalerOptions& o = options;
  if (!(o.init_scale > 0 && o.growth_factor >= 1 && o.backoff_factor > 0 && o.backoff_factor <= 1 &&
        o.growth_interval > 0 && o.backoff_interval > 0))
    throw ConfigError("", 0, 0,
                      "loss scaling needs a positive scale and intervals, growth >= 1 and a "
                      "backoff in (0, 1]");
}

bool GradScaler::unscale(std::span<nn::Parameter> parameters) const {
  if (optim::gradient_norm(parameters).non_finite > 0) return false;
  optim::scale_gradients(parameters, 1 / scale());
  return true;
}

void GradScaler::update(bool finite) {
  if (!options_.enabled || !options_.dynamic) return;
  if (finite) {
    bad_ = 0;
    if (++good_ < options_.growth_interval) return;
    good_ = 0;
    scale_ = std::min(scale_ * options_.growth_factor,
                      static_cast<double>(std::numeric_limits<float>::max()));
  } else {
    good_ = 0;
    if (++bad_ < options_.backoff_interval) return;
    bad_ = 0;
    scale_ = std::max(scale_ * options_.backoff_factor, std::min(1., options_.init_scale));
  }
}

void GradScaler::visit_state(StateVisitor& visitor) {
  visitor.value("scale", scale_);
  visitor.value("good", good_);
  visitor.value("bad", bad_);
}

}  // namespace train::amp
