// Batch normalisation: statistics of the channels, and the gradient. Rows are dense. A few rows at
// a time pass through all channels, tiles of some vectors, so that memory is read in order and a
// line is not fetched twice; per channel, sums run over the rows in order.
#include "libtrain/cpu/kernels/grad_math.h"
#include "libtrain/cpu/kernels/grad_tables.h"

namespace train::cpu::OCR_ISA_NS {
namespace {

constexpr int64_t kChunk = 16;  // rows
constexpr int kTile = 4;        // vectors

// Calls f.template operator()<N>(first channel) for tiles of kTile vectors, then of one, the last
// of which may be partial.
template <class F>
OCR_INLINE void for_tiles(int64_t cols, F&& f) {
  int64_t c = 0;
  for (; c + kTile * W <= cols; c += kTile * W) f.template operator()<kTile>(c);
  for (; c < cols; c += W) f.template operator()<1>(c);
}

// The constants of one vector of channels.
struct Channels {
  V mean, inv, scale, bias;
  OCR_INLINE Channels(const NormGradArgs& g, int64_t c, int64_t left)
      : mean(load_n(g.mean + c, left)),
        inv(load_n(g.inv + c, left)),
        scale(load_n(g.scale + c, left)),
        bias(load_n(g.bias + c, left)) {}
};

// dz of one vector; the slope is taken at z (or act(z)), computed again from x.
template <Act A>
OCR_INLINE V dz_of(V xhat, V dy, const Channels& k, V a, V b) {
  if constexpr (A == Act::kNone) return dy;
  const V z = fma(xhat, k.scale, k.bias);
  if constexpr (reads_output(A)) return mul(dy, slope<A>(activate<A>(z, a, b), a, b));
  return mul(dy, slope<A>(z, a, b));
}

}  // namespace

void block_moments(const float* x, int64_t rows, int64_t cols, float* means, float* squares) {
  for (int64_t r0 = 0; r0 < rows; r0 += kChunk, x += kChunk * cols) {
    const int64_t len = min_i(kChunk, rows - r0);
    const auto before = static_cast<float>(r0), now = static_cast<float>(len);
    const V per_row = set1(1.f / now), share = set1(now / (before + now)), both = set1(before);
    for_tiles(cols, [&]<int N>(int64_t c) {
      const int64_t left = N > 1 ? W : cols - c;
      V s[N], q[N];
      OCR_UNROLL
      for (int j = 0; j < N; ++j) s[j] = q[j] = zero();
      for (int64_t r = 0; r < len; ++r) OCR_UNROLL
      for (int j = 0; j < N; ++j) s[j] = add(s[j], load_n(x + r * cols + c + j * W, left));
      OCR_UNROLL
      for (int j = 0; j < N; ++j) s[j] = mul(s[j], per_row);
      for (int64_t r = 0; r < len; ++r) OCR_UNROLL
      for (int j = 0; j < N; ++j) {
        const V d = sub(load_n(x + r * cols + c + j * W, left), s[j]);
        q[j] = fma(d, d, q[j]);
      }
      OCR_UNROLL
      for (int j = 0; j < N; ++j) {  // joined with the rows before (Chan, Golub, LeVeque)
        float *mean = means + c + j * W, *square = squares + c + j * W;
        const V old = r0 ? load_n(mean, left) : zero(), d = sub(s[j], old), step = mul(d, share);
        store_n(mean, r0 ? add(old, step) : s[j], left);
        store_n(square, r0 ? add(load_n(square, left), fma(mul(d, step), both, q[j])) : q[j], left);
      }
    });
  }
}

void norm_grad_sums(const NormGradArgs& g, int64_t r0, int64_t r1, float* sum_dz, float* sum_dzx) {
  dispatch_slope(g.act.kind, [&]<Act A>() {
    const V a = set1(g.act.alpha), b = set1(g.act.beta);
    for (int64_t from = r0; from < r1; from += kChunk) {
      const int64_t to = min_i(from + kChunk, r1);
      for_tiles(g.cols, [&]<int N>(int64_t c) {
        const int64_t left = N > 1 ? W : g.cols - c;
        V s[N], t[N];
        OCR_UNROLL
        for (int j = 0; j < N; ++j) {
          s[j] = from > r0 ? load_n(sum_dz + c + j * W, left) : zero();
          t[j] = from > r0 ? load_n(sum_dzx + c + j * W, left) : zero();
        }
        for (int64_t r = from; r < to; ++r) OCR_UNROLL
        for (int j = 0; j < N; ++j) {
          const int64_t at = c + j * W;
          const Channels k(g, at, left);
          const V xhat = mul(sub(load_n(g.x + r * g.cols + at, left), k.mean), k.inv);
          const V dz = dz_of<A>(xhat, load_n(g.dy + r * g.cols + at, left), k, a, b);
          s[j] = add(s[j], dz);
          t[j] = fma(dz, xhat, t[j]);
        }
        OCR_UNROLL
        for (int j = 0; j < N; ++j) {
          store_n(sum_dz + c + j * W, s[j], left);
          store_n(sum_dzx + c + j * W, t[j], left);
        }
      });
    }
  });
}

void norm_grad_apply(const NormGradArgs& g, const float* mean_dz, const float* mean_dzx, int64_t r0,
                     int64_t r1, float* dx) {
  dispatch_slope(g.act.kind, [&]<Act A>() {
    const V a = set1(g.act.alpha), b = set1(g.act.beta);
    for (int64_t r = r0; r < r1; ++r) {
      const float *x = g.x + r * g.cols, *dy = g.dy + r * g.cols;
      float* to = dx + r * g.cols;
      for (int64_t c = 0; c < g.cols; c += W) {
        const int64_t left = g.cols - c;
        const Channels k(g, c, left);
        const V xhat = mul(sub(load_n(x + c, left), k.mean), k.inv);
        const V dz = dz_of<A>(xhat, load_n(dy + c, left), k, a, b);
        const V centred = sub(dz, load_n(mean_dz + c, left));
        store_n(to + c, mul(mul(k.scale, k.inv), fnma(xhat, load_n(mean_dzx + c, left), centred)),
                left);
      }
    }
  });
}

}  // namespace train::cpu::OCR_ISA_NS
