// The words that the dense kernels multiply: floats, or with OCR_BF16 pairs of bf16 that lie in the
// 32 bits of one float. Either way a tile broadcasts words of pixels and loads vectors of words of
// weights, so one source serves both; sums are f32.
//
// Pairs are neighbours in K. Each run of channels (a row of a GEMM, the channels of a pixel of a
// convolution) starts a word of its own; an odd run ends with a zero.
#pragma once
#include "libtrain/cpu/kernels/vec.h"

namespace train::cpu::OCR_ISA_NS {
namespace {

#ifdef OCR_BF16
constexpr bool kPairs = true;
constexpr int64_t kPerWord = 2;

// a b + c: the products of both halves, the upper first, added one after the other. Denormals are
// 0.
OCR_INLINE V multiply_add(V a, V b, V c) {
  return _mm512_dpbf16_ps(c, __builtin_bit_cast(__m512bh, a), __builtin_bit_cast(__m512bh, b));
}
OCR_INLINE H multiply_add(H a, H b, H c) {
  return _mm256_dpbf16_ps(c, __builtin_bit_cast(__m256bh, a), __builtin_bit_cast(__m256bh, b));
}

// x[0..n) as words, rounded to nearest even.
inline void write_words(const float* x, int64_t n, float* words) {
  for (; n >= 2 * W; n -= 2 * W, x += 2 * W, words += W)
    store(words, __builtin_bit_cast(V, _mm512_cvtne2ps_pbh(load(x + W), load(x))));
  if (n == 0) return;
  const V low = load_n(x, n), high = n > W ? load_n(x + W, n - W) : zero();
  store_n(words, __builtin_bit_cast(V, _mm512_cvtne2ps_pbh(high, low)), (n + 1) / 2);
}

// Words of two rows of a matrix: the lower halves from `first`, the upper from `second`.
OCR_INLINE V pair(V first, V second) {
  alignas(64) static constexpr uint16_t kOrder[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                      21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                      11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i order = _mm512_castps_si512(_mm512_loadu_ps(kOrder));
  const auto halves = __builtin_bit_cast(__m512i, _mm512_cvtne2ps_pbh(second, first));
  return _mm512_castsi512_ps(_mm512_permutexvar_epi16(order, halves));
}

// The word at p in all lanes; where the caller made the words, p may lie between two floats.
OCR_INLINE V broadcast(const float* p) {
  float word;
  std::memcpy(&word, p, sizeof word);
  return set1(word);
}
OCR_INLINE H broadcast_half(const float* p) {
  float word;
  std::memcpy(&word, p, sizeof word);
  return set1_half(word);
}
#else
constexpr bool kPairs = false;
constexpr int64_t kPerWord = 1;
OCR_INLINE V multiply_add(V a, V b, V c) { return fma(a, b, c); }
OCR_INLINE V pair(V first, V) { return first; }
OCR_INLINE V broadcast(const float* p) { return set1(*p); }
#ifdef OCR_HALVES
OCR_INLINE H multiply_add(H a, H b, H c) { return fma(a, b, c); }
#endif
OCR_INLINE H broadcast_half(const float* p) { return set1_half(*p); }
inline void write_words(const float* x, int64_t n, float* words) {
  std::memcpy(words, x, static_cast<size_t>(n) * sizeof(float));
}
#endif

OCR_INLINE int64_t words_of(int64_t n) { return (n + kPerWord - 1) / kPerWord; }

// `runs` runs of n floats, `ld` apart.
inline void write_runs(const float* x, int64_t ld, int64_t runs, int64_t n, float* words) {
  if (ld == n && n % kPerWord == 0) return write_words(x, runs * n, words);
  for (int64_t i = 0; i < runs; ++i) write_words(x + i * ld, n, words + i * words_of(n));
}

}  // namespace
}  // namespace train::cpu::OCR_ISA_NS
