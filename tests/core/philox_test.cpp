#include "libtrain/core/philox.h"

#include <gtest/gtest.h>

#include <set>

namespace train {
namespace {

// The known answers that the authors publish with their implementation (philox4x32, 10 rounds).
TEST(Philox, KnownAnswers) {
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(Philox::block({0, 0, 0, 0}, {0, 0}),
            (Philox::Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox::block({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Philox::Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      Philox::block({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      (Philox::Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, IsAPureFunctionAndStreamsDiffer) {
  static_assert(RandomStream(7, 1).bits(5) == RandomStream(7, 1).bits(5));
  std::set<uint32_t> seen;
  for (uint64_t seed = 0; seed < 8; ++seed)
    for (uint64_t stream = 0; stream < 8; ++stream)
      for (uint64_t i = 0; i < 8; ++i) seen.insert(RandomStream(seed, stream).bits(i));
  EXPECT_EQ(seen.size(), 512u);
}

TEST(RandomStream, HasTheRightMoments) {
  const RandomStream r(42, stream_of("moments"));
  constexpr int kCount = 100000;
  double u1 = 0, u2 = 0, n1 = 0, n2 = 0, n4 = 0;
  for (int i = 0; i < kCount; ++i) {
    const double u = r.uniform(i), n = r.normal(i);
    ASSERT_TRUE(u >= 0 && u < 1);
    u1 += u, u2 += u * u, n1 += n, n2 += n * n, n4 += n * n * n * n;
  }
  EXPECT_NEAR(u1 / kCount, .5, .004);
  EXPECT_NEAR(u2 / kCount, 1. / 3, .004);
  EXPECT_NEAR(n1 / kCount, 0, .015);
  EXPECT_NEAR(n2 / kCount, 1, .02);
  EXPECT_NEAR(n4 / kCount, 3, .15);
}

TEST(RandomStream, BelowReachesEveryValueAlike) {
  const RandomStream r(1, 2);
  std::array<int, 7> hits{};
  for (int i = 0; i < 70000; ++i) ++hits[r.below(i, 7)];
  for (const int h : hits) EXPECT_NEAR(h, 10000, 500);
}

}  // namespace
}  // namespace train
