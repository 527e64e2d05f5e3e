// Products of small matrices that are both activations, out of the caches: nothing is packed.
#include "libtrain/cpu/kernels/grad_tables.h"
#include "libtrain/cpu/kernels/vec_math.h"

namespace train::cpu::OCR_ISA_NS {
namespace {

constexpr int kRows = 6, kVectors = 2;

// R rows by N vectors of c at (i, j); Full: the last vector is a whole one.
template <int R, int N, bool Full>
OCR_INLINE void tile(const SmallProductArgs& g, int64_t i, int64_t j) {
  const int64_t last = Full ? W : g.n - j - (N - 1) * W;
  const auto read = [&](const float* p, int v) {
    return v + 1 < N || Full ? load(p + v * W) : load_n(p + v * W, last);
  };
  const float *a = g.a + i * g.a_row, *b = g.b + j;
  V s[R][N];
  OCR_UNROLL
  for (int r = 0; r < R; ++r) OCR_UNROLL
  for (int v = 0; v < N; ++v) s[r][v] = zero();
  for (int64_t k = 0; k < g.k; ++k, a += g.a_col, b += g.ldb) {
    V x[N];
    OCR_UNROLL
    for (int v = 0; v < N; ++v) x[v] = read(b, v);
    OCR_UNROLL
    for (int r = 0; r < R; ++r) {
      const V f = set1(a[r * g.a_row]);
      OCR_UNROLL
      for (int v = 0; v < N; ++v) s[r][v] = fma(f, x[v], s[r][v]);
    }
  }
  const V alpha = set1(g.alpha);
  OCR_UNROLL
  for (int r = 0; r < R; ++r) {
    float* c = g.c + (i + r) * g.ldc + j;
    OCR_UNROLL
    for (int v = 0; v < N; ++v) {
      const V y = g.add ? fma(alpha, s[r][v], read(c, v)) : mul(alpha, s[r][v]);
      if (v + 1 < N || Full)
        store(c + v * W, y);
      else
        store_n(c + v * W, y, last);
    }
  }
}

template <int R>
void rows_of(const SmallProductArgs& g, int64_t i) {
  int64_t j = 0;
  for (; j + kVectors * W <= g.n; j += kVectors * W) tile<R, kVectors, true>(g, i, j);
  if (g.n - j > W)
    tile<R, kVectors, false>(g, i, j);
  else if (j < g.n)
    tile<R, 1, false>(g, i, j);
}

}  // namespace

void small_product(const SmallProductArgs& g) {
  int64_t i = 0;
  for (; i + kRows <= g.m; i += kRows) rows_of<kRows>(g, i);
  switch (g.m - i) {
    case 1:
      return rows_of<1>(g, i);
    case 2:
      return rows_of<2>(g, i);
    case 3:
      return rows_of<3>(g, i);
    case 4:
      return rows_of<4>(g, i);
    case 5:
      return rows_of<5>(g, i);
    default:
      return;
  }
}

void masked_softmax(float* x, const float* mask, int64_t rows, int64_t cols) {
  const V lowest = set1(-__builtin_inff());
  for (int64_t r = 0; r < rows; ++r, x += cols) {
    V m = lowest;
    for (int64_t i = 0; i < cols; i += W) {
      const int64_t left = cols - i;
      V s = load_n(x + i, left);
      if (mask) {
        s = add(s, load_n(mask + i, left));
        store_n(x + i, s, left);
      }
      if (left < W) {
        float t[W];
        store(t, lowest);
        store_n(t, s, left);
        s = load(t);
      }
      m = max(s, m);
    }
    if (mask) mask += cols;
    const float top = reduce_max(m);
    if (top == -__builtin_inff()) {
      for (int64_t i = 0; i < cols; i += W) store_n(x + i, zero(), cols - i);
      continue;
    }
    const V shift = set1(top);
    V sum = zero();
    int64_t i = 0;
    for (; i + W <= cols; i += W) {
      const V e = exp_nonpositive(sub(load(x + i), shift));
      store(x + i, e);
      sum = add(sum, e);
    }
    float total = reduce_add(sum);
    if (i < cols) {
      float t[W];
      store(t, exp_nonpositive(sub(load_n(x + i, cols - i), shift)));
      for (int64_t k = i; k < cols; ++k) total += x[k] = t[k - i];
    }
    const V scale = set1(1.f / total);
    for (i = 0; i < cols; i += W) store_n(x + i, mul(load_n(x + i, cols - i), scale), cols - i);
  }
}

}  // namespace train::cpu::OCR_ISA_NS
