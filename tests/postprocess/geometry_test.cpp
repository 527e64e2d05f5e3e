#include <cmath>
#include <limits>
#include <opencv2/imgproc.hpp>
#include <random>

#include "fixture.h"
#include "libocr/geometry/crop.h"
#include "libocr/geometry/mat.h"
#include "libocr/geometry/quad.h"

namespace ocr {
namespace {

Polygon random_polygon(std::mt19937* rng, size_t points, float spread) {
  std::uniform_real_distribution<float> d(-spread, spread);
  Polygon p(points);
  for (Point2f& q : p) q = {d(*rng), d(*rng)};
  return p;
}

Polygon rotated(Polygon p, double angle, float dx, float dy) {
  const float c = static_cast<float>(std::cos(angle)), s = static_cast<float>(std::sin(angle));
  for (Point2f& q : p) q = {q.x * c - q.y * s + dx, q.x * s + q.y * c + dy};
  return p;
}

TEST(Quad, OrdersCorners) {
  const Quad expected{{{1, 2}, {10, 3}, {9, 8}, {0, 7}}};
  Quad shuffled{{expected[2], expected[0], expected[3], expected[1]}};
  EXPECT_EQ(order_points_clockwise(shuffled, CornerOrder::kSortX), expected);
  EXPECT_EQ(order_points_clockwise(shuffled, CornerOrder::kSumDiff), expected);
}

TEST(Quad, OrderIsAPermutationEvenWithTies) {
  std::mt19937 rng(1);
  for (int round = 0; round < 2000; ++round) {
    Quad q;
    for (Point2f& p : q) p = {static_cast<float>(rng() % 4), static_cast<float>(rng() % 4)};
    for (const CornerOrder order : {CornerOrder::kSortX, CornerOrder::kSumDiff}) {
      Quad got = order_points_clockwise(q, order), want = q;
      const auto less = [](Point2f a, Point2f b) { return a.x != b.x ? a.x < b.x : a.y < b.y; };
      std::sort(got.begin(), got.end(), less);
      std::sort(want.begin(), want.end(), less);
      ASSERT_EQ(got, want);
    }
  }
}

TEST(Polygon, AreaAndOverlapOfKnownShapes) {
  const Polygon a{{0, 0}, {10, 0}, {10, 10}, {0, 10}}, b{{5, 5}, {15, 5}, {15, 15}, {5, 15}};
  EXPECT_DOUBLE_EQ(polygon_area(a), 100);
  EXPECT_GT(signed_area(a), 0) << "clockwise on the screen";
  EXPECT_DOUBLE_EQ(polygon_perimeter(a), 40);
  EXPECT_DOUBLE_EQ(intersection_area(a, b), 25);
  EXPECT_NEAR(polygon_iou(a, b), 25 / 175.0, 1e-12);
  EXPECT_DOUBLE_EQ(polygon_iou(a, a), 1);
  // A U shape and a bar through its arms: concave, two pieces.
  const Polygon u{{0, 0}, {3, 0}, {3, 7}, {7, 7}, {7, 0}, {10, 0}, {10, 10}, {0, 10}};
  const Polygon bar{{-5, 2}, {20, 2}, {20, 4}, {-5, 4}};
  EXPECT_FALSE(is_convex(u));
  EXPECT_TRUE(is_convex(a));
  EXPECT_NEAR(intersection_area(u, bar), 12, 1e-6);
  EXPECT_NEAR(polygon_area(polygon_union(a, b)), 175, 1e-6);
  const Polygon star{{0, 3}, {10, 3}, {2, 9}, {5, 0}, {8, 9}};
  EXPECT_FALSE(is_convex(star));
}

TEST(Polygon, IouIsSymmetricBoundedAndInvariant) {
  std::mt19937 rng(2);
  for (int round = 0; round < 1000; ++round) {
    const Polygon a = random_polygon(&rng, 3 + rng() % 5, 50), b = random_polygon(&rng, 4, 50);
    const double ab = polygon_iou(a, b);
    ASSERT_EQ(ab, polygon_iou(b, a));
    ASSERT_TRUE(ab >= 0 && ab <= 1);
  }
  for (int round = 0; round < 200; ++round) {
    const float w = 5 + static_cast<float>(rng() % 50), h = 5 + static_cast<float>(rng() % 20);
    const Polygon box{{0, 0}, {w, 0}, {w, h}, {0, h}},
        other{{2, 2}, {w + 9, 2}, {w + 9, h}, {2, h}};
    const double angle = 0.01 * static_cast<double>(rng() % 628);
    ASSERT_NEAR(polygon_iou(rotated(box, angle, 100, 70), rotated(other, angle, 100, 70)),
                polygon_iou(box, other), 1e-4);
  }
}

TEST(Polygon, HostileInputIsHarmless) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const Polygon good{{0, 0}, {10, 0}, {10, 10}, {0, 10}};
  for (const Polygon& bad :
       {Polygon{}, Polygon{{1, 1}}, Polygon{{1, 1}, {2, 2}}, Polygon{{1, 1}, {1, 1}, {1, 1}},
        Polygon{{nan, 0}, {1, 0}, {1, 1}}, Polygon{{inf, 0}, {1, -inf}, {1, 1}, {5, 5}},
        Polygon{{1e30f, 0}, {1, 0}, {1, 1}}}) {
    EXPECT_EQ(polygon_iou(good, bad), 0);
    EXPECT_EQ(polygon_iou(bad, good), 0);
    EXPECT_FALSE(std::isnan(min_area_rect(bad).short_side));
    EXPECT_FALSE(std::isnan(min_area_rect_int(bad).short_side));
  }
  std::mt19937 rng(4);
  for (int round = 0; round < 500; ++round) {
    const Polygon p = random_polygon(&rng, 1 + rng() % 12, round % 2 ? 5.0f : 1e6f);
    const RotatedRect r = min_area_rect(p);
    ASSERT_TRUE(r.short_side <= r.long_side);
    polygon_union(p, random_polygon(&rng, 5, 100));
  }
}

TEST(Page, TurnedCoordinatesComeBack) {
  cv::Mat page(7, 11, CV_8U);
  for (int i = 0; i < 77; ++i) page.data[i] = static_cast<uint8_t>(i);
  const std::pair<int, int> turns[] = {
      {90, cv::ROTATE_90_CLOCKWISE}, {180, cv::ROTATE_180}, {270, cv::ROTATE_90_COUNTERCLOCKWISE}};
  for (const auto& [degrees, code] : turns) {
    cv::Mat turned;
    cv::rotate(page, turned, code);
    for (int y = 0; y < turned.rows; ++y) {
      for (int x = 0; x < turned.cols; ++x) {
        const Point2f p =
            unrotate_point({static_cast<float>(x), static_cast<float>(y)}, degrees, 11, 7);
        ASSERT_EQ(page.at<uint8_t>(static_cast<int>(p.y), static_cast<int>(p.x)),
                  turned.at<uint8_t>(y, x))
            << degrees;
      }
    }
  }
  EXPECT_THROW(unrotate_point({}, 45, 11, 7), train::ShapeError);
}

cv::Mat test_page(int h, int w) {
  cv::Mat page(h, w, CV_8UC3);
  for (int y = 0; y < h; ++y) {
    for (int x = 0; x < w; ++x) {
      page.at<cv::Vec3b>(y, x) = cv::Vec3b(static_cast<uint8_t>((x * 7 + y * 13) % 251),
                                           static_cast<uint8_t>((x * y / 5 + 3 * x) % 241),
                                           static_cast<uint8_t>((x * x / 9 + y * 5) % 239));
    }
  }
  return page;
}

// The peer is a wheel of the same OpenCV version; its bicubic weights may round otherwise, so that
// single values differ by one.
TEST(Crop, EqualsThePublicImplementation) {
  std::ifstream file = open_fixture("crops.txt"), pixels = open_fixture("crops.bin");
  const cv::Mat page = test_page(80, 120);
  std::string word;
  int crops = 0;
  while (file >> word) {
    Quad q;
    int h, w;
    for (Point2f& p : q) file >> p.x >> p.y;
    file >> h >> w;
    cv::Mat expected(h, w, CV_8UC3);
    pixels.read(reinterpret_cast<char*>(expected.data), h * w * 3);
    const cv::Mat got = cut_crop(page, crop_shape(q));
    ASSERT_EQ(got.size(), expected.size()) << "crop " << crops;
    EXPECT_LE(cv::norm(got, expected, cv::NORM_INF), 1) << "crop " << crops;
    ++crops;
  }
  EXPECT_EQ(crops, 8);
}

// Cubic convolution at exact positions, in double precision: what the warp must give within
// rounding.
cv::Mat full_warp(const cv::Mat& page, const CropShape& s) {
  const float w = static_cast<float>(s.width), h = static_cast<float>(s.height);
  cv::Point2f from[4], to[4] = {{0, 0}, {w, 0}, {w, h}, {0, h}};
  for (size_t i = 0; i < 4; ++i) from[i] = {s.quad[i].x, s.quad[i].y};
  const cv::Matx33d m = cv::Matx33d(cv::getPerspectiveTransform(from, to)).inv();
  const auto weight = [](double d) {  // a = -0.75
    d = std::abs(d);
    if (d <= 1) return 1.25 * d * d * d - 2.25 * d * d + 1;
    return d < 2 ? -0.75 * d * d * d + 3.75 * d * d - 6 * d + 3 : 0.0;
  };
  cv::Mat out(s.height, s.width, CV_8UC3);
  for (int y = 0; y < s.height; ++y)
    for (int x = 0; x < s.width; ++x) {
      const cv::Vec3d p = m * cv::Vec3d(x, y, 1);
      const double px = p[0] / p[2], py = p[1] / p[2];
      const int x0 = static_cast<int>(std::floor(px)), y0 = static_cast<int>(std::floor(py));
      cv::Vec3d sum;
      for (int j = y0 - 1; j < y0 + 3; ++j)
        for (int i = x0 - 1; i < x0 + 3; ++i)
          sum += weight(px - i) * weight(py - j) *
                 cv::Vec3d(page.at<cv::Vec3b>(std::clamp(j, 0, page.rows - 1),
                                              std::clamp(i, 0, page.cols - 1)));
      for (int c = 0; c < 3; ++c) out.at<cv::Vec3b>(y, x)[c] = cv::saturate_cast<uint8_t>(sum[c]);
    }
  return out;
}

TEST(Crop, CopyOfAnUprightBoxEqualsTheWarp) {
  const cv::Mat page = test_page(300, 400);
  std::mt19937 rng(5);
  for (int round = 0; round < 60; ++round) {
    const float x0 = static_cast<float>(rng() % 200), y0 = static_cast<float>(rng() % 150);
    const float x1 = x0 + 4 + static_cast<float>(rng() % 195);
    const float y1 = y0 + 4 + static_cast<float>(rng() % 145);
    const CropShape s = crop_shape(Quad{{{x0, y0}, {x1, y0}, {x1, y1}, {x0, y1}}}, 0);
    ASSERT_EQ(cv::norm(cut_crop(page, s), full_warp(page, s), cv::NORM_INF), 0) << round;
  }
}

TEST(Crop, WarpIsExactToRounding) {
  std::mt19937 rng(15);
  double off = 0, all = 0;
  cv::Mat page(90, 140, CV_8UC3);
  for (int i = 0; i < 90 * 140 * 3; ++i) page.data[i] = static_cast<uint8_t>(rng());
  std::uniform_real_distribution<float> jitter(-6, 6), reach(-30, 170);
  for (int round = 0; round < 400; ++round) {
    // Slanted lines, lines that leave the page, and arbitrary quads.
    const float x = reach(rng), y = reach(rng), w = 5 + static_cast<float>(rng() % 150),
                h = 5 + static_cast<float>(rng() % 40);
    Quad q{{{x, y}, {x + w, y}, {x + w, y + h}, {x, y + h}}};
    for (Point2f& p : q) {
      if (round % 4 == 3) p = {reach(rng), reach(rng)};
      p = {p.x + jitter(rng), p.y + jitter(rng)};
      if (round % 2) p = {std::round(p.x), std::round(p.y)};
    }
    const CropShape s = crop_shape(q, 0);
    const cv::Mat got = cut_crop(page, s);
    if (round % 4 == 3) continue;  // near its vanishing line a warp is ill-conditioned: it must end
    const cv::Mat expected = full_warp(page, s);
    ASSERT_LE(cv::norm(got, expected, cv::NORM_INF), 1) << round;
    off += cv::norm(got, expected, cv::NORM_L1), all += static_cast<double>(got.total()) * 3;
  }
  EXPECT_LT(off, all / 1000);
}

TEST(Crop, PagesBeyondSixteenBits) {
  // The same slanted line near the far end of a page too long for one warp, and on a small page.
  const cv::Mat small = test_page(60, 500);
  cv::Mat large(60, 40000, CV_8UC3, cv::Scalar(9, 9, 9));
  small.copyTo(large(cv::Rect(39000, 0, 500, 60)));
  const Quad q{{{50, 10}, {300, 16}, {299, 40}, {49, 34}}};
  Quad far = q;
  for (Point2f& p : far) p.x += 39000;
  const cv::Mat near_crop = cut_crop(small, crop_shape(q));
  const cv::Mat far_crop = cut_crop(large, crop_shape(far));
  ASSERT_EQ(near_crop.size(), far_crop.size());
  EXPECT_LE(cv::norm(near_crop, far_crop, cv::NORM_INF), 1);
  EXPECT_LE(cv::norm(near_crop, far_crop, cv::NORM_L1) / (250.0 * 24 * 3), 0.01);
  // A line longer than the limit itself.
  const CropShape whole = crop_shape(Quad{{{0, 2}, {39999, 0}, {39999, 50}, {0, 52}}});
  const cv::Mat line = cut_crop(large, whole);
  EXPECT_EQ(line.cols, whole.width);
  EXPECT_EQ(line.at<cv::Vec3b>(25, 20000), cv::Vec3b(9, 9, 9));
  EXPECT_NE(line.at<cv::Vec3b>(25, 39200), cv::Vec3b(9, 9, 9));
}

TEST(Crop, OfAnImageOfTheProject) {
  Image image(40, 30, Bgr{1, 2, 3});
  image.row(7)[3 * 11] = 200;
  const ImageView part = crop_view(image.view(), 5, 5, 20, 10);  // rows further apart than long
  const cv::Mat crop = cut_crop(as_mat(part), crop_shape(Quad{{{4, 1}, {14, 1}, {14, 6}, {4, 6}}}));
  EXPECT_EQ(crop.size(), cv::Size(10, 5));
  EXPECT_EQ(crop.at<cv::Vec3b>(1, 2), cv::Vec3b(200, 2, 3));
  EXPECT_TRUE(as_mat(Image()).empty());
}

TEST(Crop, RefusesAbsurdBoxes) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_THROW(crop_shape(Quad{{{0, 0}, {inf, 0}, {5, 5}, {0, 5}}}), train::ShapeError);
  EXPECT_THROW(crop_shape(Quad{{{0, 0}, {1e6f, 0}, {1e6f, 1e6f}, {0, 1e6f}}}), train::ShapeError);
  const CropShape dot = crop_shape(Quad{});
  EXPECT_EQ(cut_crop(test_page(5, 5), dot).size(), cv::Size(1, 1));
  EXPECT_THROW(cut_crop(cv::Mat(), dot), train::ShapeError);
}

TEST(Crop, MapperFindsThePagePixelsOfACrop) {
  const Quad standing{{{90, 5}, {102, 6}, {100, 60}, {88, 58}}};
  const CropShape s = crop_shape(standing);
  ASSERT_TRUE(s.turned);
  const CropMapper mapper(s);
  // The turn is counter-clockwise: the crop's left end is the top of the standing line.
  const Point2f start = mapper.to_page({0, static_cast<float>(s.out_height())});
  EXPECT_NEAR(start.x, 90, 1e-3);
  EXPECT_NEAR(start.y, 5, 1e-3);
  const Quad all = mapper.column_box(0, static_cast<float>(s.out_width()));
  for (Point2f corner : standing) {
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](Point2f p) {
      return std::hypot(p.x - corner.x, p.y - corner.y) < 1e-2;
    }));
  }
  const CropMapper flipped(s, true);
  const Point2f end = flipped.to_page({0, static_cast<float>(s.out_height())});
  EXPECT_NEAR(end.x, 100, 1e-2);
  EXPECT_NEAR(end.y, 60, 1e-2);
}

}  // namespace
}  // namespace ocr
