#include "libocr/postprocess/db.h"

#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "fixture.h"

namespace ocr {
namespace {

struct Case {
  std::string name;
  size_t map = 0;
  DbOptions options;
  int src_height = 0, src_width = 0;
  std::vector<Detection> expected;
};

std::vector<Case> read_cases() {
  std::ifstream file = open_fixture("db.txt");
  std::vector<Case> cases;
  std::string word, score_mode, kind, order;
  while (file >> word) {
    Case c;
    size_t boxes = 0;
    int dilate = 0;
    double thresh = 0;
    file >> c.name >> c.map >> thresh >> c.options.box_thresh >> c.options.max_candidates >>
        c.options.unclip_ratio >> dilate >> score_mode >> kind >> order >> c.src_height >>
        c.src_width >> boxes;
    c.options.thresh = static_cast<float>(thresh);
    c.options.use_dilation = dilate != 0;
    c.options.score_mode = score_mode == "slow" ? ScoreMode::kSlow : ScoreMode::kFast;
    c.options.box_type = kind == "poly" ? BoxType::kPoly : BoxType::kQuad;
    c.options.corner_order = order == "x" ? CornerOrder::kSortX : CornerOrder::kSumDiff;
    for (size_t b = 0; b < boxes; ++b) {
      Detection d;
      size_t points = 0;
      file >> d.score >> points;
      d.points.resize(points);
      for (Point2f& p : d.points) file >> p.x >> p.y;
      c.expected.push_back(std::move(d));
    }
    cases.push_back(std::move(c));
  }
  return cases;
}

// Points and their order are compared exactly; scores to the rounding of the text.
TEST(Db, EqualsThePublicImplementation) {
  const std::vector<FixtureMap> maps = read_maps();
  const std::vector<Case> cases = read_cases();
  ASSERT_GE(cases.size(), 70u);
  size_t boxes = 0;
  for (const Case& c : cases) {
    const FixtureMap& m = maps.at(c.map);
    SCOPED_TRACE(c.name + " type " + std::to_string(static_cast<int>(c.options.box_type)) +
                 " unclip " + std::to_string(c.options.unclip_ratio));
    const auto got = db_postprocess(m.values.data(), m.width, m.height, m.width, c.src_height,
                                    c.src_width, c.options);
    ASSERT_EQ(got.size(), c.expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].points, c.expected[i].points) << "box " << i;
      EXPECT_NEAR(got[i].score, c.expected[i].score, 2e-9) << "box " << i;
    }
    boxes += got.size();
  }
  EXPECT_GE(boxes, 300u);
}

TEST(Db, StridesDoNotMatter) {
  const FixtureMap m = read_maps().at(1);
  const auto expected = db_postprocess(m.values.data(), m.width, m.height, m.width, 333, 555, {});
  ASSERT_FALSE(expected.empty());
  for (const int pixel_stride : {1, 8}) {
    const int64_t row_stride = (m.width + 3) * pixel_stride;
    std::vector<float> wide(static_cast<size_t>(row_stride * m.height), 0.99f);
    for (int y = 0; y < m.height; ++y) {
      for (int x = 0; x < m.width; ++x) {
        wide[static_cast<size_t>(y * row_stride + x * pixel_stride)] =
            m.values[static_cast<size_t>(y * m.width + x)];
      }
    }
    const MapView view{wide.data(), m.height, m.width, row_stride, pixel_stride};
    const auto got = db_postprocess(view, 333, 555, {});
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].points, expected[i].points);
      EXPECT_EQ(got[i].score, expected[i].score);
    }
  }
}

TEST(Db, ReportsWhatTheCapCutsOff) {
  const FixtureMap m = read_maps().at(3);
  DbOptions options;
  DbReport report;
  db_postprocess(m.values.data(), m.width, m.height, m.width, 96, 128, options, &report);
  ASSERT_GT(report.contours, 20);
  EXPECT_EQ(report.cut_candidates, 0);
  options.max_candidates = 5;
  db_postprocess(m.values.data(), m.width, m.height, m.width, 96, 128, options, &report);
  EXPECT_EQ(report.cut_candidates, report.contours - 5);
}

TEST(Db, HostileMapsGiveBoxesInsideThePageOrNothing) {
  std::mt19937 rng(17);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const float values[] = {0, 0.1f, 0.31f, 0.7f, 1, 2, -1, nan, inf, -inf, 1e30f};
  for (int round = 0; round < 300; ++round) {
    const int h = 1 + static_cast<int>(rng() % 40), w = 1 + static_cast<int>(rng() % 40);
    std::vector<float> map(static_cast<size_t>(h * w));
    const size_t choices = round % 3 == 0 ? 11 : 5;
    for (size_t i = 0; i < map.size(); ++i) {
      map[i] = i > 0 && rng() % 4 ? map[i - 1] : values[rng() % choices];
    }
    DbOptions options;
    options.box_thresh = 0.2;
    options.box_type = round % 2 ? BoxType::kPoly : BoxType::kQuad;
    options.score_mode = round % 5 ? ScoreMode::kFast : ScoreMode::kSlow;
    options.use_dilation = round % 7 == 0;
    const int src_h = 1 + static_cast<int>(rng() % 500), src_w = 1 + static_cast<int>(rng() % 500);
    for (const Detection& d : db_postprocess(map.data(), w, h, w, src_h, src_w, options)) {
      ASSERT_FALSE(std::isnan(d.score));
      for (Point2f p : d.points) {
        ASSERT_TRUE(p.x >= 0 && p.y >= 0 && p.x <= static_cast<float>(src_w - 1) &&
                    p.y <= static_cast<float>(src_h - 1));
        ASSERT_EQ(p.x, std::floor(p.x));
      }
    }
  }
  const std::vector<float> all_nan(64 * 64, nan);
  EXPECT_TRUE(db_postprocess(all_nan.data(), 64, 64, 64, 64, 64, {}).empty());
}

TEST(Db, RefusesImpossibleSizes) {
  const float one = 1;
  EXPECT_THROW(db_postprocess(&one, 1, 0, 1, 10, 10, {}), train::ShapeError);
  EXPECT_THROW(db_postprocess(&one, 1, 1, 1, 0, 10, {}), train::ShapeError);
  EXPECT_THROW(db_postprocess(nullptr, 1, 1, 1, 10, 10, {}), train::ShapeError);
  EXPECT_THROW(db_postprocess(&one, 1 << 19, 1 << 19, 1 << 19, 10, 10, {}), train::ShapeError);
}

}  // namespace
}  // namespace ocr
