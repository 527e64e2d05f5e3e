// Depthwise convolution: one vector of channels, T neighbouring output pixels per register tile, so
// that an input vector is loaded once per kernel row and used by every tap that needs it.
#include "libtrain/cpu/kernels/tables.h"
#include "libtrain/cpu/kernels/tile.h"

namespace train::cpu::OCR_ISA_NS {
namespace {

// Channel vectors per tile. With stride 2 a tile of one vector touches many half-used cache lines;
// kernels wider than 3 have too few registers for two.
constexpr int vectors_of(int k, int stride) { return W < 16 && stride == 2 && k <= 3 ? 2 : 1; }
alignas(64) const float kZeros[2 * W] = {};
constexpr bool kMasksAreFree = OCR_ISA_LEVEL == 2;

struct DwTile {
  const float* x;   // row of the first valid tap, column of tap 0 of the first output
  int64_t row, px;  // floats between kernel rows / pixels
  int64_t rows;     // valid kernel rows
  int64_t iw0, w;   // column of tap 0 of the first output, image width
  const float* wt;  // [rows][kw][W] from the first valid kernel row
  int64_t w_block;  // floats from one channel vector of wt to the next
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
  const float* prefetch;  // input rows needed next, or null
  int64_t prefetch_rows, prefetch_row;
};

OCR_INLINE V load_lanes(const float* p, int64_t lanes) {
  return kMasksAreFree ? load_n(p, lanes) : load(p);
}

template <int T, bool kTail>
OCR_INLINE void finish(V (&acc)[T], const DwTile& g, int64_t c) {
  const bool res_before = g.res && g.e->res_before;
  if (res_before) OCR_UNROLL
  for (int t = 0; t < T; ++t)
    acc[t] = add(acc[t], load_n(g.res + t * g.ldr + c, kTail ? g.lanes : W));
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
  for (int t = 0; t < T; ++t)
    acc[t] = add(acc[t], load_n(g.res + t * g.ldr + c, kTail ? g.lanes : W));
  OCR_UNROLL
  for (int t = 0; t < T; ++t) {
    if (kTail)
      store_n(g.y + t * g.ldy + c, acc[t], g.lanes);
    else
      store(g.y + t * g.ldy + c, acc[t]);
  }
}

template <int SW, int T>
OCR_INLINE void prefetch_tile(const DwTile& g) {
  const float* q = g.prefetch;
  if (!q) return;
  for (int64_t r = 0; r < g.prefetch_rows; ++r, q += g.prefetch_row) OCR_UNROLL
  for (int i = 0; i < T * SW; ++i) prefetch_l2(q + i * g.px);
}

// K taps and stride SW known: the fast form, T pixels x NC full vectors of channels.
template <int K, int SW, int T, int NC, bool kBorder>
OCR_INLINE void tile_fixed(const DwTile& g) {
  V acc[NC][T];
  OCR_UNROLL
  for (int n = 0; n < NC; ++n) OCR_UNROLL
  for (int t = 0; t < T; ++t) acc[n][t] = load(g.bias + n * W);
  prefetch_tile<SW, T>(g);
  const float *x = g.x, *wt = g.wt;
  for (int64_t kh = 0; kh < g.rows; ++kh, x += g.row, wt += K * W) {
    V wv[NC][K];
    OCR_UNROLL
    for (int n = 0; n < NC; ++n) OCR_UNROLL
    for (int i = 0; i < K; ++i) wv[n][i] = load(wt + n * g.w_block + i * W);
    OCR_UNROLL
    for (int j = 0; j < (T - 1) * SW + K; ++j) {
      const float* p = x + j * g.px;
      if (kBorder) p = static_cast<uint64_t>(g.iw0 + j) < static_cast<uint64_t>(g.w) ? p : kZeros;
      OCR_UNROLL
      for (int n = 0; n < NC; ++n) {
        const V v = NC > 1 ? load(p + n * W) : load_lanes(p, g.lanes);
        OCR_UNROLL
        for (int t = 0; t < T; ++t)
          if (j - t * SW >= 0 && j - t * SW < K) acc[n][t] = fma(v, wv[n][j - t * SW], acc[n][t]);
      }
    }
  }
  OCR_UNROLL
  for (int n = 0; n < NC; ++n) finish<T, NC == 1 && kMasksAreFree>(acc[n], g, n * W);
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
  finish<T, true>(acc, g, 0);
}

struct DwRow {
  DwTile t;  // x and y at column 0 of channel block 0
  int64_t ow, pad, channels, taps;
  const float *w, *bias;  // of channel block 0
};

// Pixels [begin, end) of one output row: all channels of one tile, then the next tile, so that
// memory is walked linearly.
template <int K, int SW, int T>
OCR_INLINE void row_of_tiles(const DwRow& r, int64_t w_first, int64_t begin, int64_t end) {
  DwTile g = r.t;
  for (int64_t o = begin;;
       o = min_i(o + T, end - T)) {  // the last tile overlaps its neighbour: same bits
    g.iw0 = o * (SW ? SW : g.sw) - r.pad;
    const bool inside = g.iw0 >= 0 && g.iw0 + (T - 1) * SW + K <= g.w;
    int64_t step = W;
    for (int64_t c = 0; c < r.channels; c += step) {
      g.lanes = min_i(W, r.channels - c);
      g.bias = r.bias + c;
      g.wt = r.w + c * r.taps + w_first;
      g.x = r.t.x + g.iw0 * g.px + c;
      g.y = r.t.y + o * g.ldy + c;
      g.res = r.t.res ? r.t.res + o * g.ldr + c : nullptr;
      const bool new_line = c % 16 == 0;  // of 64 bytes
      g.prefetch = r.t.prefetch && new_line ? r.t.prefetch + (g.iw0 + r.pad) * g.px + c : nullptr;
      constexpr int kVectors = vectors_of(K, SW);
      step = K > 0 && c + kVectors * W <= r.channels ? kVectors * W : W;
      constexpr int K1 = K ? K : 1, S1 = SW ? SW : 1;
      if (K == 0 || (!kMasksAreFree && g.lanes < W))
        tile_any<T>(g);
      else if (kVectors > 1 && step > W)
        inside ? tile_fixed<K1, S1, T, kVectors, false>(g)
               : tile_fixed<K1, S1, T, kVectors, true>(g);
      else
        inside ? tile_fixed<K1, S1, T, 1, false>(g) : tile_fixed<K1, S1, T, 1, true>(g);
    }
    if (o + T >= end) break;
  }
}

using RowFn = void (*)(const DwRow&, int64_t w_first);
// A residual may lie in y itself, so with one no pixel is computed twice.
template <int K, int SW, int T>
OCR_INLINE void row_in_tiles(const DwRow& r, int64_t w_first) {
  const int64_t whole = r.t.res ? r.ow / T * T : r.ow;
  row_of_tiles<K, SW, T>(r, w_first, 0, whole);
  if (whole < r.ow) row_of_tiles<K, SW, 1>(r, w_first, whole, r.ow);
}
template <int K, int SW>
void row_any(const DwRow& r, int64_t w_first) {
  constexpr int kPixels = 8 / vectors_of(K, SW);
  if (r.ow >= kPixels)
    row_in_tiles<K, SW, kPixels>(r, w_first);
  else if (kPixels > 4 && r.ow >= 4)
    row_in_tiles<K, SW, 4>(r, w_first);
  else
    row_of_tiles<K, SW, 1>(r, w_first, 0, r.ow);
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
  t.w_block = g.kh * g.kw * W;
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
  const bool prefetch = g.h * floats > 6 * 1024 * 1024;  // beyond the caches: fetch a row ahead
  for (int64_t r = r0; r < r1; ++r) {
    const int64_t n = r / g.oh, ih0 = r % g.oh * g.sh - g.pt;
    int64_t y0 = 0, y1 = g.kh;
    while (y0 < y1 && ih0 + y0 * g.dh < 0) ++y0;
    while (y1 > y0 && ih0 + (y1 - 1) * g.dh >= g.h) --y1;
    t.x = g.x + (n * g.h + ih0 + y0 * g.dh) * floats;
    t.rows = y1 - y0;
    t.y = g.y + r * g.ow * g.ldy;
    t.res = g.res ? g.res + r * g.ow * g.ldr : nullptr;
    t.prefetch = prefetch ? g.x + (n * g.h + ih0 + g.kh * g.dh) * floats : nullptr;
    fn(row, y0 * g.kw * W);
  }
}

}  // namespace train::cpu::OCR_ISA_NS
