// GradScaler: a loss scale that keeps f16 gradients above underflow and finds overflow by itself.
#pragma once
#include <span>

#include "libtrain/core/state.h"
#include "libtrain/nn/module.h"

namespace train::amp {

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2, backoff_factor = .5;
  int64_t growth_interval = 2000;  // updates in a row without overflow until the scale grows
  int64_t backoff_interval = 1;    // updates in a row with overflow until it shrinks
  bool dynamic = true;             // false: the scale stays
  bool enabled = true;             // false: the scale is 1 (f32 and bf16 need none)
};

/// The rules of PyTorch's and Paddle's GradScaler. Per update: backward from loss * scale(), then
/// unscale(), a step if it said true, and update() with what it said.
class GradScaler {
 public:
  explicit GradScaler(const GradScalerOptions& options);
  double scale() const { return options_.enabled ? scale_ : 1; }
  /// Divides the gradients by the scale; false when one of them is NaN or Inf (then they are left
  /// as they are).
  bool unscale(std::span<nn::Parameter> parameters) const;
  void update(bool finite);
  void visit_state(StateVisitor& visitor);

 private:
  GradScalerOptions options_;
  double scale_;
  int64_t good_ = 0, bad_ = 0;  // in a row
};

}  // namespace train::amp
