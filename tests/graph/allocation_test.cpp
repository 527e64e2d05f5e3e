// Counts heap allocations: a run whose shapes are known makes none. Sanitizers bring an allocator
// of their own, which must not be replaced.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "libtrain/graph/net.h"
#include "libtrain/ops/move.h"
#include "tests/support/graph_builder.h"

namespace {
std::atomic<long> allocations{0};
}

void* operator new(std::size_t n) {
  ++allocations;
  if (void* p = std::malloc(n ? n : 1)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace train {
namespace {

TEST(Net, SecondRunOfAShapeAllocatesNothing) {
  testing::GraphBuilder b(2);
  const ValueId x = b.input({-1, 3, -1, -1});
  const ValueId a = b.spelled_hard_swish(b.conv(x, 3, 8, 3, 2));
  const ValueId c = b.add(std::make_shared<ConcatOp>(1), {a, b.conv(a, 8, 8, 3, 1, 8)});
  const auto net = Net::compile(b.finish({b.conv(c, 16, 4, 1)}));
  std::mt19937 rng(3);
  const Feed feeds[] = {{testing::random_tensor({1, 3, 32, 64}, rng)},
                        {testing::random_tensor({2, 3, 64, 64}, rng)}};
  ThreadPool pool(2);
  const PoolScope scope(&pool);
  Context context;
  std::vector<Tensor> out;
  for (const Feed& f : feeds) net->run(context, {&f, 1}, out);
  for (const Feed& f : feeds) net->run(context, {&f, 1}, out);  // the arena has grown to the larger
  const long before = allocations;
  for (int i = 0; i < 3; ++i)
    for (const Feed& f : feeds) net->run(context, {&f, 1}, out);
  EXPECT_EQ(allocations - before, 0);
}

}  // namespace
}  // namespace train

#endif
