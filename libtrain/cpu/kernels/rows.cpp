// Reductions, softmax and layer norm: sums run over the vectors of a row in order, then over the
// lanes in order.
#include "libtrain/cpu/kernels/tables.h"
#include "libtrain/cpu/kernels/vec_math.h"

namespace train::cpu::OCR_ISA_NS {
namespace {

template <ReduceOp O>
OCR_INLINE V identity() {
  if constexpr (O == ReduceOp::kMax) return set1(-__builtin_inff());
  if constexpr (O == ReduceOp::kMin) return set1(__builtin_inff());
  if constexpr (O == ReduceOp::kProd) return set1(1.f);
  return zero();
}
template <ReduceOp O>
OCR_INLINE V accumulate(V acc, V v) {
  if constexpr (O == ReduceOp::kMax) return max(v, acc);
  if constexpr (O == ReduceOp::kMin) return min(v, acc);
  if constexpr (O == ReduceOp::kProd) return mul(acc, v);
  if constexpr (O == ReduceOp::kSumSquare || O == ReduceOp::kL2) return fma(v, v, acc);
  if constexpr (O == ReduceOp::kL1) return add(acc, abs(v));
  return add(acc, v);
}
// Lanes past the row's end hold the identity.
template <ReduceOp O>
OCR_INLINE V load_tail(const float* p, int64_t left) {
  float t[W];
  store(t, identity<O>());
  for (int64_t i = 0; i < left; ++i) t[i] = p[i];
  return load(t);
}
template <ReduceOp O>
OCR_INLINE float fold(V v) {
  if constexpr (O == ReduceOp::kMax) return reduce_max(v);
  if constexpr (O == ReduceOp::kMin) return reduce_min(v);
  if constexpr (O == ReduceOp::kProd) {
    float t[W], p = 1;
    store(t, v);
    for (int i = 0; i < W; ++i) p *= t[i];
    return p;
  }
  return reduce_add(v);
}
template <ReduceOp O>
OCR_INLINE float finish(float v, int64_t n) {
  if constexpr (O == ReduceOp::kMean) return v / static_cast<float>(n);
  if constexpr (O == ReduceOp::kL2) return __builtin_sqrtf(v);
  return v;
}

template <ReduceOp O>
float reduce_row(const float* x, int64_t n) {
  V acc = identity<O>();
  int64_t i = 0;
  for (; i + W <= n; i += W) acc = accumulate<O>(acc, load(x + i));
  if (i < n) acc = accumulate<O>(acc, load_tail<O>(x + i, n - i));
  return finish<O>(fold<O>(acc), n);
}

template <class F>
void dispatch_reduce(ReduceOp op, F&& f) {
  switch (op) {
    case ReduceOp::kSum:
      return f.template operator()<ReduceOp::kSum>();
    case ReduceOp::kMean:
      return f.template operator()<ReduceOp::kMean>();
    case ReduceOp::kMax:
      return f.template operator()<ReduceOp::kMax>();
    case ReduceOp::kMin:
      return f.template operator()<ReduceOp::kMin>();
    case ReduceOp::kProd:
      return f.template operator()<ReduceOp::kProd>();
    case ReduceOp::kSumSquare:
      return f.template operator()<ReduceOp::kSumSquare>();
    case ReduceOp::kL1:
      return f.template operator()<ReduceOp::kL1>();
    case ReduceOp::kL2:
      return f.template operator()<ReduceOp::kL2>();
  }
}

float row_max(const float* x, int64_t n) {
  const V lowest = set1(-__builtin_inff());
  V m[4] = {lowest, lowest, lowest, lowest};
  int64_t i = 0;
  for (; i + 4 * W <= n; i += 4 * W) OCR_UNROLL
  for (int j = 0; j < 4; ++j) m[j] = max(load(x + i + j * W), m[j]);
  for (; i + W <= n; i += W) m[0] = max(load(x + i), m[0]);
  if (i < n) m[0] = max(load_tail<ReduceOp::kMax>(x + i, n - i), m[0]);
  return reduce_max(max(max(m[0], m[1]), max(m[2], m[3])));
}

// Sum of exp(x - m); the exponentials are stored where y is given.
float exp_sum(const float* x, float* y, int64_t n, float m) {
  const V vm = set1(m);
  V sum = zero();
  int64_t i = 0;
  for (; i + W <= n; i += W) {
    const V e = exp_nonpositive(sub(load(x + i), vm));
    if (y) store(y + i, e);
    sum = add(sum, e);
  }
  if (i < n) {
    const V e = exp_nonpositive(sub(load_tail<ReduceOp::kMax>(x + i, n - i), vm));
    if (y) store_n(y + i, e, n - i);
    sum = add(sum, e);
  }
  return reduce_add(sum);
}

float scalar_log(float x) {
  float t[W];
  store(t, log(set1(x)));
  return t[0];
}

}  // namespace

void reduce_cols(ReduceOp op, const float* x, int64_t ldx, int64_t rows, int64_t cols, float* y) {
  dispatch_reduce(op, [&]<ReduceOp O>() {
    for (int64_t r = 0; r < rows; ++r) y[r] = reduce_row<O>(x + r * ldx, cols);
  });
}

void reduce_rows(ReduceOp op, const float* x, int64_t ldx, int64_t rows, int64_t cols, float* y) {
  dispatch_reduce(op, [&]<ReduceOp O>() {
    int64_t c = 0;
    const V n = set1(static_cast<float>(rows));
    auto finish_vector = [&](V v) {
      return O == ReduceOp::kMean ? div(v, n) : O == ReduceOp::kL2 ? sqrt(v) : v;
    };
    for (; c + 4 * W <= cols; c += 4 * W) {
      V acc[4] = {identity<O>(), identity<O>(), identity<O>(), identity<O>()};
      for (int64_t r = 0; r < rows; ++r) OCR_UNROLL
      for (int j = 0; j < 4; ++j) acc[j] = accumulate<O>(acc[j], load(x + r * ldx + c + j * W));
      OCR_UNROLL
      for (int j = 0; j < 4; ++j) store(y + c + j * W, finish_vector(acc[j]));
    }
    for (; c < cols; c += W) {
      V acc = identity<O>();
      for (int64_t r = 0; r < rows; ++r)
        acc = accumulate<O>(acc, load_n(x + r * ldx + c, cols - c));
      store_n(y + c, finish_vector(acc), cols - c);
    }
  });
}

void softmax(const float* x, int64_t ldx, float* y, int64_t ldy, int64_t rows, int64_t cols,
             bool log_form) {
  for (int64_t r = 0; r < rows; ++r, x += ldx, y += ldy) {
    const float m = row_max(x, cols);
    if (log_form) {
      const V shift = set1(m + scalar_log(exp_sum(x, nullptr, cols, m)));
      for (int64_t i = 0; i < cols; i += W)
        store_n(y + i, sub(load_n(x + i, cols - i), shift), cols - i);
    } else {
      const V scale = set1(1.f / exp_sum(x, y, cols, m));
      for (int64_t i = 0; i < cols; i += W)
        store_n(y + i, mul(load_n(y + i, cols - i), scale), cols - i);
    }
  }
}

void softmax_argmax(const float* x, int64_t ldx, int64_t rows, int64_t cols, int32_t* index,
                    float* prob, float* value) {
  for (int64_t r = 0; r < rows; ++r, x += ldx) {
    const float m = row_max(x, cols);
    const V vm = set1(m);
    int64_t at = 0;
    for (int64_t i = 0; i < cols; i += W) {
      uint32_t hit = bits_of(equal(load_n(x + i, cols - i), vm));
      if (cols - i < W) hit &= (1u << (cols - i)) - 1;
      if (hit) {
        at = i + __builtin_ctz(hit);
        break;
      }
    }
    index[r] = static_cast<int32_t>(at);
    if (value) value[r] = m;
    if (prob) prob[r] = 1.f / exp_sum(x, nullptr, cols, m);
  }
}

void layer_norm(const float* x, int64_t ldx, const float* scale, const float* bias, float eps,
                float* y, int64_t ldy, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; ++r, x += ldx, y += ldy) {
    const float mean = reduce_row<ReduceOp::kMean>(x, cols);
    const V vm = set1(mean);
    V sum = zero();
    int64_t i = 0;
    for (; i + W <= cols; i += W) {
      const V d = sub(load(x + i), vm);
      sum = fma(d, d, sum);
    }
    float var = reduce_add(sum);
    for (; i < cols; ++i) var += (x[i] - mean) * (x[i] - mean);
    const V inv = set1(1.f / __builtin_sqrtf(var / static_cast<float>(cols) + eps));
    for (i = 0; i < cols; i += W) {
      const int64_t left = cols - i;
      const V d = mul(sub(load_n(x + i, left), vm), inv);
      const V s = scale ? load_n(scale + i, left) : set1(1.f);
      store_n(y + i, fma(d, s, bias ? load_n(bias + i, left) : zero()), left);
    }
  }
}

void centred_square_rows(const float* x, int64_t ldx, const float* shift, int64_t rows,
                         int64_t cols, float* out) {
  for (int64_t c = 0; c < cols; c += W) {
    const int64_t left = cols - c;
    const V s = load_n(shift + c, left);
    V acc = zero();
    for (int64_t r = 0; r < rows; ++r) {
      const V d = sub(load_n(x + r * ldx + c, left), s);
      acc = fma(d, d, acc);
    }
    store_n(out + c, acc, left);
  }
}

}  // namespace train::cpu::OCR_ISA_NS
