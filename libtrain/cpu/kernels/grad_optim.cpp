// Steps of the optimisers: one pass over weights, gradients and moments, so that what is left is
// the traffic to memory and the square roots and quotients of Adam.
#include "libtrain/cpu/kernels/grad_tables.h"
#include "libtrain/cpu/kernels/vec.h"

namespace train::cpu::OCR_ISA_NS {

void adam(const AdamArgs& a, const float* g, float* x, float* m, float* v, int64_t n) {
  const V rate = set1(a.rate), eps = set1(a.eps), b1 = set1(a.b1), b2 = set1(a.b2);
  const V c1 = set1(a.c1), c2 = set1(a.c2), l2 = set1(a.l2), keep = set1(a.keep);
  for (int64_t i = 0; i < n; i += W) {  // lanes past the end compute 0 / eps
    const int64_t left = n - i;
    const V w = load_n(x + i, left), d = fma(l2, w, load_n(g + i, left));
    const V m1 = fma(c1, d, mul(b1, load_n(m + i, left)));
    const V v1 = fma(mul(c2, d), d, mul(b2, load_n(v + i, left)));
    const V step = div(m1, add(sqrt(v1), eps));
    store_n(m + i, m1, left);
    store_n(v + i, v1, left);
    store_n(x + i, fnma(rate, step, mul(keep, w)), left);
  }
}

void sgd(float rate, float decay, const float* g, float* x, int64_t n) {
  const V r = set1(rate), k = set1(decay);
  for (int64_t i = 0; i < n; i += W) {
    const int64_t left = n - i;
    const V w = load_n(x + i, left);
    store_n(x + i, fnma(r, fma(k, w, load_n(g + i, left)), w), left);
  }
}

}  // namespace train::cpu::OCR_ISA_NS
