#include "libtrain/core/memory_pool.h"

#include <gtest/gtest.h>

namespace train {
namespace {

TEST(MemoryPool, KeepsWhatIsFreedForTheNextOfItsClass) {
  const auto pool = MemoryPool::create();
  const void* first = nullptr;
  {
    Tensor a = pool->tensor({1000});
    first = a.raw();
    EXPECT_GE(pool->stats().used, a.bytes());
    EXPECT_LE(pool->stats().used, a.bytes() * 5 / 4 + 256);
    EXPECT_EQ(a.numel(), 1000);
    const Tensor copy = a;
    a = Tensor();
    EXPECT_NE(pool->tensor({1000}).raw(), first);  // the copy still holds it
  }
  const size_t kept = pool->stats().kept;
  EXPECT_GT(kept, 0u);
  EXPECT_EQ(pool->stats().used, 0u);
  EXPECT_EQ(pool->tensor({1020}).raw(), first);  // the same class, last freed first
  EXPECT_NE(pool->tensor({3000}).raw(), first);
  pool->trim();
  EXPECT_EQ(pool->stats().kept, 0u);
}

TEST(MemoryPool, LendsBlocksOfUpToTwiceTheSize) {
  const auto pool = MemoryPool::create();
  const Tensor large = pool->tensor({1 << 20});  // so that nothing has to go back
  const size_t others = pool->stats().used;
  const void* first = pool->tensor({4096}).raw();
  EXPECT_NE(pool->tensor({1700}).raw(), first);
  EXPECT_EQ(pool->tensor({3000}).raw(), first);
  const Tensor lent = pool->tensor({2048});
  EXPECT_EQ(lent.raw(), first);
  EXPECT_EQ(pool->stats().used - others, size_t{4096} * 4);
}

// Batches of ever other sizes: what waits is bounded by what lay in tensors at one time.
TEST(MemoryPool, GivesBackTheOldestBeforeItGrowsFurther) {
  const auto pool = MemoryPool::create();
  for (int64_t n = int64_t{1} << 10; n <= int64_t{1} << 18; n *= 4)
    for (int i = 0; i < 3; ++i) {
      const Tensor a = pool->tensor({n}), b = pool->tensor({n / 8});
      const MemoryPool::Stats s = pool->stats();
      EXPECT_LE(s.used + s.kept, s.peak + s.peak / 4) << n;
    }
  // What was freed last is still there.
  const size_t before = pool->stats().kept;
  const Tensor again = pool->tensor({int64_t{1} << 18});
  EXPECT_EQ(pool->stats().kept, before - (size_t{4} << 18));
}

TEST(MemoryPool, TensorsMayOutliveIt) {
  Tensor t;
  {
    const auto pool = MemoryPool::create();
    t = pool->tensor({10});
  }
  std::fill_n(t.data<float>(), 10, 1.f);
  EXPECT_EQ(t.data<float>()[9], 1.f);
}

TEST(MemoryPool, EmptyTensorsAndAllSizes) {
  const auto pool = MemoryPool::create();
  EXPECT_EQ(pool->tensor({0}).numel(), 0);
  for (int64_t n = 1; n < 100000; n += n / 3 + 1) {
    const size_t before = pool->stats().used;
    const Tensor t = pool->tensor({n}, DType::kU8);
    EXPECT_GE(pool->stats().used - before, static_cast<size_t>(n));
    std::fill_n(t.data<uint8_t>(), n, uint8_t{1});
  }
}

}  // namespace
}  // namespace train
