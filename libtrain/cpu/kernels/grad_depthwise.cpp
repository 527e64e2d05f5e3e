// Rows of depthwise convolutions' gradients: channels run through the lanes, taps stay in
// registers.
#include "libtrain/cpu/kernels/grad_tables.h"
#include "libtrain/cpu/kernels/vec.h"

namespace train::cpu::OCR_ISA_NS {
namespace {

// Output pixels for which tap kx reads inside the row: [first, end).
struct Range {
  int64_t first, end;
};
OCR_INLINE Range range_of(const DepthwiseRowArgs& g, int kx) {
  const int64_t offset = int64_t{kx} * g.dilation - g.before, s = g.stride;
  const int64_t first = offset >= 0 ? 0 : (-offset + s - 1) / s;
  const int64_t end = g.w > offset ? (g.w - offset + s - 1) / s : 0;
  return {first, min_i(end, g.ow)};
}

// One vector of channels of one tap over [first, end).
OCR_INLINE V tap_sum(const DepthwiseRowArgs& g, const float* x, const float* dy, int kx,
                     int64_t first, int64_t end, int64_t left) {
  const float* a = x + (int64_t{kx} * g.dilation - g.before) * g.ld;
  V s = zero();
  for (int64_t ox = first; ox < end; ++ox)
    s = fma(load_n(a + ox * g.stride * g.ld, left), load_n(dy + ox * g.ld, left), s);
  return s;
}

// K taps together where all read inside the row: dy is loaded once, and the sums are independent.
template <int K>
void weight_row(const DepthwiseRowArgs& g, const float* x, const float* dy, float* acc) {
  int64_t first = 0, end = g.ow;
  for (int k = 0; k < K; ++k) {
    first = max_i(first, range_of(g, k).first);
    end = min_i(end, range_of(g, k).end);
  }
  end = max_i(first, end);
  const int64_t step = g.stride * g.ld, apart = g.dilation * g.ld;
  for (int64_t c = 0; c < g.lanes; c += W) {
    const int64_t left = g.lanes - c;
    V s[K];
    OCR_UNROLL
    for (int k = 0; k < K; ++k) s[k] = zero();
    const float *a = x + c + first * step - g.before * g.ld, *b = dy + c + first * g.ld;
    for (int64_t ox = first; ox < end; ++ox, a += step, b += g.ld) {
      const V d = left >= W ? load(b) : load_n(b, left);
      OCR_UNROLL
      for (int k = 0; k < K; ++k)
        s[k] = fma(left >= W ? load(a + k * apart) : load_n(a + k * apart, left), d, s[k]);
    }
    OCR_UNROLL
    for (int k = 0; k < K; ++k) {
      const Range r = range_of(g, k);
      V all = add(s[k], tap_sum(g, x + c, dy + c, k, r.first, min_i(first, r.end), left));
      all = add(all, tap_sum(g, x + c, dy + c, k, max_i(end, r.first), r.end, left));
      store_n(acc + k * 16 + c, add(load_n(acc + k * 16 + c, left), all), left);
    }
  }
}

}  // namespace

void depthwise_weight_row(const DepthwiseRowArgs& g, const float* x, const float* dy, float* acc) {
  if (g.kw == 3) return weight_row<3>(g, x, dy, acc);
  if (g.kw == 5) return weight_row<5>(g, x, dy, acc);
  for (int k = 0; k < g.kw; ++k) {
    const Range r = range_of(g, k);
    for (int64_t c = 0; c < g.lanes; c += W) {
      const int64_t left = g.lanes - c;
      const V s = tap_sum(g, x + c, dy + c, k, r.first, r.end, left);
      store_n(acc + k * 16 + c, add(load_n(acc + k * 16 + c, left), s), left);
    }
  }
}

void depthwise_input_row(const DepthwiseRowArgs& g, const float* taps, const float* dy, float* dx) {
  for (int64_t ix = 0; ix < g.w; ++ix) {
    for (int64_t c = 0; c < g.lanes; c += W) {
      const int64_t left = g.lanes - c;
      V s = load_n(dx + ix * g.ld + c, left);
      for (int k = 0; k < g.kw; ++k) {
        const int64_t at = ix + g.before - int64_t{k} * g.dilation;
        if (at < 0 || at % g.stride || at / g.stride >= g.ow) continue;
        s = fma(load_n(taps + k * g.ld + c, left), load_n(dy + at / g.stride * g.ld + c, left), s);
      }
      store_n(dx + ix * g.ld + c, s, left);
    }
  }
}

}  // namespace train::cpu::OCR_ISA_NS
