// Every emulated AVX-512 instruction against its description in Intel's manual, written in scalar
// code: all pairs of special values, and random bits.
#include "tests/support/avx512_emulated.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

namespace {

using Floats = std::array<float, 16>;
using Ints = std::array<int32_t, 16>;

__m512 vector_of(const Floats& f) { return _mm512_loadu_ps(f.data()); }
Floats floats_of(__m512 v) {
  Floats f;
  _mm512_storeu_ps(f.data(), v);
  return f;
}
Ints ints_of(__m512i v) { return std::bit_cast<Ints>(floats_of(_mm512_castsi512_ps(v))); }
__m512i ints(const Ints& i) { return _mm512_castps_si512(vector_of(std::bit_cast<Floats>(i))); }

uint32_t bits(float f) { return std::bit_cast<uint32_t>(f); }
bool same(float a, float b) { return bits(a) == bits(b) || (std::isnan(a) && std::isnan(b)); }

constexpr size_t kSpecial = 21;

// Vectors of special values in every place and next to every other, and of random ones.
std::vector<Floats> samples() {
  const float inf = INFINITY, tiny = std::bit_cast<float>(1u);
  const std::array<float, kSpecial> special = {
      0,   -0.f, 1,   -1,   .5f,   -.5f,   1.5f,     2.5f,    -2.5f,  3e38f,  -3e38f,
      inf, -inf, NAN, tiny, -tiny, 1e-38f, 1.1e-38f, 8388609, 2.1e9f, -2.2e9f};
  std::vector<Floats> r;
  for (size_t i = 0; i < kSpecial; ++i) {
    Floats f;
    for (size_t j = 0; j < 16; ++j) f[j] = special[(i + j * j) % kSpecial];
    r.push_back(f);
  }
  std::mt19937 rng(1);
  for (int i = 0; i < 200; ++i) {
    Floats f;
    for (float& x : f)
      x = i % 2 ? std::bit_cast<float>(static_cast<uint32_t>(rng()))
                : std::ldexp(static_cast<float>(static_cast<int>(rng() >> 8)) - 8388608.f, -20);
    r.push_back(f);
  }
  return r;
}

// Calls f(a, b) with every sample beside its neighbour and beside every special one.
template <class F>
void for_pairs(F&& f) {
  const auto all = samples();
  for (size_t i = 0; i < all.size(); ++i) {
    f(all[i], all[(i + 1) % all.size()]);
    for (size_t j = 0; i < 21 && j < 21; ++j) f(all[i], all[j]);
  }
}

template <class Vector, class Scalar>
void expect_binary(const char* name, Vector&& vector, Scalar&& scalar) {
  for_pairs([&](const Floats& a, const Floats& b) {
    const Floats y = floats_of(vector(vector_of(a), vector_of(b)));
    for (size_t i = 0; i < 16; ++i)
      ASSERT_TRUE(same(y[i], scalar(a[i], b[i])))
          << name << "(" << a[i] << ", " << b[i] << ") is " << y[i];
  });
}

template <class Vector, class Scalar>
void expect_unary(const char* name, Vector&& vector, Scalar&& scalar) {
  for (const Floats& a : samples()) {
    const Floats y = floats_of(vector(vector_of(a)));
    for (size_t i = 0; i < 16; ++i)
      ASSERT_TRUE(same(y[i], scalar(a[i]))) << name << "(" << a[i] << ") is " << y[i];
  }
}

TEST(Emulated, Arithmetic) {
  expect_binary(
      "add", [](auto a, auto b) { return _mm512_add_ps(a, b); },
      [](float a, float b) { return a + b; });
  expect_binary(
      "sub", [](auto a, auto b) { return _mm512_sub_ps(a, b); },
      [](float a, float b) { return a - b; });
  expect_binary(
      "mul", [](auto a, auto b) { return _mm512_mul_ps(a, b); },
      [](float a, float b) { return a * b; });
  expect_binary(
      "div", [](auto a, auto b) { return _mm512_div_ps(a, b); },
      [](float a, float b) { return a / b; });
  expect_unary(
      "sqrt", [](auto a) { return _mm512_sqrt_ps(a); }, [](float a) { return std::sqrt(a); });
  const auto c = samples()[30];
  for_pairs([&](const Floats& a, const Floats& b) {
    const Floats plus = floats_of(_mm512_fmadd_ps(vector_of(a), vector_of(b), vector_of(c)));
    const Floats minus = floats_of(_mm512_fnmadd_ps(vector_of(a), vector_of(b), vector_of(c)));
    for (size_t i = 0; i < 16; ++i) {
      ASSERT_TRUE(same(plus[i], std::fma(a[i], b[i], c[i]))) << a[i] << " " << b[i] << " " << c[i];
      ASSERT_TRUE(same(minus[i], std::fma(-a[i], b[i], c[i]))) << a[i] << " " << b[i];
    }
  });
}

// MINPS and MAXPS: the second operand where either is NaN and where both are zeros.
TEST(Emulated, MinAndMax) {
  expect_binary(
      "min", [](auto a, auto b) { return _mm512_min_ps(a, b); },
      [](float a, float b) { return a < b ? a : b; });
  expect_binary(
      "max", [](auto a, auto b) { return _mm512_max_ps(a, b); },
      [](float a, float b) { return a > b ? a : b; });
}

TEST(Emulated, ComparisonsAndBlends) {
  const auto expect = [](const char* name, auto&& vector, auto&& scalar) {
    for_pairs([&](const Floats& a, const Floats& b) {
      const __mmask16 m = vector(vector_of(a), vector_of(b));
      const Floats y = floats_of(_mm512_mask_blend_ps(m, vector_of(a), vector_of(b)));
      for (size_t i = 0; i < 16; ++i) {
        ASSERT_EQ(m >> i & 1, scalar(a[i], b[i]) ? 1 : 0) << name << " " << a[i] << " " << b[i];
        ASSERT_EQ(bits(y[i]), bits(m >> i & 1 ? b[i] : a[i])) << "element " << i;
      }
    });
  };
  expect(
      "less", [](auto a, auto b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); },
      [](float a, float b) { return a < b; });
  expect(
      "greater", [](auto a, auto b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); },
      [](float a, float b) { return a > b; });
  expect(
      "equal", [](auto a, auto b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); },
      [](float a, float b) { return a == b; });
}

TEST(Emulated, Rounding) {
  expect_unary(
      "round_even", [](auto a) { return _mm512_roundscale_ps(a, 8); },
      [](float a) { return std::nearbyint(a); });
  expect_unary(
      "floor", [](auto a) { return _mm512_roundscale_ps(a, 9); },
      [](float a) { return std::floor(a); });
  expect_unary(
      "ceil", [](auto a) { return _mm512_roundscale_ps(a, 10); },
      [](float a) { return std::ceil(a); });
  for (const Floats& a : samples()) {
    const Ints y = ints_of(_mm512_cvtps_epi32(vector_of(a)));
    for (size_t i = 0; i < 16; ++i) {
      const bool fits = a[i] >= -2147483648.f && a[i] < 2147483648.f;  // else "integer indefinite"
      ASSERT_EQ(y[i], fits ? static_cast<int32_t>(std::nearbyint(a[i])) : INT32_MIN) << a[i];
    }
  }
}

TEST(Emulated, Integers) {
  for_pairs([](const Floats& fa, const Floats& fb) {
    const auto a = std::bit_cast<Ints>(fa), b = std::bit_cast<Ints>(fb);
    const Ints sum = ints_of(_mm512_add_epi32(ints(a), ints(b))),
               difference = ints_of(_mm512_sub_epi32(ints(a), ints(b))),
               left = ints_of(_mm512_slli_epi32(ints(a), 23)),
               right = ints_of(_mm512_srai_epi32(ints(a), 23)),
               one = ints_of(_mm512_srai_epi32(ints(a), 1)),
               both = ints_of(_mm512_and_si512(ints(a), ints(b))),
               either = ints_of(_mm512_or_si512(ints(a), ints(b))),
               differ = ints_of(_mm512_xor_si512(ints(a), ints(b)));
    const Floats real = floats_of(_mm512_cvtepi32_ps(ints(a)));
    for (size_t i = 0; i < 16; ++i) {
      const auto ua = static_cast<uint32_t>(a[i]), ub = static_cast<uint32_t>(b[i]);
      ASSERT_EQ(static_cast<uint32_t>(sum[i]), ua + ub);
      ASSERT_EQ(static_cast<uint32_t>(difference[i]), ua - ub);
      ASSERT_EQ(static_cast<uint32_t>(left[i]), ua << 23);
      ASSERT_EQ(right[i], a[i] >> 23);
      ASSERT_EQ(one[i], a[i] >> 1);
      ASSERT_EQ(both[i], a[i] & b[i]);
      ASSERT_EQ(either[i], a[i] | b[i]);
      ASSERT_EQ(differ[i], a[i] ^ b[i]);
      ASSERT_EQ(real[i], static_cast<float>(a[i]));
    }
  });
  EXPECT_EQ(ints_of(_mm512_set1_epi32(-7))[15], -7);
}

// Nothing beyond the mask is read or written, what is not read is 0.
TEST(Emulated, MaskedLoadsAndStores) {
  for (int n = 0; n <= 16; ++n)
    for (const uint32_t extra : {0u, 0x8421u}) {
      const auto mask = static_cast<__mmask16>(((1u << n) - 1) | extra);
      const Floats a = samples()[40];
      const Floats y = floats_of(_mm512_maskz_loadu_ps(mask, a.data()));
      Floats stored;
      stored.fill(9);
      _mm512_mask_storeu_ps(stored.data(), mask, vector_of(a));
      for (size_t i = 0; i < 16; ++i) {
        EXPECT_EQ(bits(y[i]), mask >> i & 1 ? bits(a[i]) : 0u);
        EXPECT_EQ(bits(stored[i]), bits(mask >> i & 1 ? a[i] : 9.f));
      }
    }
  _mm512_mask_storeu_ps(nullptr, 0, _mm512_set1_ps(1));
  EXPECT_EQ(floats_of(_mm512_maskz_loadu_ps(0, nullptr)), floats_of(_mm512_setzero_ps()));
}

TEST(Emulated, BytesToIntegers) {
  alignas(16) uint8_t bytes[16];
  for (int i = 0; i < 16; ++i) bytes[i] = static_cast<uint8_t>(i * 37 + 11);
  const Ints y =
      ints_of(_mm512_cvtepu8_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(bytes))));
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(y[i], bytes[i]);
}

// bf16 as the manual describes it: denormals are 0 on both sides, NaN becomes quiet.
float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.f, x) : x; }
float upper(uint32_t word) { return flushed(std::bit_cast<float>(word & 0xFFFF0000u)); }
float lower(uint32_t word) { return flushed(std::bit_cast<float>(word << 16)); }

TEST(Emulated, Bf16Products) {
  const auto all = samples();
  for (size_t n = 0; n < all.size(); ++n) {
    const Floats a = all[n], b = all[(n + 7) % all.size()], c = all[(n * 5 + 3) % all.size()];
    const Floats y = floats_of(_mm512_dpbf16_ps(vector_of(c), std::bit_cast<__m512bh>(vector_of(a)),
                                                std::bit_cast<__m512bh>(vector_of(b))));
    for (size_t i = 0; i < 16; ++i) {
      float sum = flushed(std::fma(upper(bits(a[i])), upper(bits(b[i])), flushed(c[i])));
      sum = flushed(std::fma(lower(bits(a[i])), lower(bits(b[i])), sum));
      ASSERT_TRUE(same(y[i], sum)) << y[i] << " for " << sum;
    }
  }
}

// Nearest even, found by search: of the two neighbours in bf16 the nearer one, of equals the even.
uint16_t nearest_bf16(float x) {
  if (std::isnan(x)) return static_cast<uint16_t>(bits(x) >> 16 | 0x40);
  x = flushed(x);
  const uint32_t down = bits(x) >> 16;
  if (std::isinf(x) || bits(x) << 16 == 0) return static_cast<uint16_t>(down);
  const auto value = [](uint32_t h) {  // the one past the largest counts as 2^128
    const float f = std::bit_cast<float>(h << 16);
    return std::isinf(f) ? std::copysign(0x1p128, static_cast<double>(f)) : static_cast<double>(f);
  };
  const double below = std::fabs(static_cast<double>(x) - value(down)),
               above = std::fabs(value(down + 1) - static_cast<double>(x));
  return static_cast<uint16_t>(below < above || (below == above && down % 2 == 0) ? down
                                                                                  : down + 1);
}

TEST(Emulated, RoundingToBf16) {
  auto all = samples();
  Floats ties;
  for (uint32_t i = 0; i < 16; ++i) ties[i] = std::bit_cast<float>(0x3F808000u + (i << 15));
  all.push_back(ties);
  for (size_t n = 0; n < all.size(); ++n) {
    const Floats low = all[n], high = all[(n + 1) % all.size()];
    const auto y = std::bit_cast<std::array<uint16_t, 32>>(
        _mm512_cvtne2ps_pbh(vector_of(high), vector_of(low)));
    for (size_t i = 0; i < 16; ++i) {
      ASSERT_EQ(y[i], nearest_bf16(low[i])) << low[i];
      ASSERT_EQ(y[16 + i], nearest_bf16(high[i])) << high[i];
    }
  }
}

TEST(Emulated, PermutedHalves) {
  std::array<uint16_t, 32> x{}, order{};
  for (size_t i = 0; i < 32; ++i) {
    x[i] = static_cast<uint16_t>(i * 2047 + 3);
    order[i] = static_cast<uint16_t>(i * 7 + (i << 9));  // bits above the fifth do not count
  }
  const auto y = std::bit_cast<std::array<uint16_t, 32>>(
      _mm512_permutexvar_epi16(std::bit_cast<__m512i>(order), std::bit_cast<__m512i>(x)));
  for (size_t i = 0; i < 32; ++i) ASSERT_EQ(y[i], x[order[i] % 32]) << i;
}

}  // namespace
