// Tiles of a^T b: both matrices have long rows of samples or pixels, which the sum runs over, so
// neither needs a transposition; panels of their columns are packed side by side. With OCR_BF16 a
// packed word holds two rows (words.h).
#include "libtrain/cpu/kernels/grad_tables.h"
#include "libtrain/cpu/kernels/words.h"

namespace train::cpu::OCR_ISA_NS {
namespace {

constexpr int kTileVectors = 2;

// R rows of the tile, all of its columns; k words.
template <int R>
void tile(const float* a, const float* b, int64_t k, float* out, int64_t ldo, int64_t cols,
          bool add_to) {
  V s[R][kTileVectors];
  OCR_UNROLL
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < kTileVectors; ++v) s[r][v] = zero();
  for (int64_t i = 0; i < k; ++i, a += kProductLane, b += kTileVectors * W) {
    const V b0 = load(b), b1 = load(b + W);
    OCR_UNROLL
    for (int r = 0; r < R; ++r) {
      const V x = set1(a[r]);
      s[r][0] = multiply_add(x, b0, s[r][0]);
      s[r][1] = multiply_add(x, b1, s[r][1]);
    }
  }
  OCR_UNROLL
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < kTileVectors; ++v) {
      const int64_t left = cols - v * W;
      if (left <= 0) continue;
      float* y = out + r * ldo + v * W;
      store_n(y, add_to ? add(load_n(y, left), s[r][v]) : s[r][v], left);
    }
}

}  // namespace

int product_cols() { return kTileVectors * W; }

void pack_product(const float* x, int64_t ld, const float* shift, int64_t rows, int64_t cols,
                  int64_t lanes, float* packed) {
  for (int64_t c = 0; c < lanes; c += W) {
    const int64_t left = cols - c, room = lanes - c;
    const V s = shift && left > 0 ? load_n(shift + c, left) : zero();
    const float* from = x + c;
    float* to = packed + c;
    const auto pack = [&](auto read, auto write) __attribute__((always_inline)) {
      int64_t r = 0;
      for (; r + kPerWord <= rows; r += kPerWord, from += kPerWord * ld, to += lanes) {
        const V first = sub(read(from), s);
        write(to, kPairs ? pair(first, sub(read(from + ld), s)) : first);
      }
      if (r < rows) write(to, pair(sub(read(from), s), zero()));
    };
    if (left >= W && room >= W)
      pack([](const float* p) { return load(p); }, [](float* p, V v) { store(p, v); });
    else
      pack([&](const float* p) { return left > 0 ? load_n(p, left) : zero(); },
           [&](float* p, V v) { store_n(p, v, room); });
  }
}

void product_tile(const float* a, const float* b, int64_t k, float* out, int64_t ldo, int64_t rows,
                  int64_t cols, bool add_to) {
  k = words_of(k);
  switch (rows) {
    case 1:
      return tile<1>(a, b, k, out, ldo, cols, add_to);
    case 2:
      return tile<2>(a, b, k, out, ldo, cols, add_to);
    case 3:
      return tile<3>(a, b, k, out, ldo, cols, add_to);
    case 4:
      return tile<4>(a, b, k, out, ldo, cols, add_to);
    case 5:
      return tile<5>(a, b, k, out, ldo, cols, add_to);
    default:
      return tile<6>(a, b, k, out, ldo, cols, add_to);
  }
}

}  // namespace train::cpu::OCR_ISA_NS
