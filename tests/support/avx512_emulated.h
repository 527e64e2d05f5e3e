// The AVX-512 instructions that the kernels use, on two AVX2 halves: with this header included
// first
// (-include), kernels/vec.h compiles unchanged for a CPU that has no AVX-512.
//
// Only for tests: the preset `emulated` builds the AVX-512 kernels this way, so that every line of
// them runs where no such CPU is at hand. Each function follows Intel's description of the
// instruction; tests/emulation compares it with that description in scalar code. What an emulation
// cannot show: speed, and that compiler and CPU agree with the manual.
//
// Everything has internal linkage, as all that is compiled for one instruction set.
#pragma once
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#define EMULATED __attribute__((always_inline, unused)) static inline

namespace emulated {

struct M512 {
  __m256 lo, hi;  // elements 0..7, 8..15
};
struct M512i {
  __m256i lo, hi;
};
struct M512bh {  // 32 bf16; element 2 i is the lower half of 32-bit element i
  __m256i lo, hi;
};
using Mask16 = uint16_t;  // bit i speaks of element i

// Loads and stores without alignment. A masked one touches only the elements of its mask, so that a
// sanitizer sees exactly the bytes that the instruction would.
EMULATED M512 loadu_ps(const void* p) {
  const float* f = static_cast<const float*>(p);
  return {_mm256_loadu_ps(f), _mm256_loadu_ps(f + 8)};
}
EMULATED void storeu_ps(void* p, M512 v) {
  float* f = static_cast<float*>(p);
  _mm256_storeu_ps(f, v.lo);
  _mm256_storeu_ps(f + 8, v.hi);
}
EMULATED M512 maskz_loadu_ps(Mask16 k, const void* p) {
  if (k == 0xFFFF) return loadu_ps(p);
  float t[16] = {};
  for (int i = 0; i < 16; ++i)
    if (k >> i & 1) t[i] = static_cast<const float*>(p)[i];
  return loadu_ps(t);
}
EMULATED void mask_storeu_ps(void* p, Mask16 k, M512 v) {
  if (k == 0xFFFF) return storeu_ps(p, v);
  float t[16];
  storeu_ps(t, v);
  for (int i = 0; i < 16; ++i)
    if (k >> i & 1) static_cast<float*>(p)[i] = t[i];
}

EMULATED M512 set1_ps(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
EMULATED M512 setzero_ps() { return set1_ps(0); }
EMULATED M512i set1_epi32(int x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
EMULATED M512i castps_si512(M512 a) {
  return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)};
}
EMULATED M512 castsi512_ps(M512i a) {
  return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)};
}

// Element by element what the AVX2 instruction of the same name does.
#define EMULATED_BINARY(T, name, half) \
  EMULATED T name(T a, T b) { return {half(a.lo, b.lo), half(a.hi, b.hi)}; }
EMULATED_BINARY(M512, add_ps, _mm256_add_ps)
EMULATED_BINARY(M512, sub_ps, _mm256_sub_ps)
EMULATED_BINARY(M512, mul_ps, _mm256_mul_ps)
EMULATED_BINARY(M512, div_ps, _mm256_div_ps)
EMULATED_BINARY(M512, min_ps, _mm256_min_ps)  // b where either is NaN or both are zeros
EMULATED_BINARY(M512, max_ps, _mm256_max_ps)
EMULATED_BINARY(M512i, and_si512, _mm256_and_si256)
EMULATED_BINARY(M512i, or_si512, _mm256_or_si256)
EMULATED_BINARY(M512i, xor_si512, _mm256_xor_si256)
EMULATED_BINARY(M512i, add_epi32, _mm256_add_epi32)
EMULATED_BINARY(M512i, sub_epi32, _mm256_sub_epi32)
#undef EMULATED_BINARY
EMULATED M512 sqrt_ps(M512 a) { return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)}; }
EMULATED M512 fmadd_ps(M512 a, M512 b, M512 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
EMULATED M512 fnmadd_ps(M512 a, M512 b, M512 c) {
  return {_mm256_fnmadd_ps(a.lo, b.lo, c.lo), _mm256_fnmadd_ps(a.hi, b.hi, c.hi)};
}
EMULATED M512i cvtps_epi32(M512 a) { return {_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi)}; }
EMULATED M512 cvtepi32_ps(M512i a) { return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }
EMULATED M512i cvtepu8_epi32(__m128i a) {
  return {_mm256_cvtepu8_epi32(a), _mm256_cvtepu8_epi32(_mm_srli_si128(a, 8))};
}
template <int N>
EMULATED M512i slli_epi32(M512i a) {
  return {_mm256_slli_epi32(a.lo, N), _mm256_slli_epi32(a.hi, N)};
}
template <int N>
EMULATED M512i srai_epi32(M512i a) {
  return {_mm256_srai_epi32(a.lo, N), _mm256_srai_epi32(a.hi, N)};
}
// Rounds to multiples of 2^-(imm >> 4); the lower bits are those of ROUNDPS. Only whole numbers
// here.
template <int Imm>
EMULATED M512 roundscale_ps(M512 a) {
  static_assert(Imm >> 4 == 0);
  return {_mm256_round_ps(a.lo, Imm), _mm256_round_ps(a.hi, Imm)};
}

// Comparisons give bits, not elements of all ones.
template <int Predicate>
EMULATED Mask16 cmp_ps_mask(M512 a, M512 b) {
  return static_cast<Mask16>(_mm256_movemask_ps(_mm256_cmp_ps(a.lo, b.lo, Predicate)) |
                             _mm256_movemask_ps(_mm256_cmp_ps(a.hi, b.hi, Predicate)) << 8);
}
EMULATED __m256 spread(int bits) {  // all ones in element i where bit i is set
  const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  const __m256i set = _mm256_and_si256(_mm256_set1_epi32(bits), bit);
  return _mm256_castsi256_ps(_mm256_cmpeq_epi32(set, bit));
}
EMULATED M512 mask_blend_ps(Mask16 k, M512 a, M512 b) {  // b where the bit is set
  return {_mm256_blendv_ps(a.lo, b.lo, spread(k)), _mm256_blendv_ps(a.hi, b.hi, spread(k >> 8))};
}

// AVX512-BF16 knows neither rounding modes nor denormals, whatever MXCSR says: they count as 0, and
// results that would be denormal are 0.
EMULATED __m256 flushed(__m256 a) {
  const __m256i exponent = _mm256_and_si256(_mm256_castps_si256(a), _mm256_set1_epi32(0x7F800000));
  const __m256 denormal = _mm256_castsi256_ps(_mm256_cmpeq_epi32(exponent, _mm256_setzero_si256()));
  return _mm256_blendv_ps(a, _mm256_and_ps(a, _mm256_set1_ps(-0.f)), denormal);
}
// The upper or the lower bf16 of every element, as f32.
EMULATED __m256 upper_half(__m256i a) {
  return flushed(_mm256_castsi256_ps(_mm256_and_si256(a, _mm256_set1_epi32(-65536))));
}
EMULATED __m256 lower_half(__m256i a) {
  return flushed(_mm256_castsi256_ps(_mm256_slli_epi32(a, 16)));
}
EMULATED __m256 half_dpbf16(__m256 c, __m256i a, __m256i b) {
  c = flushed(_mm256_fmadd_ps(upper_half(a), upper_half(b), flushed(c)));
  return flushed(_mm256_fmadd_ps(lower_half(a), lower_half(b), c));
}
// Not inlined: a tile has hundreds.
__attribute__((noinline, unused)) static M512 dpbf16_ps(M512 c, M512bh a, M512bh b) {
  return {half_dpbf16(c.lo, a.lo, b.lo), half_dpbf16(c.hi, a.hi, b.hi)};
}
__attribute__((noinline, unused)) static __m256 dpbf16_ps(__m256 c, __m256i a, __m256i b) {
  return half_dpbf16(c, a, b);
}
EMULATED __m256 castps512_ps256(M512 a) { return a.lo; }
EMULATED M512 zextps256_ps512(__m256 a) { return {a, _mm256_setzero_ps()}; }
// Eight bf16 in the lower halves of 32-bit elements, rounded to nearest even.
EMULATED __m256i cvtneps(__m256 a) {
  const __m256i u = _mm256_castps_si256(flushed(a));
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  const __m256i rounded =
      _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7FFF)), odd), 16);
  const __m256i nan = _mm256_or_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(0x40));
  const __m256 is_nan = _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
  return _mm256_blendv_epi8(rounded, nan, _mm256_castps_si256(is_nan));
}
EMULATED __m256i joined(__m256i a, __m256i b) {  // 16 bf16 in order
  return _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xD8);
}
// y[i] = x[order[i] % 32], of 16 bits each.
EMULATED M512i permutexvar_epi16(M512i order, M512i x) {
  uint16_t from[32], at[32], to[32];
  std::memcpy(from, &x, sizeof x);
  std::memcpy(at, &order, sizeof order);
  for (int i = 0; i < 32; ++i) to[i] = from[at[i] & 31];
  M512i y;
  std::memcpy(&y, to, sizeof y);
  return y;
}
EMULATED M512bh cvtne2ps_pbh(M512 high, M512 low) {
  return {joined(cvtneps(low.lo), cvtneps(low.hi)), joined(cvtneps(high.lo), cvtneps(high.hi))};
}

}  // namespace emulated

// Older names first: GCC defines some of these as macros when it does not optimise.
#undef _mm512_roundscale_ps
#undef _mm512_cmp_ps_mask
#undef _mm512_slli_epi32
#undef _mm512_srai_epi32

#define __m512 ::emulated::M512
#define __m512i ::emulated::M512i
#define __m512bh ::emulated::M512bh
#define __m256bh __m256i
#define _mm512_loadu_ps ::emulated::loadu_ps
#define _mm512_storeu_ps ::emulated::storeu_ps
#define _mm512_maskz_loadu_ps ::emulated::maskz_loadu_ps
#define _mm512_mask_storeu_ps ::emulated::mask_storeu_ps
#define _mm512_set1_ps ::emulated::set1_ps
#define _mm512_setzero_ps ::emulated::setzero_ps
#define _mm512_set1_epi32 ::emulated::set1_epi32
#define _mm512_castps_si512 ::emulated::castps_si512
#define _mm512_castsi512_ps ::emulated::castsi512_ps
#define _mm512_add_ps ::emulated::add_ps
#define _mm512_sub_ps ::emulated::sub_ps
#define _mm512_mul_ps ::emulated::mul_ps
#define _mm512_div_ps ::emulated::div_ps
#define _mm512_min_ps ::emulated::min_ps
#define _mm512_max_ps ::emulated::max_ps
#define _mm512_sqrt_ps ::emulated::sqrt_ps
#define _mm512_fmadd_ps ::emulated::fmadd_ps
#define _mm512_fnmadd_ps ::emulated::fnmadd_ps
#define _mm512_and_si512 ::emulated::and_si512
#define _mm512_or_si512 ::emulated::or_si512
#define _mm512_xor_si512 ::emulated::xor_si512
#define _mm512_add_epi32 ::emulated::add_epi32
#define _mm512_sub_epi32 ::emulated::sub_epi32
#define _mm512_cvtps_epi32 ::emulated::cvtps_epi32
#define _mm512_cvtepi32_ps ::emulated::cvtepi32_ps
#define _mm512_cvtepu8_epi32 ::emulated::cvtepu8_epi32
#define _mm512_slli_epi32(a, n) ::emulated::slli_epi32<n>(a)
#define _mm512_srai_epi32(a, n) ::emulated::srai_epi32<n>(a)
#define _mm512_roundscale_ps(a, imm) ::emulated::roundscale_ps<imm>(a)
#define _mm512_cmp_ps_mask(a, b, predicate) ::emulated::cmp_ps_mask<predicate>(a, b)
#define _mm512_mask_blend_ps ::emulated::mask_blend_ps
#define _mm512_permutexvar_epi16 ::emulated::permutexvar_epi16
#define _mm512_castps512_ps256 ::emulated::castps512_ps256
#define _mm512_zextps256_ps512 ::emulated::zextps256_ps512
#define _mm512_dpbf16_ps ::emulated::dpbf16_ps
#define _mm256_dpbf16_ps ::emulated::dpbf16_ps
#define _mm512_cvtne2ps_pbh ::emulated::cvtne2ps_pbh
