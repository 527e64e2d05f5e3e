#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <vector>

#include "libtrain/core/error.h"
#include "libtrain/core/tensor.h"
#include "libtrain/core/thread_pool.h"

namespace train {
namespace {

TEST(Shape, CountsAndAxes) {
  const Shape s{2, 3, 5};
  EXPECT_EQ(s.numel(), 30);
  EXPECT_EQ(s.axis(-1), 2);
  EXPECT_EQ(s.str(), "[2, 3, 5]");
  EXPECT_THROW(s.axis(3), ShapeError);
  EXPECT_THROW((Shape{1 << 30, 1 << 30}.numel()), ShapeError);
  EXPECT_EQ(broadcast(Shape{4, 1, 3}, Shape{5, 1}), (Shape{4, 5, 3}));
  EXPECT_THROW(broadcast(Shape{2}, Shape{3}), ShapeError);
}

TEST(DType, HalvesRoundTripEveryBitPattern) {
  for (uint32_t v = 0; v < 0x10000; ++v) {
    const auto h = static_cast<uint16_t>(v);
    if (!std::isnan(f16_to_f32(h))) {
      EXPECT_EQ(f32_to_f16(f16_to_f32(h)), h);
    }
    if (!std::isnan(bf16_to_f32(h))) {
      EXPECT_EQ(f32_to_bf16(bf16_to_f32(h)), h);
    }
  }
  EXPECT_EQ(f32_to_f16(65520.f), 0x7c00);  // ties to even: infinity
  EXPECT_EQ(f32_to_f16(65519.f), 0x7bff);
  EXPECT_EQ(f32_to_f16(1.f + 0x1p-11f), 0x3c00);  // halfway rounds to even
  EXPECT_EQ(f32_to_f16(1.f + 3 * 0x1p-11f), 0x3c02);
}

TEST(Tensor, SharesViewsAndConverts) {
  const Tensor t = Tensor::from<float>({2, 2}, {1.5f, -2.5f, 3.f, 1e20f});
  EXPECT_EQ(t.reshaped({4}).raw(), t.raw());
  EXPECT_THROW(t.reshaped({3}), ShapeError);
  EXPECT_THROW(t.data<int32_t>(), ShapeError);
  const Tensor i = t.to(DType::kI32);
  EXPECT_EQ(i.to_ints(), (std::vector<int64_t>{1, -2, 3, 2147483647}));
  EXPECT_THROW(Tensor::from<float>({3}, {1.f}), ShapeError);
}

TEST(ThreadPool, EveryIndexOnceAndErrorsCome) {
  ThreadPool pool(3);
  const PoolScope scope(&pool);
  EXPECT_EQ(current_threads(), 3);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::atomic<int>> hits(97);
    parallel_for(97, 1, [&](int64_t a, int64_t b) {
      EXPECT_EQ(current_threads(), 1) << "parallel_for must not nest";
      for (int64_t i = a; i < b; ++i) ++hits[static_cast<size_t>(i)];
    });
    for (const auto& h : hits) ASSERT_EQ(h, 1);
  }
  EXPECT_THROW(parallel_for(3, 1, [](int64_t, int64_t) { throw Error("x"); }), Error);
}

TEST(System, LimitsAreSane) {
  EXPECT_GE(usable_cpus(), 1);
  EXPECT_GT(usable_memory(), int64_t{16} << 20);
}

}  // namespace
}  // namespace train
