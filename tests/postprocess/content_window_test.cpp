#include "libocr/postprocess/content_window.h"

#include <gtest/gtest.h>

#include <opencv2/imgproc.hpp>
#include <random>

#include "libtrain/core/error.h"

namespace ocr {
namespace {

// Dark specks on paper, in every corner too.
cv::Mat speckled(int width, int height, const cv::Scalar& paper, unsigned seed) {
  cv::Mat out(height, width, CV_8UC3, paper);
  std::mt19937 random(seed);
  for (int i = 0; i < width * height / 20; ++i)
    out.at<cv::Vec3b>(static_cast<int>(random() % height), static_cast<int>(random() % width)) =
        cv::Vec3b(static_cast<uchar>(random() % 90), 20, 60);
  for (const cv::Point p : {cv::Point(0, 0), cv::Point(width - 1, height - 1)})
    out.at<cv::Vec3b>(p) = cv::Vec3b(0, 0, 0);
  return out;
}

cv::Mat pasted(const cv::Mat& content, int width, int height, const cv::Scalar& ground, int x,
               int y) {
  cv::Mat out(height, width, CV_8UC3, ground);
  content.copyTo(out(cv::Rect(x, y, content.cols, content.rows)));
  return out;
}

bool same(const cv::Mat& a, const cv::Mat& b) {
  return a.size() == b.size() && cv::norm(a, b, cv::NORM_INF) == 0;
}

TEST(ContentWindow, ShowsTheSameWhereverTheContentLies) {
  const cv::Scalar grey(120, 130, 140), white(255, 255, 255);
  for (const cv::Scalar& ground : {grey, white}) {
    const cv::Mat content = speckled(203, 151, white, 1);
    cv::Mat seen, copy;
    std::mt19937 random(7);
    for (int i = 0; i < 30; ++i) {
      // The four corners, then anywhere.
      const int x = i < 4 ? (i % 2) * (900 - 203) : static_cast<int>(random() % (900 - 203));
      const int y = i < 4 ? (i / 2) * (700 - 151) : static_cast<int>(random() % (700 - 151));
      SCOPED_TRACE(train::cat("at ", x, ", ", y));
      const cv::Mat page = pasted(content, 900, 700, ground, x, y);
      const ContentWindow window = ContentWindow::of_content(page, 10, 4);
      ASSERT_EQ(window.area(), cv::Rect(x - 10, y - 10, 224, 172));
      const cv::Mat all = window.part({0, 0, 224, 172});
      EXPECT_TRUE(same(all(cv::Rect(10, 10, 203, 151)), content));
      if (i == 0) seen = all.clone(), copy = window.shrunk(4);
      EXPECT_TRUE(same(all, seen));
      EXPECT_TRUE(same(window.shrunk(4), copy));
      EXPECT_TRUE(same(window.part({3, 90, 200, 82}), seen(cv::Rect(3, 90, 200, 82))));
    }
    // In bands as in one piece.
    cv::Mat expected;
    cv::resize(seen, expected, cv::Size(56, 43), 0, 0, cv::INTER_AREA);
    EXPECT_TRUE(same(copy, expected));
  }
}

TEST(ContentWindow, AViewWhereItLiesOnThePage) {
  const cv::Mat page =
      pasted(speckled(90, 80, {255, 255, 255}, 2), 500, 400, {255, 255, 255}, 99, 101);
  const ContentWindow window = ContentWindow::of_content(page, 16, 1);
  EXPECT_EQ(window.part({0, 0, 40, 30}).data, page.ptr(101 - 16) + 3 * (99 - 16));
}

TEST(ContentWindow, EveryPixelOfTheContentIsInside) {
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    cv::Mat page(50 + static_cast<int>(random() % 40), 200 + static_cast<int>(random() % 90),
                 CV_8UC3, cv::Scalar(200, 210, 220));
    cv::Rect expected;
    for (int k = 0; k < 1 + i % 3; ++k) {
      // Off by 4 in one channel, in either direction; by 3 it is still the ground.
      const cv::Point p(1 + static_cast<int>(random() % (page.cols - 2)),
                        1 + static_cast<int>(random() % (page.rows - 2)));
      const cv::Point other(1 + static_cast<int>(random() % (page.cols - 2)), p.y);
      cv::Vec3b& near = page.at<cv::Vec3b>(other);
      if (near[0] == 200) near[0] = random() % 2 ? 203 : 197;
      page.at<cv::Vec3b>(p)[static_cast<int>(random() % 3)] = random() % 2 ? 196 : 224;
      expected = expected.empty() ? cv::Rect(p, cv::Size(1, 1))
                                  : expected | cv::Rect(p, p + cv::Point(1, 1));
    }
    // 196 and 224 are 4 and more off in each of the channels.
    EXPECT_EQ(ContentWindow::of_content(page, 0, 1).area(), expected) << i;
  }
}

TEST(ContentWindow, PagesWithoutMarginsAndWithoutContent) {
  const cv::Mat full = speckled(120, 90, {250, 250, 250}, 4);
  EXPECT_TRUE(ContentWindow::of_content(full, 8, 4).whole());
  const cv::Mat plain(70, 60, CV_8UC3, cv::Scalar(9, 8, 7));
  EXPECT_TRUE(ContentWindow::of_content(plain, 8, 4).empty());
  // Margins narrower than those that it would get.
  const cv::Mat narrow = pasted(full, 126, 96, {250, 250, 250}, 3, 3);
  EXPECT_TRUE(ContentWindow::of_content(narrow, 8, 4).whole());
  EXPECT_THROW(ContentWindow::of_content(cv::Mat(5, 5, CV_8UC1), 1, 1), train::ShapeError);
}

}  // namespace
}  // namespace ocr
