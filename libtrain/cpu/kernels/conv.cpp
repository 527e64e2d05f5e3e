// GEMM over rows and dense convolution as an implicit GEMM: in NHWC the (kw, ci) taps of an output
// pixel are contiguous, so a k x k convolution is kh segments of kw * cin floats whose tile rows
// start sw * cin apart. No im2col.
#include "libtrain/cpu/kernels/tables.h"
#include "libtrain/cpu/kernels/tile.h"

namespace train::cpu::OCR_ISA_NS {
namespace {

constexpr TileTable kTiles = make_tiles();
constexpr int64_t kBlockFloats =
    48 * 1024;  // input rows of a block: kept in L2 while all panels pass
int64_t block_rows(int64_t k) { return max_i(kMaxRows * 2, kBlockFloats / max_i(k, 1)); }

void set_panel(TileArgs& t, const WeightsView& b, const Panel& p) {
  t.b = b.w + p.w_off;
  t.bias = b.bias + p.b_off;
  t.last = last_width(p);
}

// The tiles of an epilogue; those of kAny store plain sums.
const TileFns& tiles_of(EpilogueKind kind) { return kTiles.of[kind == kAny ? kPlain : kind]; }

// Rows [m0, m1) that lie at equal distances in x, y and res.
void gemm_span(const GemmArgs& g, const float* x, float* y, const float* res, int64_t rows,
               TileArgs& t) {
  const int64_t k = g.b.k, words = words_of(k);
  const EpilogueKind kind = kind_of(g.e);
  const auto& fns = tiles_of(kind);
  alignas(64) float late[kLateVectors * W];
  const Tiles blocks(rows, block_rows(k));
  for (int64_t bi = 0, first = 0; bi < blocks.count; first += blocks.size(bi), ++bi) {
    const float* block = x + first * g.ldx;
    if (kPairs && !g.words) {
      write_runs(block, g.ldx, blocks.size(bi), k, g.scratch);
      block = g.scratch;
    }
    for (int64_t pi = 0; pi < g.b.panel_count; ++pi) {
      const Panel& p = g.b.panels[pi];
      set_panel(t, g.b, p);
      const Tiles tiles(blocks.size(bi), rows_of(p.nr));
      // In the first block a tile prefetches the next panel's weights, later the rows of the next
      // tile.
      const int64_t ahead =
          bi == 0 && pi + 1 < g.b.panel_count ? g.b.panels[pi + 1].w_off - p.w_off : 0;
      const float* next_b = g.b.w + p.w_off + ahead;
      int64_t waiting = 0;  // rows in `late`
      for (int64_t i = 0, m = first, done = 0; i < tiles.count; ++i) {
        const int64_t mr = tiles.size(i);
        t.a = block + (m - first) * t.lda;
        if (kind == kAny) {
          t.y = late + waiting * p.nr * W;
          t.ldy = p.nr * W;
          t.last = W;
        } else {
          t.y = y + m * g.ldy + p.n0;
          t.res = res ? res + m * g.ldr + p.n0 : nullptr;
        }
        m += mr;
        const int64_t cap = words / 4 * 16 * ((mr + 3) / 4);
        t.prefetch = done < ahead ? next_b + done : block + (m - first) * t.lda;
        t.prefetch_end = t.prefetch + (done < ahead ? cap : mr * t.lda);
        done += cap;
        fns.of(p, mr)(t);
        if (kind != kAny) continue;
        waiting += mr;
        if (i + 1 < tiles.count && (waiting + tiles.base + 1) * p.nr <= kLateVectors) continue;
        const int64_t m0 = m - waiting;
        finish_late(late, waiting, p.nr, last_width(p), g.e, y + m0 * g.ldy + p.n0, g.ldy,
                    res ? res + m0 * g.ldr + p.n0 : nullptr, g.ldr);
        waiting = 0;
      }
    }
  }
}

}  // namespace

int64_t gemm_scratch(int64_t k) { return kPairs ? block_rows(k) * words_of(k) : 0; }

void gemm(const GemmArgs& g, int64_t m0, int64_t m1) {
  TileArgs t{};
  t.lda = kPairs && !g.words ? words_of(g.b.k) : g.ldx;
  t.outer = t.inner = 1;
  t.kc = words_of(g.b.k);
  t.ldy = g.ldy;
  t.ldr = g.ldr;
  t.e = &g.e;
  t.c = constants_of(g.e);
  if (!g.shuffle_w) {
    gemm_span(g, g.x + m0 * g.ldx, g.y + m0 * g.ldy, g.res ? g.res + m0 * g.ldr : nullptr, m1 - m0,
              t);
    return;
  }
  for (int64_t m = m0; m < m1;) {  // one line of pixels at a time
    const int64_t line = m / g.shuffle_w, col = m % g.shuffle_w;
    const int64_t rows = min_i(m1 - m, g.shuffle_w - col);
    gemm_span(g, g.x + m * g.ldx, g.y + line * g.line + col * g.ldy,
              g.res ? g.res + line * g.res_line + col * g.ldr : nullptr, rows, t);
    m += rows;
  }
}

namespace {
int64_t widest_panel(const WeightsView& b) {
  int nr = 1;
  for (int64_t i = 0; i < b.panel_count; ++i) nr = b.panels[i].nr > nr ? b.panels[i].nr : nr;
  return nr;
}
// Pixels per tile for which all panels have kernels.
int64_t tile_pixels(const WeightsView& b) { return rows_of(static_cast<int>(widest_panel(b))); }
int64_t window_width(const WindowArgs& g, int64_t pixels) {
  return (pixels - 1) * g.sw + (g.kw - 1) * g.dw + 1;
}

// Copies the input window of a tile as words, with zeros for the padding at the left and right
// border. `xr`: row of tap y0.
void copy_window(const WindowArgs& g, const float* xr, int64_t rows, int64_t iw0, int64_t width,
                 int64_t row_words, float* d) {
  const int64_t words = words_of(g.c);
  const int64_t left = min_i(width, max_i(0, -iw0)), end = max_i(left, min_i(width, g.w - iw0));
  for (int64_t s = 0; s < rows; ++s) {
    const float* src = xr + (s * g.dh * g.w + iw0) * g.ldx;
    float* q = d + s * row_words;
    std::memset(q, 0, static_cast<size_t>(left * words) * sizeof(float));
    write_runs(src + left * g.ldx, g.ldx, end - left, g.c, q + left * words);
    std::memset(q + end * words, 0, static_cast<size_t>((width - end) * words) * sizeof(float));
  }
}

struct RowTaps {
  int64_t first, count;  // kernel rows that meet the image
};
RowTaps row_taps(const WindowArgs& g, int64_t ih0) {
  int64_t y0 = 0, y1 = g.kh;
  while (y0 < y1 && ih0 + y0 * g.dh < 0) ++y0;
  while (y1 > y0 && ih0 + (y1 - 1) * g.dh >= g.h) --y1;
  return {y0, y1 - y0};
}

// The taps of one pixel row of a window, pixels `ld` words apart: contiguous over kw when pixels
// are dense and the kernel is not dilated.
void set_segments(TileArgs& t, const WindowArgs& g, int64_t ld) {
  const int64_t words = words_of(g.c);
  const bool dense = g.dw == 1 && ld == words;
  t.inner = dense ? 1 : g.kw;
  t.inner_stride = g.dw * ld;
  t.kc = dense ? g.kw * words : words;
  t.lda = g.sw * ld;
}

}  // namespace

int64_t conv_scratch(const ConvArgs& a) {
  return window_width(a.g, tile_pixels(a.b)) * words_of(a.g.c) * a.g.kh;
}

void conv(const ConvArgs& a, int64_t r0, int64_t r1) {
  const WindowArgs& g = a.g;
  const EpilogueKind kind = kind_of(a.e);
  const auto& fns = tiles_of(kind);
  alignas(64) float late[kMaxRows * kPanelMax * W];
  const int64_t pixels = tile_pixels(a.b), words = words_of(g.c);
  const int64_t row_words = window_width(g, pixels) * words;
  const Tiles tiles(g.ow, pixels);
  TileArgs t{};
  t.e = &a.e;
  t.c = constants_of(a.e);
  t.ldy = g.ldy;
  t.ldr = g.ldr;
  for (int64_t r = r0; r < r1; ++r) {
    const int64_t n = r / g.oh, oy = r % g.oh, ih0 = oy * g.sh - g.pt;
    float* yr = g.y + n * g.y_image + oy * g.y_line;
    const float* res = g.res ? g.res + n * g.res_image + oy * g.res_line : nullptr;
    const RowTaps taps = row_taps(g, ih0);
    const float* xr = g.x + (n * g.h + ih0 + taps.first * g.dh) * g.w * g.ldx;
    t.outer = taps.count;
    for (int64_t i = 0, o = 0; i < tiles.count; ++i) {
      const int64_t mr = tiles.size(i), iw0 = o * g.sw - g.pl, width = window_width(g, mr);
      if (!kPairs && iw0 >= 0 && iw0 + width <= g.w) {
        t.a = xr + iw0 * g.ldx;
        t.outer_stride = g.dh * g.w * g.ldx;
        set_segments(t, g, g.ldx);
      } else {
        copy_window(g, xr, taps.count, iw0, width, row_words, a.scratch);
        t.a = a.scratch;
        t.outer_stride = row_words;
        set_segments(t, g, words);
      }
      // The input row below this window is what the next output row needs first.
      t.prefetch = xr + (g.kh * g.dh * g.w + iw0) * g.ldx;
      t.prefetch_end = t.prefetch + mr * g.sw * g.ldx;
      for (int64_t pi = 0; pi < a.b.panel_count; ++pi) {
        const Panel& p = a.b.panels[pi];
        set_panel(t, a.b, p);
        t.b += taps.first * g.kw * words * p.lanes;
        float* const y = yr + o * g.ldy + p.n0;
        const float* const r = res ? res + o * g.ldr + p.n0 : nullptr;
        if (kind == kAny) {
          t.y = late;
          t.ldy = p.nr * W;
          t.last = W;
          fns.of(p, mr)(t);
          finish_late(late, mr, p.nr, last_width(p), a.e, y, g.ldy, r, g.ldr);
        } else {
          t.y = y;
          t.res = r;
          fns.of(p, mr)(t);
        }
      }
      o += mr;
    }
  }
}

}  // namespace train::cpu::OCR_ISA_NS
