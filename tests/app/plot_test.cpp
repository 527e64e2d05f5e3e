// Axes and curves of `ocr plot`.
#include "apps/ocr/plot_page.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace app {
namespace {

TEST(Plot, TicksAreRoundAndInside) {
  EXPECT_EQ(ticks(0, 10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(ticks(-12, 31, 4), (std::vector<double>{0, 20}));
  EXPECT_EQ(ticks(7, 7, 4), std::vector<double>{7});
  for (const double high : {1e-5, .37, 3., 4567., 1e9}) {
    const std::vector<double> t = ticks(0, high, 5);
    EXPECT_GE(t.size(), 3u) << high;
    EXPECT_LE(t.size(), 6u) << high;
    EXPECT_LE(t.back(), high * (1 + 1e-9));
  }
}

TEST(Plot, ThinnedCurvesKeepTheirPeaks) {
  Curve curve;
  for (int64_t i = 0; i < 10000; ++i) curve[i] = i == 4321 ? 99. : static_cast<double>(i % 7);
  const auto points = thinned(curve, 200);
  EXPECT_LE(points.size(), 200u);
  EXPECT_TRUE(std::is_sorted(points.begin(), points.end()));
  EXPECT_NE(std::find(points.begin(), points.end(), std::pair<int64_t, double>(4321, 99.)),
            points.end());
  EXPECT_EQ(thinned(curve, 10000).size(), 10000u);
}

TEST(Plot, NamesCannotBreakThePage) {
  RunRecord run;
  run.folder = "</script><b>";
  run.train["loss"] = {{1, 2.}, {2, 1.}};
  const std::string page = plot_page({run});
  EXPECT_EQ(page.find("</script><b>"), std::string::npos);
  EXPECT_NE(page.find("&lt;/script&gt;&lt;b&gt;"), std::string::npos);
}

}  // namespace
}  // namespace app
