#include "libtrain/graph/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace train {
namespace {

TEST(Arena, BuffersAliveTogetherNeverOverlap) {
  std::mt19937 rng(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<ArenaBuffer> buffers;
    const int n = static_cast<int>(rng() % 40) + 1;
    size_t most = 0;
    for (int i = 0; i < n; ++i) {
      const int first = static_cast<int>(rng() % 50), last = first + static_cast<int>(rng() % 10);
      buffers.push_back({rng() % 5000, first, last});
    }
    const ArenaLayout layout = pack_arena(buffers, 64);
    for (int i = 0; i < n; ++i) {
      EXPECT_EQ(layout.offsets[i] % 64, 0u);
      EXPECT_LE(layout.offsets[i] + buffers[i].bytes, layout.bytes);
      for (int j = 0; j < i; ++j) {
        if (buffers[i].last < buffers[j].first || buffers[j].last < buffers[i].first) continue;
        if (!buffers[i].bytes || !buffers[j].bytes) continue;
        const bool apart = layout.offsets[i] + buffers[i].bytes <= layout.offsets[j] ||
                           layout.offsets[j] + buffers[j].bytes <= layout.offsets[i];
        ASSERT_TRUE(apart) << "round " << round << " buffers " << i << " and " << j;
      }
    }
    for (int step = 0; step < 60; ++step) {
      size_t alive = 0;
      for (const auto& b : buffers) alive += b.first <= step && step <= b.last ? b.bytes : 0;
      most = std::max(most, alive);
    }
    EXPECT_LE(layout.bytes, 2 * most + static_cast<size_t>(n) * 64) << "round " << round;
  }
}

}  // namespace
}  // namespace train
