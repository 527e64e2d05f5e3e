#include "libocr/text/edit_distance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace ocr {
namespace {

using Ids = std::vector<uint32_t>;

int64_t slow_distance(const Ids& a, const Ids& b) {
  std::vector<std::vector<int64_t>> d(a.size() + 1, std::vector<int64_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = static_cast<int64_t>(i + j);
      } else {
        d[i][j] =
            std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      }
    }
  }
  return d[a.size()][b.size()];
}

TEST(EditDistance, KnownValues) {
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("中文", "中国文"), 1);  // code points, not bytes
  const std::vector<std::string> a = {"the", "cat"}, b = {"the", "big", "cat"};
  EXPECT_EQ(edit_distance(std::span<const std::string>(a), std::span<const std::string>(b)), 1);
  EXPECT_DOUBLE_EQ(edit_similarity("abcd", "abxd"), 0.75);
  EXPECT_DOUBLE_EQ(edit_similarity("", ""), 1.0);
}

TEST(EditDistance, AgreesWithTheFullTableAndIsSymmetric) {
  std::mt19937 rng(3);
  for (int round = 0; round < 500; ++round) {
    Ids a(rng() % 9), b(rng() % 9);
    for (auto& x : a) x = rng() % 3;
    for (auto& x : b) x = rng() % 3;
    const int64_t d = edit_distance(std::span<const uint32_t>(a), std::span<const uint32_t>(b));
    ASSERT_EQ(d, slow_distance(a, b));
    ASSERT_EQ(d, edit_distance(std::span<const uint32_t>(b), std::span<const uint32_t>(a)));
    const EditCounts c = edit_counts(std::span<const uint32_t>(a), std::span<const uint32_t>(b));
    ASSERT_EQ(c.distance(), d);
    ASSERT_EQ(c.insertions - c.deletions,
              static_cast<int64_t>(b.size()) - static_cast<int64_t>(a.size()));
  }
}

TEST(EditDistance, CountsNameTheKind) {
  const EditCounts c = edit_counts("abcde", "axcdef");
  EXPECT_EQ(c.substitutions, 1);
  EXPECT_EQ(c.insertions, 1);
  EXPECT_EQ(c.deletions, 0);
}

}  // namespace
}  // namespace ocr
