#include "libtrain/optim/gradients.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "libtrain/core/thread_pool.h"

namespace train::optim {
namespace {

constexpr int64_t kBlock = 8192;  // elements summed in one chain; part of the result's bits

struct Part {
  double squares = 0;
  int64_t non_finite = 0;
};

// Four chains, so that the sum is not bound by the latency of one addition.
Part sum_block(const float* g, int64_t n, double factor) {
  double s[4] = {};
  int64_t bad = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double v = g[i] * factor;
    s[i % 4] += v * v;
    bad += !std::isfinite(g[i]);
  }
  return {(s[0] + s[1]) + (s[2] + s[3]), bad};
}

Part sum_squares(const Tensor& grad, double factor) {
  const float* g = grad.data<float>();
  const int64_t n = grad.numel(), blocks = (n + kBlock - 1) / kBlock;
  std::vector<Part> parts(static_cast<size_t>(blocks));
  parallel_for(blocks, 2, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b)
      parts[static_cast<size_t>(b)] =
          sum_block(g + b * kBlock, std::min(kBlock, n - b * kBlock), factor);
  });
  Part all;
  for (const Part& p : parts) {
    all.squares += p.squares;
    all.non_finite += p.non_finite;
  }
  return all;
}

template <class F>
void map(Variable& v, F f) {
  Tensor& grad = v.writable_grad();
  float* g = grad.data<float>();
  parallel_for(grad.numel(), 16384, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) g[i] = f(g[i]);
  });
}

void scale(Variable& v, double factor) {
  map(v, [f = static_cast<float>(factor)](float g) { return g * f; });
}

}  // namespace

GradientNorm gradient_norm(std::span<const nn::Parameter> parameters, double factor) {
  Part all;
  for (const nn::Parameter& p : parameters) {
    if (!p.variable.grad().defined()) continue;
    const Part part = sum_squares(p.variable.grad(), factor);
    all.squares += part.squares;
    all.non_finite += part.non_finite;
  }
  return {std::sqrt(all.squares), all.non_finite};
}

void scale_gradients(std::span<nn::Parameter> parameters, double factor) {
  if (factor == 1) return;
  for (nn::Parameter& p : parameters)
    if (p.variable.grad().defined()) scale(p.variable, factor);
}

double clip_by_global_norm(std::span<nn::Parameter> parameters, double max_norm) {
  const double norm = gradient_norm(parameters).norm;
  if (norm > max_norm) scale_gradients(parameters, max_norm / norm);
  return norm;
}

void clip_by_norm(std::span<nn::Parameter> parameters, double max_norm) {
  for (nn::Parameter& p : parameters) {
    if (!p.variable.grad().defined()) continue;
    const double norm = std::sqrt(sum_squares(p.variable.grad(), 1).squares);
    if (norm > max_norm) scale(p.variable, max_norm / norm);
  }
}

void clip_by_value(std::span<nn::Parameter> parameters, double limit) {
  const auto bound = static_cast<float>(limit);
  for (nn::Parameter& p : parameters)
    if (p.variable.grad().defined())
      map(p.variable, [bound](float g) { return std::clamp(g, -bound, bound); });
}

}  // namespace train::optim
