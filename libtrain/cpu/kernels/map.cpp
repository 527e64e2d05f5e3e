// Pooling, resizing and changes of memory order: kernels bound by memory.
#include "libtrain/cpu/kernels/tables.h"
#include "libtrain/cpu/kernels/vec.h"

namespace train::cpu::OCR_ISA_NS {
namespace {

struct Range {
  int64_t first, last;  // taps [first, last) that meet the image
};
Range taps_inside(int64_t start, int64_t step, int64_t taps, int64_t size) {
  int64_t a = 0, b = taps;
  while (a < b && start + a * step < 0) ++a;
  while (b > a && start + (b - 1) * step >= size) --b;
  return {a, b};
}

// Maxima of whole 2 x 2 or 3 x 3 windows: pixels [o0, o1) of an output row, from the row of the
// first tap.
template <int K>
void max_pixels(const WindowArgs& g, const float* x, int64_t o0, int64_t o1, float* y) {
  const int64_t line = g.w * g.ldx, whole = g.c / W * W;
  for (int64_t o = o0; o < o1; ++o) {
    const float* from = x + (o * g.sw - g.pl) * g.ldx;
    float* to = y + o * g.ldy;
    for (int64_t c = 0; c < g.c; c += W) {
      V acc = set1(-__builtin_inff());
      OCR_UNROLL
      for (int i = 0; i < K; ++i) OCR_UNROLL
      for (int j = 0; j < K; ++j) {
        const float* at = from + i * line + j * g.ldx + c;
        acc = max(acc, c < whole ? load(at) : load_n(at, g.c - c));
      }
      if (c < whole)
        store(to + c, acc);
      else
        store_n(to + c, acc, g.c - c);
    }
  }
}

template <bool kMax>
void pool_row(const PoolArgs& p, int64_t r) {
  const WindowArgs& g = p.g;
  const int64_t n = r / g.oh, ih0 = r % g.oh * g.sh - g.pt;
  const Range ty = taps_inside(ih0, g.dh, g.kh, g.h);
  const float* image = g.x + n * g.h * g.w * g.ldx;
  // Taps inside image and padding: the divisor with count_include_pad (a ceil_mode window may leave
  // even the padding).
  const int64_t padded_y = taps_inside(ih0 + g.pt, g.dh, g.kh, g.h + g.pt + p.pb).last;
  // Columns whose windows lie inside the image.
  int64_t whole0 = g.ow, whole1 = g.ow;
  if (kMax && g.dh == 1 && g.dw == 1 && g.kh == g.kw && (g.kw == 2 || g.kw == 3) &&
      ty.last - ty.first == g.kh && g.w >= g.kw) {
    whole0 = min_i(g.ow, (g.pl + g.sw - 1) / g.sw);
    whole1 = max_i(whole0, min_i(g.ow, (g.w - g.kw + g.pl) / g.sw + 1));
    const float* x = image + ih0 * g.w * g.ldx;
    float* y = g.y + r * g.ow * g.ldy;
    g.kw == 2 ? max_pixels<2>(g, x, whole0, whole1, y) : max_pixels<3>(g, x, whole0, whole1, y);
  }
  for (int64_t o = 0; o < g.ow; ++o) {
    if (o == whole0) o = whole1;
    if (o == g.ow) break;
    const int64_t iw0 = o * g.sw - g.pl;
    const Range tx = taps_inside(iw0, g.dw, g.kw, g.w);
    const int64_t padded_x = taps_inside(iw0 + g.pl, g.dw, g.kw, g.w + g.pl + p.pr).last;
    const int64_t count =
        p.count_include_pad ? padded_y * padded_x : (ty.last - ty.first) * (tx.last - tx.first);
    const V divisor = set1(static_cast<float>(count));
    float* y = g.y + (r * g.ow + o) * g.ldy;
    for (int64_t c = 0; c < g.c; c += W) {
      const int64_t left = g.c - c;
      V acc = kMax ? set1(-__builtin_inff()) : zero();
      for (int64_t i = ty.first; i < ty.last; ++i) {
        const float* x = image + ((ih0 + i * g.dh) * g.w + iw0) * g.ldx + c;
        V sum = kMax ? acc : zero();
        for (int64_t j = tx.first; j < tx.last; ++j) {
          const V v = load_n(x + j * g.dw * g.ldx, left);
          sum = kMax ? max(sum, v) : add(sum, v);
        }
        acc = kMax ? sum : add(acc, sum);
      }
      store_n(y + c, kMax ? acc : (count ? div(acc, divisor) : zero()), left);
    }
  }
}

OCR_INLINE void put(float* y, const float* res, V v, int64_t left) {
  if (res) v = add(v, load_n(res, left));
  store_n(y, v, left);
}

void resize_whole_factor(const ResizeArgs& a, const float* x, float* y, const float* res) {
  for (int64_t i = 0; i < a.w; ++i, x += a.ldx)
    for (int64_t c = 0; c < a.c; c += W) {
      const int64_t left = a.c - c;
      const V v = load_n(x + c, left);
      for (int64_t j = i * a.repeat_x; j < (i + 1) * a.repeat_x; ++j)
        put(y + j * a.ldy + c, res ? res + j * a.ldr + c : nullptr, v, left);
    }
}

template <int N>
void resize_row(const ResizeArgs& a, const float* image, int64_t oy, float* y, const float* res) {
  const float* rows[N];
  V wy[N];
  OCR_UNROLL
  for (int i = 0; i < N; ++i) {
    rows[i] = image + a.iy[oy * N + i] * a.w * a.ldx;
    wy[i] = N > 1 ? set1(a.wy[oy * N + i]) : zero();
  }
  for (int64_t o = 0; o < a.ow; ++o) {
    const int32_t* ix = a.ix + o * N;
    for (int64_t c = 0; c < a.c; c += W) {
      const int64_t left = a.c - c;
      V sum = zero();
      if constexpr (N == 1) {
        sum = load_n(rows[0] + ix[0] * a.ldx + c, left);
      } else {
        OCR_UNROLL
        for (int i = 0; i < N; ++i) {
          V line = mul(load_n(rows[i] + ix[0] * a.ldx + c, left), set1(a.wx[o * N]));
          OCR_UNROLL
          for (int j = 1; j < N; ++j)
            line = fma(load_n(rows[i] + ix[j] * a.ldx + c, left), set1(a.wx[o * N + j]), line);
          sum = i == 0 ? mul(line, wy[0]) : fma(line, wy[i], sum);
        }
      }
      put(y + o * a.ldy + c, res ? res + o * a.ldr + c : nullptr, sum, left);
    }
  }
}

// y[c][r] = x[r][c] for 4 x 4 floats.
OCR_INLINE void transpose4(const float* x, int64_t ldx, float* y, int64_t ldy) {
  __m128 a = _mm_loadu_ps(x), b = _mm_loadu_ps(x + ldx), c = _mm_loadu_ps(x + 2 * ldx),
         d = _mm_loadu_ps(x + 3 * ldx);
  _MM_TRANSPOSE4_PS(a, b, c, d);
  _mm_storeu_ps(y, a);
  _mm_storeu_ps(y + ldy, b);
  _mm_storeu_ps(y + 2 * ldy, c);
  _mm_storeu_ps(y + 3 * ldy, d);
}

}  // namespace

void pool(const PoolArgs& p, int64_t r0, int64_t r1) {
  for (int64_t r = r0; r < r1; ++r) p.max ? pool_row<true>(p, r) : pool_row<false>(p, r);
}

void resize(const ResizeArgs& a, int64_t r0, int64_t r1) {
  for (int64_t r = r0; r < r1; ++r) {
    const int64_t n = r / a.oh, oy = r % a.oh;
    const float* image = a.x + n * a.h * a.w * a.ldx;
    float* y = a.y + r * a.ow * a.ldy;
    const float* res = a.res ? a.res + r * a.ow * a.ldr : nullptr;
    if (a.repeat_x > 0)
      resize_whole_factor(a, image + oy / a.repeat_y * a.w * a.ldx, y, res);
    else if (a.taps == 1)
      resize_row<1>(a, image, oy, y, res);
    else if (a.taps == 2)
      resize_row<2>(a, image, oy, y, res);
    else
      resize_row<4>(a, image, oy, y, res);
  }
}

void gather_add(const float* x, int64_t ldx, const int32_t* index, bool add_to, float* y,
                int64_t ldy, int64_t w, int64_t c) {
  const int64_t whole = c / W * W;
  for (int64_t o = 0; o < w; ++o, y += ldy) {
    const float* from = x + index[o] * ldx;
    for (int64_t i = 0; i < whole; i += W) {
      const V v = load(from + i);
      store(y + i, add_to ? add(load(y + i), v) : v);
    }
    if (whole < c) {
      const V v = load_n(from + whole, c - whole);
      store_n(y + whole, add_to ? add(load_n(y + whole, c - whole), v) : v, c - whole);
    }
  }
}

void transpose2d(const float* x, int64_t ldx, float* y, int64_t ldy, int64_t rows, int64_t cols) {
  constexpr int64_t kBlock = 32;
  for (int64_t r0 = 0; r0 < rows; r0 += kBlock)
    for (int64_t c0 = 0; c0 < cols; c0 += kBlock) {
      const int64_t r1 = min_i(rows, r0 + kBlock), c1 = min_i(cols, c0 + kBlock);
      int64_t r = r0;
      for (; r + 4 <= r1; r += 4) {
        int64_t c = c0;
        for (; c + 4 <= c1; c += 4) transpose4(x + r * ldx + c, ldx, y + c * ldy + r, ldy);
        for (; c < c1; ++c)
          for (int64_t i = r; i < r + 4; ++i) y[c * ldy + i] = x[i * ldx + c];
      }
      for (; r < r1; ++r)
        for (int64_t c = c0; c < c1; ++c) y[c * ldy + r] = x[r * ldx + c];
    }
}

void normalize_row(const uint8_t* bgr, int64_t w, bool swap, const float* scale, const float* bias,
                   float* y, int64_t ldy) {
  int64_t i = 0;
  if (!swap && ldy == 3) {  // 3 vectors hold W pixels: their scales repeat
    float s[3 * W], t[3 * W];
    for (int j = 0; j < 3 * W; ++j) s[j] = scale[j % 3], t[j] = bias[j % 3];
    for (; i + W <= w; i += W)
      for (int j = 0; j < 3 * W; j += W)
        store(y + 3 * i + j, fma(load_u8(bgr + 3 * i + j), load(s + j), load(t + j)));
  }
  for (; i < w; ++i)
    for (int c = 0; c < 3; ++c) {  // one lane: the same rounding as above
      const float v = static_cast<float>(bgr[3 * i + (swap ? 2 - c : c)]);
      store_n(y + i * ldy + c, fma(set1(v), set1(scale[c]), set1(bias[c])), 1);
    }
}

}  // namespace train::cpu::OCR_ISA_NS
