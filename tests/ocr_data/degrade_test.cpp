// Clean pages made to look scanned: repeatable, legible, and with boxes that still hold their ink.
#include "libocr/data/degrade.h"

#include <gtest/gtest.h>

#include <cmath>
#include <opencv2/imgproc.hpp>

#include "libtrain/data/dataset.h"

namespace ocr {
namespace {

// White, with a black bar in each box.
cv::Mat page_of(const std::vector<TextBoxLabel>& boxes) {
  cv::Mat page(400, 300, CV_8UC3, cv::Scalar::all(255));
  for (const TextBoxLabel& b : boxes)
    cv::rectangle(page, cv::Point(b.points[0]), cv::Point(b.points[2]), cv::Scalar::all(0),
                  cv::FILLED);
  return page;
}

std::vector<TextBoxLabel> bars() {
  std::vector<TextBoxLabel> boxes;
  for (const double y : {20., 180., 350.})
    boxes.push_back({"bar", {{30, y}, {270, y}, {270, y + 20}, {30, y + 20}}});
  return boxes;
}

Random draws(int64_t picture) { return {train::data::sample_random(7, 1, picture), 0}; }

TEST(Degrade, IsRepeatableAndDiffersByPicture) {
  const cv::Mat page = page_of(bars());
  Random a = draws(1), b = draws(1), c = draws(2);
  const Degraded first = degrade(page, 1, a), again = degrade(page, 1, b),
                 other = degrade(page, 1, c);
  EXPECT_EQ(cv::norm(first.image, again.image, cv::NORM_INF), 0);
  EXPECT_EQ(first.jpeg_quality, again.jpeg_quality);
  EXPECT_GT(cv::norm(first.image, other.image, cv::NORM_INF), 0);
}

TEST(Degrade, StrengthZeroIsTheCleanPicture) {
  const cv::Mat page = page_of(bars());
  Random random = draws(1);
  EXPECT_EQ(cv::norm(degrade(page, 0, random).image, page, cv::NORM_INF), 0);
}

// However a page was treated, what a moved box holds is darker than what lies between the boxes.
TEST(Degrade, BoxesMoveWithTheirInk) {
  const std::vector<TextBoxLabel> boxes = bars();
  const cv::Mat page = page_of(boxes);
  int turned = 0;
  for (int i = 0; i < 60; ++i) {
    Random random = draws(i);
    const Degraded d = degrade(page, 1.5, random);
    ASSERT_EQ(d.image.size(), page.size());
    ASSERT_EQ(d.image.type(), CV_8UC3);
    EXPECT_TRUE(d.jpeg_quality >= 10 && d.jpeg_quality <= 95);
    cv::Mat inside(page.size(), CV_8U, cv::Scalar(0)), between = inside.clone();
    cv::rectangle(between, {60, 80}, {240, 140}, cv::Scalar(255), cv::FILLED);
    const std::vector<TextBoxLabel> now = moved(boxes, d);
    for (size_t k = 0; k < now.size(); ++k) {
      std::vector<cv::Point> quad;
      for (const cv::Point2d& p : now[k].points) {
        ASSERT_TRUE(p.x >= 0 && p.y >= 0 && p.x < page.cols && p.y < page.rows);
        quad.emplace_back(cvRound(p.x), cvRound(p.y));
        turned += k == 0 && p != boxes[0].points[quad.size() - 1];
      }
      inside.setTo(0);
      cv::fillConvexPoly(inside, quad, cv::Scalar(255));
      EXPECT_LT(cv::mean(d.image, inside)[1] + 50, cv::mean(d.image, between)[1])
          << "page " << i << ", box " << k;
    }
  }
  EXPECT_GT(turned, 60);  // most pages are turned, by more than a rounding
}

// A turn that suits a page would carry the ends of a line out of the picture.
TEST(Degrade, LongLinesKeepTheirEnds) {
  const cv::Mat line(30, 1200, CV_8UC3, cv::Scalar::all(255));
  for (int i = 0; i < 60; ++i) {
    Random random = draws(i);
    const Degraded d = degrade(line, 1, random);
    for (const double x : {0., 1199.}) {
      const cv::Vec3d q = d.map * cv::Vec3d(x, 15, 1);
      EXPECT_LT(std::abs(q[1] / q[2] - 15), 3) << "line " << i;  // of 30
    }
  }
}

TEST(Degrade, TakesTheSmallestPictures) {
  for (const cv::Size size : {cv::Size(1, 1), cv::Size(1, 40), cv::Size(40, 1), cv::Size(3, 2)}) {
    for (int i = 0; i < 20; ++i) {
      Random random = draws(i);
      EXPECT_EQ(degrade(cv::Mat(size, CV_8UC3, cv::Scalar::all(128)), 2, random).image.size(),
                size);
    }
  }
}

}  // namespace
}  // namespace ocr
