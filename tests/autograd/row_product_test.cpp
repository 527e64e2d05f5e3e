// Products over rows against f64, from one row to several chunks of blocks, with the same bits for
// any thread count.
#include "libtrain/autograd/row_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "libtrain/core/dtype.h"
#include "libtrain/core/error.h"
#include "libtrain/core/tensor.h"
#include "libtrain/core/thread_pool.h"
#include "libtrain/cpu/isa.h"
#include "tests/support/random_shapes.h"

namespace train {
namespace {

std::vector<float> floats(Draw& d, int64_t n) {
  const auto v = d.values(n);
  return {v.begin(), v.end()};
}

void check_products(cpu::Precision precision) {
  struct Case {
    int64_t rows, m, n;
  };
  const Case cases[] = {{0, 3, 5},    {1, 1, 1},     {5, 6, 16},   {256, 7, 17},   {257, 12, 33},
                        {700, 40, 3}, {3000, 5, 65}, {64, 130, 9}, {9000, 150, 20}};
  for (uint64_t seed = 0; seed < 2 * std::size(cases); ++seed) {
    const RowProduct p{cases[seed / 2].rows, cases[seed / 2].m, cases[seed / 2].n, precision};
    SCOPED_TRACE(cat(p.rows, " rows, ", p.m, " by ", p.n));
    Draw d(seed, "row product");
    const auto a = floats(d, p.rows * p.m), b = floats(d, p.rows * p.n);
    const auto shift_a = floats(d, p.m), shift_b = floats(d, p.n), before = floats(d, p.m * p.n);
    const auto low = [&](float x) {
      return precision == cpu::Precision::kBf16 ? bf16_to_f32(f32_to_bf16(x)) : x;
    };
    const bool shifted = seed % 2, add = seed % 3 == 0;
    std::vector<float> first;
    for (const int threads : {1, 2, 3}) {
      ThreadPool pool(threads);
      const PoolScope scope(&pool);
      std::vector<float> out = before;
      const Storage workspace(p.workspace_bytes());
      p.run(a.data(), b.data(), out.data(), add, const_cast<void*>(workspace.data()),
            shifted ? shift_a.data() : nullptr, shifted ? shift_b.data() : nullptr);
      if (first.empty()) first = out;
      ASSERT_EQ(std::memcmp(out.data(), first.data(), out.size() * sizeof(float)), 0)
          << threads << " threads";
    }
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j) {
        double sum = add ? double{before[i * p.n + j]} : 0, size = std::abs(sum);
        for (int64_t r = 0; r < p.rows; ++r) {
          const float x = low(a[r * p.m + i] - (shifted ? shift_a[i] : 0.f));
          const float y = low(b[r * p.n + j] - (shifted ? shift_b[j] : 0.f));
          sum += double{x} * y;
          size += std::abs(double{x} * y);
        }
        ASSERT_NEAR(first[i * p.n + j], sum, 0x1p-24 * 32 * size + 1e-30) << i << ", " << j;
      }
  }
}

TEST(RowProduct, AgreesWithF64ForAnyThreads) { check_products(cpu::Precision::kF32); }

TEST(RowProduct, Bf16AgreesWithF64OfRoundedFactors) {
  if (!cpu::has_bf16()) GTEST_SKIP() << "this CPU has no AVX512-BF16";
  check_products(cpu::Precision::kBf16);
}

}  // namespace
}  // namespace train
