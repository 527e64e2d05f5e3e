// Shared by the kernel tests: seeded data, double-precision references of activations, and loops
// over ISAs and threads.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "libtrain/core/dtype.h"
#include "libtrain/core/error.h"
#include "libtrain/core/tensor.h"
#include "libtrain/core/thread_pool.h"
#include "libtrain/cpu/activation.h"
#include "libtrain/cpu/isa.h"

namespace train::cpu {

class Rng {
 public:
  explicit Rng(uint64_t seed) : g_(seed * 7919 + 17) {}
  int64_t range(int64_t lo, int64_t hi) {
    return lo + static_cast<int64_t>(g_() % static_cast<uint64_t>(hi - lo + 1));
  }
  bool chance(double p) { return std::uniform_real_distribution<>(0, 1)(g_) < p; }
  float value(float scale = 1) { return std::uniform_real_distribution<float>(-scale, scale)(g_); }
  std::vector<float> values(int64_t n, float scale = 1) {
    std::vector<float> v(static_cast<size_t>(std::max<int64_t>(n, 0)));
    for (float& x : v) x = value(scale);
    return v;
  }

 private:
  std::mt19937_64 g_;
};

// 64-byte aligned bytes for workspaces, filled with NaN so that reading stale memory shows.
class Workspace {
 public:
  explicit Workspace(size_t bytes) : s_(bytes + 64) { std::memset(s_.data(), 0xFF, s_.bytes()); }
  void* get() const { return s_.data(); }

 private:
  Storage s_;
};

// A [rows, cols] matrix in a buffer with row stride ld, exactly as long as needed; gaps hold a
// marker.
struct Strided {
  static constexpr float kMarker = 12345.678f;
  int64_t rows, cols, ld;
  std::vector<float> v;
  Strided(int64_t rows_, int64_t cols_, int64_t ld_)
      : rows(rows_),
        cols(cols_),
        ld(ld_),
        v(static_cast<size_t>(rows > 0 ? (rows - 1) * ld + cols : 0), kMarker) {}
  Strided(int64_t rows_, int64_t cols_, int64_t ld_, Rng& rng, float scale = 1)
      : Strided(rows_, cols_, ld_) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) at(r, c) = rng.value(scale);
  }
  float& at(int64_t r, int64_t c) { return v[static_cast<size_t>(r * ld + c)]; }
  float at(int64_t r, int64_t c) const { return v[static_cast<size_t>(r * ld + c)]; }
  float* data() { return v.data(); }
  const float* data() const { return v.data(); }
  // True when no float between the rows was written.
  bool gaps_untouched() const {
    for (int64_t r = 0; r + 1 < rows; ++r)
      for (int64_t c = cols; c < ld; ++c)
        if (at(r, c) != kMarker) return false;
    return true;
  }
  bool same_bits(const Strided& o) const {
    return v.size() == o.v.size() && !std::memcmp(v.data(), o.v.data(), v.size() * sizeof(float));
  }
};

// act(x) in double.
inline double reference_act(const Activation& f, double x) {
  const double a = f.alpha, b = f.beta;
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  const auto softplus = [](double v) {
    return v > 0 ? v + std::log1p(std::exp(-v)) : std::log1p(std::exp(v));
  };
  switch (f.kind) {
    case Act::kNone:
      return x;
    case Act::kRelu:
      return x > 0 || x != x ? x : 0;
    case Act::kClip:
      return x != x ? x : std::min(std::max(x, a), b);
    case Act::kLeakyRelu:
      return x < 0 ? a * x : x;
    case Act::kSigmoid:
      return sigmoid(x);
    case Act::kHardSigmoid:
      return x != x ? x : std::min(1., std::max(0., a * x + b));
    case Act::kHardSwish:
      return x * std::min(1., std::max(0., a * x + b));
    case Act::kSwish:
      return x * sigmoid(a * x);
    case Act::kTanh:
      return std::tanh(x);
    case Act::kGelu:
      return x / 2 * std::erfc(-x / std::sqrt(2.));
    case Act::kGeluTanh:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Act::kElu:
      return x < 0 ? a * std::expm1(x) : x;
    case Act::kSelu:
      return b * (x < 0 ? a * std::expm1(x) : x);
    case Act::kCelu:
      return x < 0 ? a * std::expm1(x / a) : x;
    case Act::kSoftplus:
      return softplus(x);
    case Act::kSoftsign:
      return x / (1 + std::fabs(x));
    case Act::kThresholdedRelu:
      return x > a ? x : 0;
    case Act::kErf:
      return std::erf(x);
    case Act::kMish:
      return x * std::tanh(softplus(x));
    case Act::kExp:
      return std::exp(x);
    case Act::kLog:
      return std::log(x);
    case Act::kSqrt:
      return std::sqrt(x);
    case Act::kAbs:
      return std::fabs(x);
    case Act::kNeg:
      return -x;
    case Act::kReciprocal:
      return 1 / x;
    case Act::kFloor:
      return std::floor(x);
    case Act::kCeil:
      return std::ceil(x);
    case Act::kRound:
      return std::nearbyint(x);
    case Act::kSign:
      return x < 0 ? -1 : x > 0 ? 1 : x;
    case Act::kSquare:
      return x * x;
    case Act::kCount:
      break;
  }
  return NAN;
}

// An activation a network may end a convolution with: Lipschitz constant about 1.
inline Activation random_activation(Rng& rng) {
  static const Activation all[] = {{},
                                   {Act::kRelu, 0, 0},
                                   {Act::kClip, -.5f, .75f},
                                   {Act::kLeakyRelu, .1f, 0},
                                   {Act::kSigmoid, 0, 0},
                                   hard_sigmoid(),
                                   hard_swish(),
                                   swish(),
                                   {Act::kTanh, 0, 0},
                                   {Act::kGelu, 0, 0},
                                   {Act::kGeluTanh, 0, 0},
                                   {Act::kElu, 1, 0},
                                   {Act::kSoftplus, 0, 0},
                                   {Act::kErf, 0, 0},
                                   {Act::kMish, 0, 0}};
  return all[rng.range(0, static_cast<int64_t>(std::size(all)) - 1)];
}
inline Epilogue random_epilogue(Rng& rng) {
  Epilogue e;
  e.act = random_activation(rng);
  if (rng.chance(.3)) e.post_scale = 1.5f, e.post_bias = -.25f;
  if (rng.chance(.35)) e.residual = rng.chance(.5) ? Residual::kBeforeAct : Residual::kAfterAct;
  return e;
}
inline double reference_epilogue(const Epilogue& e, double acc, double res) {
  if (e.residual == Residual::kBeforeAct) acc += res;
  double y = double{e.post_scale} * reference_act(e.act, acc) + double{e.post_bias};
  if (e.residual == Residual::kAfterAct) y += res;
  return y;
}

// Calls f() once per instruction set of this CPU, with it in use.
template <class F>
void for_each_isa(F&& f) {
  const Isa before = isa();
  for (const Isa i : available_isas()) {
    SCOPED_TRACE(std::string("OCR_ISA=") + isa_name(i));
    set_isa(i);
    f();
  }
  set_isa(before);
}

// Calls f(precision) for every precision of the products of the instruction set in use.
template <class F>
void for_each_precision(F&& f) {
  for (const Precision p : {Precision::kF32, Precision::kBf16})
    if (p == Precision::kF32 || has_bf16()) {
      SCOPED_TRACE(p == Precision::kF32 ? "f32" : "bf16");
      f(p);
    }
}
// The values as the products of that precision see them: with these, bf16 products are as exact as
// those of f32, and one reference and one tolerance serve both.
inline void round_to(Precision p, std::vector<float>& v) {
  if (p == Precision::kBf16)
    for (float& x : v) x = bf16_to_f32(f32_to_bf16(x));
}

// Seeds to run: all of [0, count), or the one that the environment variable names.
inline std::vector<uint64_t> seeds(const char* variable, uint64_t count) {
  if (const char* one = std::getenv(variable)) return {std::strtoull(one, nullptr, 10)};
  std::vector<uint64_t> r(count);
  for (uint64_t i = 0; i < count; ++i) r[i] = i;
  return r;
}

// Runs f with pools of 1, 2 and 3 threads; f(threads).
template <class F>
void for_thread_counts(F&& f) {
  static ThreadPool two(2), three(3);
  for (int threads = 1; threads <= 3; ++threads) {
    ThreadPool one(1);
    const PoolScope scope(threads == 1 ? &one : threads == 2 ? &two : &three);
    f(threads);
  }
}

}  // namespace train::cpu
