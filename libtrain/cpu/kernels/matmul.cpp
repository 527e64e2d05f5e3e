// Products of two activations and attention, on the same micro-kernel as the convolutions.
#include "libtrain/cpu/kernels/tables.h"
#include "libtrain/cpu/kernels/tile.h"

namespace train::cpu::OCR_ISA_NS {
namespace {

constexpr int64_t kPanel = 2 * W;
alignas(64) const float kNoBias[kPanel] = {};
constexpr EpilogueArgs kStoreOnly = {Act::kNone, 0, 0, 1, 0, false};

template <int NR, int MR>
constexpr void fill(TileFn (&fn)[kMaxRows + 1]) {
  if constexpr (MR > 0) {
    fn[MR] = tile<MR, NR, false, kPlain>;
    fill<NR, MR - 1>(fn);
  }
}
struct PlainTiles {
  TileFn fn[3][kMaxRows + 1];
};
constexpr PlainTiles make_plain() {
  PlainTiles t{};
  fill<1, rows_of(2)>(t.fn[1]);
  fill<2, rows_of(2)>(t.fn[2]);
  return t;
}
constexpr PlainTiles kPlainTiles = make_plain();

}  // namespace

void pack_b(const float* b, int64_t ldb, bool trans, int64_t k, int64_t n, float alpha,
            float* packed) {
  const V va = set1(alpha);
  for (int64_t n0 = 0; n0 < n; n0 += kPanel) {
    const int64_t width = min_i(kPanel, n - n0), lanes = width > W ? kPanel : W;
    if (trans) {
      for (int64_t i = 0; i < k; ++i)
        for (int64_t j = width; j < lanes; ++j) packed[i * lanes + j] = 0;
      transpose2d(b + n0 * ldb, ldb, packed, lanes, width, k);
      if (alpha != 1)
        for (int64_t i = 0; i < k * lanes; i += W) store(packed + i, mul(load(packed + i), va));
    } else {
      for (int64_t i = 0; i < k; ++i)
        for (int64_t j = 0; j < lanes; j += W)
          store(packed + i * lanes + j, mul(load_n(b + i * ldb + n0 + j, width - j), va));
    }
    packed += k * lanes;
  }
}

void matmul(const MatmulArgs& g) {
  TileArgs t{};
  t.lda = g.lda;
  t.outer = t.inner = 1;
  t.kc = g.k;
  t.ldy = g.ldy;
  t.e = &kStoreOnly;
  t.bias = kNoBias;
  t.prefetch = t.prefetch_end = g.a;
  const Tiles tiles(g.m, rows_of(2));
  for (int64_t n0 = 0; n0 < g.n; n0 += kPanel) {
    const int64_t width = min_i(kPanel, g.n - n0);
    const int nr = width > W ? 2 : 1;
    t.last = width - (nr - 1) * W;
    for (int64_t i = 0, m = 0; i < tiles.count; m += tiles.size(i), ++i) {
      t.a = g.a + m * g.lda;
      t.y = g.y + m * g.ldy + n0;
      t.b = g.b + n0 * g.k;
      kPlainTiles.fn[nr][tiles.size(i)](t);
    }
  }
}

void attention(const AttentionArgs& g) {
  constexpr int64_t kRows = 2 * rows_of(2);  // rows of scores alive at a time
  float* keys = g.scratch;                   // [d][tk], scaled
  float* values = keys + g.d * ((g.tk + kPanel - 1) / kPanel * kPanel);
  float* scores = values + g.tk * ((g.dv + kPanel - 1) / kPanel * kPanel);
  pack_b(g.k, g.k_stride, true, g.d, g.tk, g.scale, keys);
  pack_b(g.v, g.v_stride, false, g.tk, g.dv, 1, values);
  for (int64_t m = 0; m < g.tq; m += kRows) {
    const int64_t rows = min_i(kRows, g.tq - m);
    matmul({g.q + m * g.q_stride, g.q_stride, keys, scores, g.tk, rows, g.tk, g.d});
    softmax(scores, g.tk, scores, g.tk, rows, g.tk, false);
    matmul({scores, g.tk, values, g.y + m * g.y_stride, g.y_stride, rows, g.dv, g.tk});
  }
}

}  // namespace train::cpu::OCR_ISA_NS
