#include "libocr/postprocess/detection_scale.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ocr {
namespace {

// Lines of a page, each as long as ten of its heights, turned by `degrees`.
std::vector<Detection> lines(const std::vector<float>& heights, double degrees = 0) {
  const auto c = static_cast<float>(std::cos(degrees * M_PI / 180));
  const auto s = static_cast<float>(std::sin(degrees * M_PI / 180));
  std::vector<Detection> out;
  float y = 0;
  for (const float h : heights) {
    Polygon points{{0, y}, {10 * h, y}, {10 * h, y + h}, {0, y + h}};
    for (Point2f& p : points) p = {c * p.x - s * p.y, s * p.x + c * p.y};
    out.push_back({points, 0.9});
    y += 2 * h;
  }
  return out;
}

DetectionSize page_of(int height, int width) { return detection_size(height, width, {}); }

TEST(DetectionScale, ScaledSizesKeepTheirPageAndTheGrid) {
  const DetectionSize full = page_of(1800, 1000);
  for (const double scale : {0.25, 0.4, 0.66, 0.75}) {
    const DetectionSize s = scaled_size(full, scale);
    EXPECT_EQ(s.height % 32, 0);
    EXPECT_EQ(s.width % 32, 0);
    EXPECT_NEAR(s.height, full.height * scale, 16);
    EXPECT_NEAR(s.width, full.width * scale, 16);
    EXPECT_EQ(s.padded_height, 1800);
    EXPECT_EQ(s.padded_width, 1000);
    EXPECT_DOUBLE_EQ(s.ratio_h * 1800, s.height);
    EXPECT_DOUBLE_EQ(s.ratio_w * 1000, s.width);
  }
  EXPECT_EQ(scaled_size(full, 1).height, full.height);
  EXPECT_EQ(scaled_size(full, 0.001).width, 32);
}

TEST(DetectionScale, TallLettersAllowASmallerInput) {
  const DetectionSize size = page_of(1792, 992);  // enters the net as it is
  const double at60 = sufficient_scale(lines(std::vector<float>(20, 60)), size);
  EXPECT_LT(at60, 0.6);
  EXPECT_GT(at60, kLookScale);
  // Heights at the scale found are the same, whatever they are on the page.
  EXPECT_NEAR(80 * sufficient_scale(lines(std::vector<float>(20, 80)), size), 60 * at60, 0.01);
  EXPECT_NEAR(sufficient_scale(lines(std::vector<float>(20, 60), 30), size), at60, 1e-4);
  EXPECT_EQ(sufficient_scale(lines(std::vector<float>(20, 500)), size), kLookScale);
  EXPECT_EQ(sufficient_scale(lines(std::vector<float>(20, 24)), size), 1);
  // Half the resolution, letters half as high on the page, and the page enlarged to the same input.
  EXPECT_NEAR(sufficient_scale(lines(std::vector<float>(20, 20)), page_of(736, 368)),
              sufficient_scale(lines(std::vector<float>(20, 40)), page_of(1472, 736)), 1e-6);
}

TEST(DetectionScale, AQuarterOfSmallLinesOrTooFewKeepTheFullSize) {
  const DetectionSize size = page_of(1792, 992);
  std::vector<float> heights(12, 70);
  heights.resize(16, 20);  // 4 of 16
  EXPECT_LT(sufficient_scale(lines(heights), size), 1);
  heights.resize(17, 20);
  EXPECT_EQ(sufficient_scale(lines(heights), size), 1);
  EXPECT_EQ(sufficient_scale(lines({70, 70, 70}), size), 1);
  EXPECT_EQ(sufficient_scale({}, size), 1);
  EXPECT_EQ(sufficient_scale(lines({0, 0, 0, 0, 0}), size), 1);
}

}  // namespace
}  // namespace ocr
