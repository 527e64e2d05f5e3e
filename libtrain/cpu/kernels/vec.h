// Vectors of 4, 8 or 16 floats behind one set of functions, so that a kernel is written once for
// all instruction sets.
//
// Each kernel file is compiled once per instruction set with OCR_ISA_NS (a namespace) and
// OCR_ISA_LEVEL (0 SSE4.2, 1 AVX2+FMA, 2 AVX-512). Everything sits in an unnamed namespace: had it
// external linkage, the linker could keep the copy compiled for a newer CPU for all callers. For
// the same reason kernels include nothing of the standard library but plain C types.
#pragma once
#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#define OCR_INLINE __attribute__((always_inline)) inline
#define OCR_UNROLL _Pragma("GCC unroll 64")

namespace train::cpu::OCR_ISA_NS {
namespace {

#if OCR_ISA_LEVEL == 2
using V = __m512;
using M = __mmask16;
constexpr int W = 16, kRegisters = 32;
OCR_INLINE M lanes(int64_t n) { return n >= 16 ? M(0xFFFF) : M((1u << n) - 1); }
OCR_INLINE V load(const float* p) { return _mm512_loadu_ps(p); }
OCR_INLINE void store(float* p, V v) { _mm512_storeu_ps(p, v); }
OCR_INLINE V load_n(const float* p, int64_t n) { return _mm512_maskz_loadu_ps(lanes(n), p); }
OCR_INLINE void store_n(float* p, V v, int64_t n) { _mm512_mask_storeu_ps(p, lanes(n), v); }
OCR_INLINE V set1(float x) { return _mm512_set1_ps(x); }
OCR_INLINE V zero() { return _mm512_setzero_ps(); }
OCR_INLINE V add(V a, V b) { return _mm512_add_ps(a, b); }
OCR_INLINE V sub(V a, V b) { return _mm512_sub_ps(a, b); }
OCR_INLINE V mul(V a, V b) { return _mm512_mul_ps(a, b); }
OCR_INLINE V div(V a, V b) { return _mm512_div_ps(a, b); }
OCR_INLINE V fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }    // a b + c
OCR_INLINE V fnma(V a, V b, V c) { return _mm512_fnmadd_ps(a, b, c); }  // c - a b
OCR_INLINE V min(V a, V b) { return _mm512_min_ps(a, b); }              // b where either is NaN
OCR_INLINE V max(V a, V b) { return _mm512_max_ps(a, b); }
OCR_INLINE V sqrt(V a) { return _mm512_sqrt_ps(a); }
OCR_INLINE V and_bits(V a, uint32_t b) {
  return _mm512_castsi512_ps(
      _mm512_and_si512(_mm512_castps_si512(a), _mm512_set1_epi32(static_cast<int>(b))));
}
OCR_INLINE V or_bits(V a, V b) {
  return _mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(a), _mm512_castps_si512(b)));
}
OCR_INLINE V xor_bits(V a, V b) {
  return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(a), _mm512_castps_si512(b)));
}
OCR_INLINE V round_even(V a) { return _mm512_roundscale_ps(a, 8); }
OCR_INLINE V floor(V a) { return _mm512_roundscale_ps(a, 9); }
OCR_INLINE V ceil(V a) { return _mm512_roundscale_ps(a, 10); }
OCR_INLINE M less(V a, V b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
OCR_INLINE M greater(V a, V b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
OCR_INLINE M equal(V a, V b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
OCR_INLINE V select(M m, V yes, V no) { return _mm512_mask_blend_ps(m, no, yes); }
OCR_INLINE uint32_t bits_of(M m) { return m; }
using VI = __m512i;
OCR_INLINE VI to_int(V a) { return _mm512_cvtps_epi32(a); }  // nearest
OCR_INLINE V to_float(VI a) { return _mm512_cvtepi32_ps(a); }
OCR_INLINE VI int_bits(V a) { return _mm512_castps_si512(a); }
OCR_INLINE V float_bits(VI a) { return _mm512_castsi512_ps(a); }
OCR_INLINE VI iset1(int x) { return _mm512_set1_epi32(x); }
OCR_INLINE VI iadd(VI a, VI b) { return _mm512_add_epi32(a, b); }
OCR_INLINE VI isub(VI a, VI b) { return _mm512_sub_epi32(a, b); }
template <int N>
OCR_INLINE VI shift_left(VI a) {
  return _mm512_slli_epi32(a, N);
}
template <int N>
OCR_INLINE VI shift_right(VI a) {
  return _mm512_srai_epi32(a, N);
}
OCR_INLINE V load_u8(const uint8_t* p) {  // reads 16 bytes
  return to_float(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
// Half a vector, of which two cost no more than one whole where units are 256 bits wide (Zen 4).
#define OCR_HALVES
using H = __m256;
OCR_INLINE H load_half(const float* p) { return _mm256_loadu_ps(p); }
OCR_INLINE H lower(V v) { return _mm512_castps512_ps256(v); }
OCR_INLINE V whole(H h) { return _mm512_zextps256_ps512(h); }
OCR_INLINE H set1_half(float x) { return _mm256_set1_ps(x); }
OCR_INLINE H fma(H a, H b, H c) { return _mm256_fmadd_ps(a, b, c); }
#elif OCR_ISA_LEVEL == 1
using V = __m256;
using M = __m256;
constexpr int W = 8, kRegisters = 16;
alignas(32) const int32_t kLaneTable[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
OCR_INLINE V load(const float* p) { return _mm256_loadu_ps(p); }
OCR_INLINE void store(float* p, V v) { _mm256_storeu_ps(p, v); }
OCR_INLINE V load_n(const float* p, int64_t n) {
  if (n >= 8) return load(p);
  return _mm256_maskload_ps(
      p, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kLaneTable + 8 - n)));
}
OCR_INLINE void store_n(float* p, V v, int64_t n) {  // masked stores are slow on AMD
  if (n >= 8) return store(p, v);
  __m128 h = _mm256_castps256_ps128(v);
  if (n & 4) {
    _mm_storeu_ps(p, h);
    p += 4;
    h = _mm256_extractf128_ps(v, 1);
  }
  if (n & 2) {
    _mm_storel_pi(reinterpret_cast<__m64*>(p), h);
    p += 2;
    h = _mm_movehl_ps(h, h);
  }
  if (n & 1) _mm_store_ss(p, h);
}
OCR_INLINE V set1(float x) { return _mm256_set1_ps(x); }
OCR_INLINE V zero() { return _mm256_setzero_ps(); }
OCR_INLINE V add(V a, V b) { return _mm256_add_ps(a, b); }
OCR_INLINE V sub(V a, V b) { return _mm256_sub_ps(a, b); }
OCR_INLINE V mul(V a, V b) { return _mm256_mul_ps(a, b); }
OCR_INLINE V div(V a, V b) { return _mm256_div_ps(a, b); }
OCR_INLINE V fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
OCR_INLINE V fnma(V a, V b, V c) { return _mm256_fnmadd_ps(a, b, c); }
OCR_INLINE V min(V a, V b) { return _mm256_min_ps(a, b); }
OCR_INLINE V max(V a, V b) { return _mm256_max_ps(a, b); }
OCR_INLINE V sqrt(V a) { return _mm256_sqrt_ps(a); }
OCR_INLINE V and_bits(V a, uint32_t b) {
  return _mm256_and_ps(a, _mm256_castsi256_ps(_mm256_set1_epi32(static_cast<int>(b))));
}
OCR_INLINE V or_bits(V a, V b) { return _mm256_or_ps(a, b); }
OCR_INLINE V xor_bits(V a, V b) { return _mm256_xor_ps(a, b); }
OCR_INLINE V round_even(V a) { return _mm256_round_ps(a, 8); }
OCR_INLINE V floor(V a) { return _mm256_round_ps(a, 9); }
OCR_INLINE V ceil(V a) { return _mm256_round_ps(a, 10); }
OCR_INLINE M less(V a, V b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
OCR_INLINE M greater(V a, V b) { return _mm256_cmp_ps(a, b, _CMP_GT_OQ); }
OCR_INLINE M equal(V a, V b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
OCR_INLINE V select(M m, V yes, V no) { return _mm256_blendv_ps(no, yes, m); }
OCR_INLINE uint32_t bits_of(M m) { return static_cast<uint32_t>(_mm256_movemask_ps(m)); }
using VI = __m256i;
OCR_INLINE VI to_int(V a) { return _mm256_cvtps_epi32(a); }
OCR_INLINE V to_float(VI a) { return _mm256_cvtepi32_ps(a); }
OCR_INLINE VI int_bits(V a) { return _mm256_castps_si256(a); }
OCR_INLINE V float_bits(VI a) { return _mm256_castsi256_ps(a); }
OCR_INLINE VI iset1(int x) { return _mm256_set1_epi32(x); }
OCR_INLINE VI iadd(VI a, VI b) { return _mm256_add_epi32(a, b); }
OCR_INLINE VI isub(VI a, VI b) { return _mm256_sub_epi32(a, b); }
template <int N>
OCR_INLINE VI shift_left(VI a) {
  return _mm256_slli_epi32(a, N);
}
template <int N>
OCR_INLINE VI shift_right(VI a) {
  return _mm256_srai_epi32(a, N);
}
OCR_INLINE V load_u8(const uint8_t* p) {  // reads 8 bytes
  return to_float(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
#else
using V = __m128;
using M = __m128;
constexpr int W = 4, kRegisters = 16;
OCR_INLINE V load(const float* p) { return _mm_loadu_ps(p); }
OCR_INLINE void store(float* p, V v) { _mm_storeu_ps(p, v); }
OCR_INLINE V load_n(const float* p, int64_t n) {
  if (n >= 4) return load(p);
  if (n == 3) return _mm_setr_ps(p[0], p[1], p[2], 0);
  if (n == 2) return _mm_setr_ps(p[0], p[1], 0, 0);
  return n == 1 ? _mm_load_ss(p) : _mm_setzero_ps();
}
OCR_INLINE void store_n(float* p, V v, int64_t n) {
  if (n >= 4) return store(p, v);
  if (n & 2) {
    _mm_storel_pi(reinterpret_cast<__m64*>(p), v);
    p += 2;
    v = _mm_movehl_ps(v, v);
  }
  if (n & 1) _mm_store_ss(p, v);
}
OCR_INLINE V set1(float x) { return _mm_set1_ps(x); }
OCR_INLINE V zero() { return _mm_setzero_ps(); }
OCR_INLINE V add(V a, V b) { return _mm_add_ps(a, b); }
OCR_INLINE V sub(V a, V b) { return _mm_sub_ps(a, b); }
OCR_INLINE V mul(V a, V b) { return _mm_mul_ps(a, b); }
OCR_INLINE V div(V a, V b) { return _mm_div_ps(a, b); }
OCR_INLINE V fma(V a, V b, V c) { return _mm_add_ps(_mm_mul_ps(a, b), c); }
OCR_INLINE V fnma(V a, V b, V c) { return _mm_sub_ps(c, _mm_mul_ps(a, b)); }
OCR_INLINE V min(V a, V b) { return _mm_min_ps(a, b); }
OCR_INLINE V max(V a, V b) { return _mm_max_ps(a, b); }
OCR_INLINE V sqrt(V a) { return _mm_sqrt_ps(a); }
OCR_INLINE V and_bits(V a, uint32_t b) {
  return _mm_and_ps(a, _mm_castsi128_ps(_mm_set1_epi32(static_cast<int>(b))));
}
OCR_INLINE V or_bits(V a, V b) { return _mm_or_ps(a, b); }
OCR_INLINE V xor_bits(V a, V b) { return _mm_xor_ps(a, b); }
OCR_INLINE V round_even(V a) { return _mm_round_ps(a, 8); }
OCR_INLINE V floor(V a) { return _mm_round_ps(a, 9); }
OCR_INLINE V ceil(V a) { return _mm_round_ps(a, 10); }
OCR_INLINE M less(V a, V b) { return _mm_cmplt_ps(a, b); }
OCR_INLINE M greater(V a, V b) { return _mm_cmpgt_ps(a, b); }
OCR_INLINE M equal(V a, V b) { return _mm_cmpeq_ps(a, b); }
OCR_INLINE V select(M m, V yes, V no) { return _mm_blendv_ps(no, yes, m); }
OCR_INLINE uint32_t bits_of(M m) { return static_cast<uint32_t>(_mm_movemask_ps(m)); }
using VI = __m128i;
OCR_INLINE VI to_int(V a) { return _mm_cvtps_epi32(a); }
OCR_INLINE V to_float(VI a) { return _mm_cvtepi32_ps(a); }
OCR_INLINE VI int_bits(V a) { return _mm_castps_si128(a); }
OCR_INLINE V float_bits(VI a) { return _mm_castsi128_ps(a); }
OCR_INLINE VI iset1(int x) { return _mm_set1_epi32(x); }
OCR_INLINE VI iadd(VI a, VI b) { return _mm_add_epi32(a, b); }
OCR_INLINE VI isub(VI a, VI b) { return _mm_sub_epi32(a, b); }
template <int N>
OCR_INLINE VI shift_left(VI a) {
  return _mm_slli_epi32(a, N);
}
template <int N>
OCR_INLINE VI shift_right(VI a) {
  return _mm_srai_epi32(a, N);
}
OCR_INLINE V load_u8(const uint8_t* p) {  // reads 4 bytes
  int32_t v;
  std::memcpy(&v, p, 4);
  return to_float(_mm_cvtepu8_epi32(_mm_cvtsi32_si128(v)));
}
#endif

#ifdef OCR_HALVES
constexpr bool kHalves = true;
#else
constexpr bool kHalves = false;
using H = V;  // no halves: for kernels that name them
OCR_INLINE H load_half(const float* p) { return load(p); }
OCR_INLINE H lower(V v) { return v; }
OCR_INLINE V whole(H h) { return h; }
OCR_INLINE H set1_half(float x) { return set1(x); }
#endif

OCR_INLINE V abs(V a) { return and_bits(a, 0x7FFFFFFFu); }
OCR_INLINE V neg(V a) { return xor_bits(a, set1(-0.f)); }
OCR_INLINE V sign_of(V a) { return and_bits(a, 0x80000000u); }
OCR_INLINE void prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T0); }
OCR_INLINE void prefetch_l2(const void* p) {
  _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1);
}

// Sum, maximum and minimum of the lanes in a fixed order (halves folded onto each other).
OCR_INLINE float reduce_add(V v) {
  float t[W];
  store(t, v);
  for (int h = W / 2; h > 0; h /= 2)
    for (int i = 0; i < h; ++i) t[i] += t[i + h];
  return t[0];
}
OCR_INLINE float reduce_max(V v) {
  float t[W];
  store(t, v);
  for (int i = 1; i < W; ++i) t[0] = t[i] > t[0] || t[i] != t[i] ? t[i] : t[0];
  return t[0];
}
OCR_INLINE float reduce_min(V v) {
  float t[W];
  store(t, v);
  for (int i = 1; i < W; ++i) t[0] = t[i] < t[0] || t[i] != t[i] ? t[i] : t[0];
  return t[0];
}
OCR_INLINE int64_t min_i(int64_t a, int64_t b) { return a < b ? a : b; }
OCR_INLINE int64_t max_i(int64_t a, int64_t b) { return a > b ? a : b; }

}  // namespace
}  // namespace train::cpu::OCR_ISA_NS
