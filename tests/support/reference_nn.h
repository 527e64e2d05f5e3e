// References of layers on double or reference::Real: plain loops over linear (N, C, H, W) arrays.
#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "libtrain/core/shape.h"
#include "libtrain/cpu/activation.h"
#include "tests/support/autodiff.h"
#include "tests/support/reference.h"

namespace train::reference {

template <class T>
using Array1 = std::vector<T>;

template <class T>
T activate(const cpu::Activation& act, const T& x) {
  using cpu::Act;
  using std::abs, std::erf, std::exp, std::log, std::sqrt, std::tanh;
  const double a = act.alpha, b = act.beta;
  const auto clamp01 = [](const T& t) { return t < T(0.) ? T(0.) : t > T(1.) ? T(1.) : t; };
  switch (act.kind) {
    case Act::kNone:
      return x;
    case Act::kRelu:
      return x > T(0.) ? x : T(0.);
    case Act::kClip:
      return x > T(b) ? T(b) : x < T(a) ? T(a) : x;
    case Act::kLeakyRelu:
      return x < T(0.) ? T(a) * x : x;
    case Act::kSigmoid:
      return T(1.) / (T(1.) + exp(-x));
    case Act::kHardSigmoid:
      return clamp01(T(a) * x + T(b));
    case Act::kHardSwish:
      return x * clamp01(T(a) * x + T(b));
    case Act::kSwish:
      return x / (T(1.) + exp(-(T(a) * x)));
    case Act::kTanh:
      return tanh(x);
    case Act::kGelu:
      return T(.5) * x * (T(1.) + erf(x * T(std::sqrt(.5))));
    case Act::kGeluTanh:
      return T(.5) * x * (T(1.) + tanh(T(std::sqrt(2 / M_PI)) * (x + T(.044715) * x * x * x)));
    case Act::kExp:
      return exp(x);
    case Act::kLog:
      return log(x);
    case Act::kSqrt:
      return sqrt(x);
    case Act::kAbs:
      return abs(x);
    case Act::kNeg:
      return -x;
    case Act::kSquare:
      return x * x;
    default:
      return T(NAN);
  }
}

/// x of shape [n, c, inner], statistics over n and inner.
template <class T>
Array1<T> batch_norm(const Array1<T>& x, const Array1<T>& scale, const Array1<T>& bias, int64_t n,
                     int64_t c, int64_t inner, double eps, const cpu::Activation& act) {
  using std::sqrt;
  Array1<T> y(x.size());
  const auto count = static_cast<double>(n * inner);
  for (int64_t k = 0; k < c; ++k) {
    const auto each = [&](auto&& f) {
      for (int64_t b = 0; b < n; ++b)
        for (int64_t i = 0; i < inner; ++i) f((b * c + k) * inner + i);
    };
    T mean(0.), var(0.);
    each([&](int64_t i) { mean += x[i]; });
    mean = mean / T(count);
    each([&](int64_t i) { var += (x[i] - mean) * (x[i] - mean); });
    const T inv = T(1.) / sqrt(var / T(count) + T(eps));
    each([&](int64_t i) { y[i] = activate(act, (x[i] - mean) * inv * scale[k] + bias[k]); });
  }
  return y;
}

template <class T>
Array1<T> layer_norm(const Array1<T>& x, const Array1<T>& scale, const Array1<T>& bias,
                     int64_t cols, double eps) {
  using std::sqrt;
  Array1<T> y(x.size());
  for (int64_t r = 0; r < static_cast<int64_t>(x.size()); r += cols) {
    T mean(0.), var(0.);
    for (int64_t i = 0; i < cols; ++i) mean += x[r + i];
    mean = mean / T(static_cast<double>(cols));
    for (int64_t i = 0; i < cols; ++i) var += (x[r + i] - mean) * (x[r + i] - mean);
    const T inv = T(1.) / sqrt(var / T(static_cast<double>(cols)) + T(eps));
    for (int64_t i = 0; i < cols; ++i) y[r + i] = (x[r + i] - mean) * inv * scale[i] + bias[i];
  }
  return y;
}

/// Strides of a shape broadcast to `full`, 0 where it is repeated.
inline std::vector<int64_t> broadcast_strides(const Shape& s, const Shape& full) {
  std::vector<int64_t> strides(static_cast<size_t>(full.rank()), 0);
  int64_t step = 1;
  for (int i = s.rank() - 1; i >= 0; --i) {
    if (s[i] != 1) strides[i + full.rank() - s.rank()] = step;
    step *= s[i];
  }
  return strides;
}

/// Calls f(linear index of full, index in a, index in b) for all elements.
template <class F>
void each_broadcast(const Shape& a, const Shape& b, const Shape& full, F&& f) {
  const auto sa = broadcast_strides(a, full), sb = broadcast_strides(b, full);
  for (int64_t i = 0; i < full.numel(); ++i) {
    int64_t rest = i, ia = 0, ib = 0;
    for (int d = full.rank() - 1; d >= 0; --d) {
      ia += rest % full[d] * sa[d];
      ib += rest % full[d] * sb[d];
      rest /= full[d];
    }
    f(i, ia, ib);
  }
}

/// f(a, b) with broadcasting.
template <class T, class F>
Array1<T> binary(const Shape& sa, const Array1<T>& a, const Shape& sb, const Array1<T>& b, F&& f) {
  const Shape full = broadcast(sa, sb);
  Array1<T> y(static_cast<size_t>(full.numel()));
  each_broadcast(sa, sb, full, [&](int64_t i, int64_t ia, int64_t ib) { y[i] = f(a[ia], b[ib]); });
  return y;
}

/// x: [outer, n, inner].
template <class T>
Array1<T> softmax(const Array1<T>& x, int64_t outer, int64_t n, int64_t inner, bool log_form) {
  using std::exp, std::log;
  Array1<T> y(x.size());
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      const auto at = [&](int64_t j) { return (o * n + j) * inner + i; };
      double top = -INFINITY;
      for (int64_t j = 0; j < n; ++j) top = std::max(top, value_of(x[at(j)]));
      T sum(0.);
      for (int64_t j = 0; j < n; ++j) sum += exp(x[at(j)] - T(top));
      for (int64_t j = 0; j < n; ++j)
        y[at(j)] = log_form ? x[at(j)] - T(top) - log(sum) : exp(x[at(j)] - T(top)) / sum;
    }
  return y;
}

/// Means of windows; c describes the pool (groups == cin == cout).
template <class T>
Array1<T> average_pool(const Conv& c, const Array1<T>& x, bool count_pad) {
  Array1<T> y(static_cast<size_t>(c.y_size()), T(0.));
  std::vector<double> count(y.size(), 0);
  c.each([&](int64_t yi, int64_t xi, int64_t) {
    y[yi] += x[xi];
    count[yi] += 1;
  });
  for (size_t i = 0; i < y.size(); ++i) {
    if (count_pad) count[i] = c.kernel[0] * c.kernel[1];
    y[i] = count[i] > 0 ? y[i] / T(count[i]) : T(0.);
  }
  return y;
}

/// Transposed convolution: the map that takes y of `c` to its x (so cin and cout are exchanged).
template <class T>
Array1<T> conv_transpose(const Conv& c, const Array1<T>& y, const Array1<T>& w,
                         const Array1<T>& bias) {
  Array1<T> x(static_cast<size_t>(c.x_size()));
  for (int64_t i = 0; i < c.x_size(); ++i) x[i] = bias[i / (c.h * c.w) % c.cin];
  c.each([&](int64_t yi, int64_t xi, int64_t wi) { x[xi] += y[yi] * w[wi]; });
  return x;
}

}  // namespace train::reference
