// The register-tiled GEMM micro-kernel: MR rows (pixels) x NR vectors of output channels, and its
// epilogue.
#pragma once
#include "libtrain/cpu/kernels/kernels.h"
#include "libtrain/cpu/kernels/vec_math.h"
#include "libtrain/cpu/kernels/words.h"

namespace train::cpu::OCR_ISA_NS {
namespace {

// Epilogues worth their own copy of a kernel; all others, kAny, go through a buffer in L1.
enum EpilogueKind { kPlain, kClamp, kSwishHard, kAny };

inline EpilogueKind kind_of(const EpilogueArgs& e) {
  const bool post = e.post_scale != 1 || e.post_bias != 0;
  if (e.act == Act::kHardSwish) return kSwishHard;
  if (post) return kAny;
  if (e.act == Act::kNone) return kPlain;
  return e.act == Act::kRelu || e.act == Act::kClip ? kClamp : kAny;
}

// The constants of an epilogue: kClamp min and max; kSwishHard alpha, beta, post_scale, post_bias.
struct EpilogueConstants {
  float a, b, scale, shift;
};
inline EpilogueConstants constants_of(const EpilogueArgs& e) {
  if (e.act == Act::kRelu) return {0, __builtin_inff(), e.post_scale, e.post_bias};
  return {e.alpha, e.beta, e.post_scale, e.post_bias};
}

template <int E>
OCR_INLINE V apply_inline(V v, const EpilogueConstants& c) {
  if constexpr (E == kClamp) return min(set1(c.b), max(set1(c.a), v));
  if constexpr (E == kSwishHard) {
    const V g = min(set1(1.f), max(zero(), fma(v, set1(c.a), set1(c.b))));
    return fma(mul(v, g), set1(c.scale), set1(c.shift));
  }
  return v;
}

// buf: n vectors; y = post_scale * act(buf) + post_bias, in place.
__attribute__((noinline)) inline void apply_buffer(float* buf, int n, const EpilogueArgs& e) {
  const bool post = e.post_scale != 1 || e.post_bias != 0;
  dispatch_act(e.act, [&]<Act A>() {
    const V a = set1(e.alpha), b = set1(e.beta), s = set1(e.post_scale), t = set1(e.post_bias);
    for (int i = 0; i < n; ++i) {
      const V y = activate<A>(load(buf + i * W), a, b);
      store(buf + i * W, post ? fma(y, s, t) : y);
    }
  });
}

struct TileArgs {
  const float* a;                                        // first input pixel of the tile
  int64_t lda;                                           // words between two pixels of the tile
  const float* b;                                        // packed weights
  int64_t outer, outer_stride, inner, inner_stride, kc;  // input segments of kc contiguous words
  const float* bias;
  float* y;
  int64_t ldy;
  const float* res;
  int64_t ldr;
  int64_t last;  // channels in the last vector
  const EpilogueArgs* e;
  EpilogueConstants c;
  const float *prefetch, *prefetch_end;  // read soon
};

template <int MR, int NR, int E>
OCR_INLINE void finish_tile(V (&acc)[MR][NR], const TileArgs& g) {
  static_assert(E != kAny, "goes through finish_late");
  const bool res_before = g.res && g.e->res_before;
  float* y = g.y;
  const float* r = g.res;
  const bool full = g.last == W;
  OCR_UNROLL
  for (int m = 0; m < MR; ++m) {
    OCR_UNROLL
    for (int n = 0; n < NR; ++n) {
      V v = acc[m][n], rv = zero();
      if (r) rv = n < NR - 1 || full ? load(r + n * W) : load_n(r + n * W, g.last);
      if (res_before) v = add(v, rv);
      v = apply_inline<E>(v, g.c);
      if (r && !res_before) v = add(v, rv);
      if (n < NR - 1 || full)
        store(y + n * W, v);
      else
        store_n(y + n * W, v, g.last);
    }
    y += g.ldy;
    if (r) r += g.ldr;
  }
}

// The other activations: sums go to a buffer in L1 that takes many tiles, so that the activation
// runs at its full rate; then residual, activation and the way to y for `rows` rows of `nr`
// vectors.
constexpr int kLateVectors = 48;
__attribute__((noinline)) inline void finish_late(float* buf, int64_t rows, int nr, int64_t last,
                                                  const EpilogueArgs& e, float* y, int64_t ldy,
                                                  const float* res, int64_t ldr) {
  if (!res && last == W) {
    const bool post = e.post_scale != 1 || e.post_bias != 0;
    const int64_t step = int64_t{nr} * W;
    dispatch_act(e.act, [&]<Act A>() {
      const V a = set1(e.alpha), b = set1(e.beta), s = set1(e.post_scale), t = set1(e.post_bias);
      for (int64_t m = 0; m < rows; ++m, buf += step, y += ldy)
        for (int64_t n = 0; n < step; n += W) {
          const V v = activate<A>(load(buf + n), a, b);
          store(y + n, post ? fma(v, s, t) : v);
        }
    });
    return;
  }
  const auto width = [&](int n) { return n == nr - 1 ? last : int64_t{W}; };
  if (res && e.res_before)
    for (int64_t m = 0; m < rows; ++m)
      for (int n = 0; n < nr; ++n) {
        float* const b = buf + (m * nr + n) * W;
        store(b, add(load(b), load_n(res + m * ldr + n * W, width(n))));
      }
  apply_buffer(buf, static_cast<int>(rows) * nr, e);
  for (int64_t m = 0; m < rows; ++m)
    for (int n = 0; n < nr; ++n) {
      V v = load(buf + (m * nr + n) * W);
      if (res && !e.res_before) v = add(v, load_n(res + m * ldr + n * W, width(n)));
      store_n(y + m * ldy + n * W, v, width(n));
    }
}

// With kHalf the last of the NR vectors of weights is half a vector.
//
// Every output element is one chain of multiply-adds over the segments in order, starting from the
// bias: the same bits whatever MR, NR and the rows beside it.
template <int MR, int NR, bool kHalf, int E>
void tile(const TileArgs& g) {
  constexpr int G = (MR + 3) / 4;  // row pointers: each serves 4 rows by address arithmetic
  constexpr int F = NR - kHalf;    // whole vectors
  constexpr int kLanes = F * W + (kHalf ? W / 2 : 0);
  V acc[MR][NR];
  H half[MR];
  OCR_UNROLL
  for (int n = 0; n < NR; ++n) {
    const V v = load(g.bias + n * W);
    OCR_UNROLL
    for (int m = 0; m < MR; ++m) {
      if (n < F)
        acc[m][n] = v;
      else
        half[m] = lower(v);
    }
  }
  const float *b = g.b, *pf = g.prefetch, *const pf_end = g.prefetch_end;
  const int64_t lda = g.lda, lda3 = 3 * lda;
  const float* p[G];
  auto row = [&](int m) __attribute__((always_inline)) {
    return p[m / 4] + (m % 4 == 0 ? 0 : m % 4 == 1 ? lda : m % 4 == 2 ? 2 * lda : lda3);
  };
  auto hide = [&]() __attribute__((always_inline)) {  // keeps GCC from rewriting the addressing
    OCR_UNROLL
    for (int i = 0; i < G; ++i) asm volatile("" : "+r"(p[i]));
  };
  auto step = [&](int u) __attribute__((always_inline)) {
    V bv[NR];
    H bh;
    OCR_UNROLL
    for (int n = 0; n < F; ++n) bv[n] = load(b + W * n + kLanes * u);
    if constexpr (kHalf) bh = load_half(b + W * F + kLanes * u);
    OCR_UNROLL
    for (int m = 0; m < MR; ++m) {
      if constexpr (F == 0) {  // a Zen 4 loads two halves per cycle, but one whole vector
        half[m] = multiply_add(broadcast_half(row(m) + u), bh, half[m]);
        continue;
      }
      const V av = broadcast(row(m) + u);
      OCR_UNROLL
      for (int n = 0; n < F; ++n) acc[m][n] = multiply_add(av, bv[n], acc[m][n]);
      if constexpr (kHalf) half[m] = multiply_add(lower(av), bh, half[m]);
    }
  };
  for (int64_t so = 0; so < g.outer; ++so)
    for (int64_t si = 0; si < g.inner; ++si) {
      OCR_UNROLL
      for (int i = 0; i < G; ++i)
        p[i] = g.a + so * g.outer_stride + si * g.inner_stride + 4 * i * lda;
      int64_t k = g.kc;
      for (; k >= 4; k -= 4) {
        hide();
        OCR_UNROLL
        for (int i = 0; i < G; ++i) prefetch(pf + 16 * i);
        pf += pf < pf_end ? 16 * G : 0;
        step(0), step(1), step(2), step(3);
        OCR_UNROLL
        for (int i = 0; i < G; ++i) p[i] += 4;
        b += 4 * kLanes;
      }
      for (; k > 0; --k) {
        hide();
        step(0);
        OCR_UNROLL
        for (int i = 0; i < G; ++i) p[i] += 1;
        b += kLanes;
      }
    }
  if constexpr (kHalf) {
    OCR_UNROLL
    for (int m = 0; m < MR; ++m) acc[m][F] = whole(half[m]);
  }
  finish_tile<MR, NR, E>(acc, g);
}

// Rows per tile for NR vectors of channels: all registers but those of the weights and one pixel
// value.
constexpr int rows_of(int nr) {
  return kRegisters == 32 ? (nr == 1 ? 14 : nr == 2 ? 14 : 9) : (nr == 1 ? 12 : nr == 2 ? 6 : 4);
}
constexpr int kPanelMax = 3, kMaxRows = 14;

using TileFn = void (*)(const TileArgs&);
// [vectors][the last is half a vector][rows]
struct TileFns {
  TileFn fn[kPanelMax + 1][2][kMaxRows + 1];
  TileFn of(const Panel& p, int64_t rows) const { return fn[p.nr][p.lanes % W != 0][rows]; }
};
struct TileTable {
  TileFns of[kAny];
};
template <int E, int NR, bool kHalf, int MR>
constexpr void fill_rows(TileFns& t) {
  if constexpr (MR > 0) {
    t.fn[NR][kHalf][MR] = tile<MR, NR, kHalf, E>;
    fill_rows<E, NR, kHalf, MR - 1>(t);
  }
}
template <int E, bool kHalf>
constexpr void fill_panels(TileFns& t) {
  fill_rows<E, 1, kHalf, rows_of(1)>(t);
  fill_rows<E, 2, kHalf, rows_of(2)>(t);
  fill_rows<E, 3, kHalf, rows_of(3)>(t);
}
template <int E>
constexpr void fill_kind(TileTable& t) {
  fill_panels<E, false>(t.of[E]);
  if constexpr (kHalves) fill_panels<E, true>(t.of[E]);
}
constexpr TileTable make_tiles() {
  TileTable t{};
  fill_kind<kPlain>(t);
  fill_kind<kClamp>(t);
  fill_kind<kSwishHard>(t);
  return t;
}

// Splits n rows into tiles of at most `most`, as equal as possible.
struct Tiles {
  int64_t count, base, extra;
  Tiles(int64_t n, int64_t most) : count((n + most - 1) / most), base(0), extra(0) {
    if (count > 0) base = n / count, extra = n % count;
  }
  int64_t size(int64_t i) const { return base + (i < extra ? 1 : 0); }
};
inline int64_t last_width(const Panel& p) { return p.width - (p.nr - 1) * W; }

}  // namespace
}  // namespace train::cpu::OCR_ISA_NS
