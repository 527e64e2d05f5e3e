// Depthwise convolution: one vector of channels, T neighbouring output pixels per register tile, so
// that an input vector is loaded once per kernel row and used by every tap that needs it.
#include "libtrain/cpu/kernels/tables.h"
#include "libtrain/cpu/kernels/tile.h"

namespace train::cpu::OCR_ISA_NS {
namespace {

alignas(64) const float kZeros[W] = {};
constexpr bool kMasksAreFree = OCR_ISA_LEVEL == 2;

struct DwTile {
  const float* x;   // row of the first valid tap, column of tap 0 of the first output
  int64_t row, px;  // floats between kernel rows / pixels
  int64_t rows;     // valid kernel rows
  int64_t iw0, w;   // column of tap 0 of the first output, image width
  const float* wt;  // [rows][kw][W] from the first valid kernel row
  const float* bias;
  float* y;
  int64_t ldy;
  const float* res;
  int64_t ldr;
  int64_t lanes;  // channels of this vector
  int kw, sw, dw;
  EpilogueKind kind;
  const EpilogueArgs* e;
  EpilogueConstants c;
  const float* prefetch;  // input rows needed next: one line per pixel
  int64_t prefetch_rows, prefetch_row;
};

OCR_INLINE V load_lanes(const float* p, int64_t lanes) {
  return kMasksAreFree ? load_n(p, lanes) : load(p);
}

template <int T, bool kTail>
OCR_INLINE void finish(V (&acc)[T], const DwTile& g) {
  const bool res_before = g.res && g.e->res_before;
  if (res_before) OCR_UNROLL
  for (int t = 0; t < T; ++t) acc[t] = add(acc[t], load_n(g.res + t * g.ldr, g.lanes));
  switch (g.kind) {
    case kClamp:
      OCR_UNROLL
      for (int t = 0; t < T; ++t) acc[t] = apply_inline<kClamp>(acc[t], g.c);
      break;
    case kSwishHard:
      OCR_UNROLL
      for (int t = 0; t < T; ++t) acc[t] = apply_inline<kSwishHard>(acc[t], g.c);
      break;
    case kAny: {
      alignas(64) float buf[T * W];
      OCR_UNROLL
      for (int t = 0; t < T; ++t) store(buf + t * W, acc[t]);
      apply_buffer(buf, T, *g.e);
      OCR_UNROLL
      for (int t = 0; t < T; ++t) acc[t] = load(buf + t * W);
      break;
    }
    default:
      break;
  }
  if (g.res && !res_before) OCR_UNROLL
  for (int t = 0; t < T; ++t) acc[t] = add(acc[t], load_n(g.res + t * g.ldr, g.lanes));
  OCR_UNROLL
  for (int t = 0; t < T; ++t) {
    if (kTail)
      store_n(g.y + t * g.ldy, acc[t], g.lanes);
    else
      store(g.y + t * g.ldy, acc[t]);
  }
}

template <int K, int SW, int T>
OCR_INLINE void prefetch_tile(const DwTile& g) {
  const float* q = g.prefetch;
  for (int64_t r = 0; r < g.prefetch_rows; ++r, q += g.prefetch_row) OCR_UNROLL
  for (int i = 0; i < T * SW; ++i) prefetch_l2(q + i * g.px);
}

// K taps and stride SW known: the fast form. Full vectors, or any on AVX-512.
template <int K, int SW, int T, bool kBorder>
OCR_INLINE void tile_fixed(const DwTile& g) {
  V acc[T];
  OCR_UNROLL
  for (int t = 0; t < T; ++t) acc[t] = load(g.bias);
  prefetch_tile<K, SW, T>(g);
  const float *x = g.x, *wt = g.wt;
  for (int64_t kh = 0; kh < g.rows; ++kh, x += g.row, wt += K * W) {
    V wv[K];
    OCR_UNROLL
    for (int i = 0; i < K; ++i) wv[i] = load(wt + i * W);
    OCR_UNROLL
    for (int j = 0; j < (T - 1) * SW + K; ++j) {
      const float* p = x + j * g.px;
      if (kBorder) p = static_cast<uint64_t>(g.iw0 + j) < static_cast<uint64_t>(g.w) ? p : kZeros;
      const V v = load_lanes(p, g.lanes);
      OCR_UNROLL
      for (int t = 0; t < T; ++t)
        if (j - t * SW >= 0 && j - t * SW < K) acc[t] = fma(v, wv[j - t * SW], acc[t]);
    }
  }
  finish<T, kMasksAreFree>(acc, g);
}

// Any kernel width, stride, dilation and number of lanes.
template <int T>
OCR_INLINE void tile_any(const DwTile& g) {
  V acc[T];
  OCR_UNROLL
  for (int t = 0; t < T; ++t) acc[t] = load(g.bias);
  const float *x = g.x, *wt = g.wt;
  for (int64_t kh = 0; kh < g.rows; ++kh, x += g.row)
    for (int i = 0; i < g.kw; ++i, wt += W) {
      const V wv = load(wt);
      OCR_UNROLL
      for (int t = 0; t < T; ++t) {
        const int64_t j = t * g.sw + i * g.dw;
        const float* p =
            static_cast<uint64_t>(g.iw0 + j) < static_cast<uint64_t>(g.w) ? x + j * g.px : kZeros;
        acc[t] = fma(load_n(p, g.lanes), wv, acc[t]);
      }
    }
  finish<T, true>(acc, g);
}

struct DwRow {
  DwTile t;  // x and y at column 0 of channel block 0
  int64_t ow, pad, channels, taps;
  const float *w, *bias;  // of channel block 0
};

// One output row. kLinear: all channel blocks of one tile, then the next tile (memory is walked
// linearly); else only the blocks [c0, c1).
template <int K, int SW, int T>
OCR_INLINE void row_of_tiles(const DwRow& r, int64_t c0, int64_t c1, int64_t w_first, int64_t begin,
                             int64_t end) {
  DwTile g = r.t;
  for (int64_t o = begin;;
       o = min_i(o + T, end - T)) {  // the last tile overlaps its neighbour: same bits
    g.iw0 = o * (SW ? SW : g.sw) - r.pad;
    const bool inside = g.iw0 >= 0 && g.iw0 + (T - 1) * SW + K <= g.w;
    for (int64_t c = c0; c < c1; c += W) {
      g.lanes = min_i(W, r.channels - c);
      g.bias = r.bias + c;
      g.wt = r.w + c * r.taps + w_first;
      g.x = r.t.x + g.iw0 * g.px + c;
      g.y = r.t.y + o * g.ldy + c;
      g.res = r.t.res ? r.t.res + o * g.ldr + c : nullptr;
      g.prefetch = r.t.prefetch + (g.iw0 + r.pad) * g.px + c;
      if (K == 0 || (!kMasksAreFree && g.lanes < W))
        tile_any<T>(g);
      else if (inside)
        tile_fixed<K ? K : 1, SW ? SW : 1, T, false>(g);
      else
        tile_fixed<K ? K : 1, SW ? SW : 1, T, true>(g);
    }
    if (o + T >= end) break;
  }
}

using RowFn = void (*)(const DwRow&, int64_t c0, int64_t c1, int64_t w_first);
// A residual may lie in y itself, so with one no pixel is computed twice.
template <int K, int SW, int T>
OCR_INLINE void row_in_tiles(const DwRow& r, int64_t c0, int64_t c1, int64_t w_first) {
  const int64_t whole = r.t.res ? r.ow / T * T : r.ow;
  row_of_tiles<K, SW, T>(r, c0, c1, w_first, 0, whole);
  if (whole < r.ow) row_of_tiles<K, SW, 1>(r, c0, c1, w_first, whole, r.ow);
}
template <int K, int SW>
void row_any(const DwRow& r, int64_t c0, int64_t c1, int64_t w_first) {
  if (r.ow >= 8)
    row_in_tiles<K, SW, 8>(r, c0, c1, w_first);
  else if (r.ow >= 4)
    row_in_tiles<K, SW, 4>(r, c0, c1, w_first);
  else
    row_of_tiles<K, SW, 1>(r, c0, c1, w_first, 0, r.ow);
}
RowFn pick_row(const WindowArgs& g) {
  if (g.dw == 1 && g.sw <= 2) {
    const bool two = g.sw == 2;
    switch (g.kw) {
      case 1:
        return two ? row_any<1, 2> : row_any<1, 1>;
      case 3:
        return two ? row_any<3, 2> : row_any<3, 1>;
      case 5:
        return two ? row_any<5, 2> : row_any<5, 1>;
      case 7:
        return two ? row_any<7, 2> : row_any<7, 1>;
      case 9:
        return two ? row_any<9, 2> : row_any<9, 1>;
      default:
        break;
    }
  }
  return row_any<0, 0>;
}

}  // namespace

void depthwise(const DepthwiseArgs& a, int64_t r0, int64_t r1) {
  const WindowArgs& g = a.g;
  const RowFn fn = pick_row(g);
  DwRow row{};
  DwTile& t = row.t;
  t.row = g.dh * g.w * g.ldx;
  t.px = g.ldx;
  t.w = g.w;
  t.ldy = g.ldy;
  t.ldr = g.ldr;
  t.kw = g.kw;
  t.sw = g.sw;
  t.dw = g.dw;
  t.kind = kind_of(a.e);
  t.e = &a.e;
  t.c = constants_of(a.e);
  t.prefetch_rows = g.sh;
  t.prefetch_row = g.w * g.ldx;
  row.ow = g.ow;
  row.pad = g.pl;
  row.channels = g.c;
  row.taps = g.kh * g.kw;
  row.w = a.w;
  row.bias = a.bias;
  const int64_t floats = g.w * g.ldx;
  const bool linear =
      g.w * g.kh * W > 6 * 1024;  // one channel vector of a window's rows no longer fits L1
  // Else rows in blocks whose input fits L2; inside a block one channel vector at a time.
  const int64_t block = linear ? r1 - r0 : max_i(1, (64 * 1024 / floats - g.kh) / g.sh);
  for (int64_t b0 = r0; b0 < r1; b0 += block) {
    const int64_t b1 = min_i(r1, b0 + block);
    for (int64_t c = 0; c < (linear ? 1 : g.c); c += W)
      for (int64_t r = b0; r < b1; ++r) {
        const int64_t n = r / g.oh, ih0 = r % g.oh * g.sh - g.pt;
        int64_t y0 = 0, y1 = g.kh;
        while (y0 < y1 && ih0 + y0 * g.dh < 0) ++y0;
        while (y1 > y0 && ih0 + (y1 - 1) * g.dh >= g.h) --y1;
        t.x = g.x + (n * g.h + ih0 + y0 * g.dh) * floats;
        t.rows = y1 - y0;
        t.y = g.y + r * g.ow * g.ldy;
        t.res = g.res ? g.res + r * g.ow * g.ldr : nullptr;
        t.prefetch =
            g.x + (n * g.h + ih0 + g.kh * g.dh + (linear ? 0 : (block - 1) * g.sh)) * floats;
        fn(row, linear ? 0 : c, linear ? g.c : min_i(g.c, c + W), y0 * g.kw * W);
      }
  }
}

}  // namespace train::cpu::OCR_ISA_NS
