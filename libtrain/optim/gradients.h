// What is done to gradients between backward and step: unscaling, finding NaN and Inf, clipping.
#pragma once
#include <span>

#include "libtrain/nn/module.h"

namespace train::optim {

struct GradientNorm {
  double norm = 0;         // Euclidean, of all gradients together; NaN or Inf shows up here too
  int64_t non_finite = 0;  // elements that are NaN or Inf
};

/// The norm of all gradients times `factor`, f64 sums of fixed blocks: the same bits for any number
/// of threads. Parameters without a gradient are left out.
GradientNorm gradient_norm(std::span<const nn::Parameter> parameters, double factor = 1);

/// Multiplies every gradient. A gradient that something else holds is replaced, not changed.
void scale_gradients(std::span<nn::Parameter> parameters, double factor);

/// Scales all gradients by max_norm / norm when the norm of all together is larger (Pascanu et al.
/// 2013; Paddle's `clip_norm_global`). Returns the norm before.
double clip_by_global_norm(std::span<nn::Parameter> parameters, double max_norm);
/// The same for every gradient by its own norm (Paddle's `clip_norm`).
void clip_by_norm(std::span<nn::Parameter> parameters, double max_norm);
/// Brings every element into [-limit, limit].
void clip_by_value(std::span<nn::Parameter> parameters, double limit);

}  // namespace train::optim
