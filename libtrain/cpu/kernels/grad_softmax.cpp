// Softmax as the losses want it: scaled, and with the numbers that its logarithm is made of.
#include "libtrain/cpu/kernels/grad_tables.h"
#include "libtrain/cpu/kernels/vec_math.h"

namespace train::cpu::OCR_ISA_NS {
namespace {

OCR_INLINE V or_lowest(const float* p, int64_t left) {  // lanes past the end lose every comparison
  float t[W];
  store(t, set1(-__builtin_inff()));
  for (int64_t i = 0; i < left; ++i) t[i] = p[i];
  return load(t);
}

float maximum(const float* x, int64_t n) {
  V m[4];
  OCR_UNROLL
  for (int j = 0; j < 4; ++j) m[j] = set1(-__builtin_inff());
  int64_t i = 0;
  for (; i + 4 * W <= n; i += 4 * W) OCR_UNROLL
  for (int j = 0; j < 4; ++j) m[j] = max(load(x + i + j * W), m[j]);
  for (; i + W <= n; i += W) m[0] = max(load(x + i), m[0]);
  if (i < n) m[0] = max(or_lowest(x + i, n - i), m[0]);
  return reduce_max(max(max(m[0], m[1]), max(m[2], m[3])));
}

}  // namespace

void scaled_softmax(const float* x, float scale, int64_t n, float* y, float* top, float* sum) {
  *top = maximum(x, n);
  const V m = set1(*top);
  V s[2] = {zero(), zero()};
  int64_t i = 0;
  for (; i + 2 * W <= n; i += 2 * W) OCR_UNROLL
  for (int j = 0; j < 2; ++j) {
    const V e = exp_nonpositive(sub(load(x + i + j * W), m));
    store(y + i + j * W, e);
    s[j] = add(s[j], e);
  }
  for (; i < n; i += W) {
    const int64_t left = n - i;
    const V e = exp_nonpositive(sub(left < W ? or_lowest(x + i, left) : load(x + i), m));
    store_n(y + i, e, left);
    s[0] = add(s[0], e);
  }
  *sum = reduce_add(add(s[0], s[1]));
  const V f = set1(scale / *sum);
  for (i = 0; i + W <= n; i += W) store(y + i, mul(load(y + i), f));
  if (i < n) store_n(y + i, mul(load_n(y + i, n - i), f), n - i);
}

}  // namespace train::cpu::OCR_ISA_NS
