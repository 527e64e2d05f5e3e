#include "libocr/postprocess/content_window.h"

#include <algorithm>
#include <array>
#include <opencv2/imgproc.hpp>

#include "libtrain/core/error.h"

namespace ocr {
namespace {

constexpr int kTolerance = 3;  // what JPEG leaves of a plain colour, and no printing is
constexpr int kBlock = 32;     // pixels looked at in one go
constexpr int kBandRows = 64;  // of a shrunk copy, made at once

// Tells pixels of the ground's colour from others, many at a time.
class Ground {
 public:
  explicit Ground(const cv::Vec3b& colour) {
    for (size_t i = 0; i < low_.size(); ++i) {
      low_[i] = static_cast<uchar>(std::max(0, colour[i % 3] - kTolerance));
      span_[i] = static_cast<uchar>(std::min(255, colour[i % 3] + kTolerance) - low_[i]);
    }
  }

  /// How many of the `n` pixels from `p` on are the ground's before the first that is not.
  int leading(const uchar* p, int n) const {
    int i = 0;
    while (i + kBlock <= n && block(p + 3 * i)) i += kBlock;
    while (i < n && pixel(p + 3 * i)) ++i;
    return i;
  }

  /// How many of the `n` pixels from `p` on are the ground's after the last that is not.
  int trailing(const uchar* p, int n) const {
    int i = n;
    while (i >= kBlock && block(p + 3 * (i - kBlock))) i -= kBlock;
    while (i > 0 && pixel(p + 3 * (i - 1))) --i;
    return n - i;
  }

 private:
  // Unsigned differences: below `low_` they wrap round to large ones.
  bool block(const uchar* p) const {
    unsigned other = 0;
    for (size_t i = 0; i < low_.size(); ++i)
      other |= static_cast<uchar>(p[i] - low_[i]) > span_[i] ? 1u : 0u;
    return other == 0;
  }
  bool pixel(const uchar* p) const {
    for (size_t i = 0; i < 3; ++i)
      if (static_cast<uchar>(p[i] - low_[i]) > span_[i]) return false;
    return true;
  }

  std::array<uchar, 3 * kBlock> low_{}, span_{};
};

// The smallest rectangle with all pixels that are not the ground's.
cv::Rect content_of(const cv::Mat& page, const Ground& ground) {
  const auto blank = [&](int y) { return ground.leading(page.ptr(y), page.cols) == page.cols; };
  int top = 0, bottom = page.rows;
  while (top < bottom && blank(top)) ++top;
  while (bottom > top && blank(bottom - 1)) --bottom;
  if (top == bottom) return {};
  // No row is read beyond the margins that are left after the rows above it.
  int left = page.cols, right = page.cols;
  for (int y = top; y < bottom && left + right > 0; ++y) {
    const uchar* row = page.ptr(y);
    left = ground.leading(row, left);
    right = ground.trailing(row + 3 * (page.cols - right), right);
  }
  return {left, top, page.cols - left - right, bottom - top};
}

int64_t pixels(const cv::Size& size) { return static_cast<int64_t>(size.width) * size.height; }

int round_up(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }

}  // namespace

ContentWindow::ContentWindow(const cv::Mat& page)
    : page_(page), area_(0, 0, page.cols, page.rows) {}

ContentWindow ContentWindow::of_content(const cv::Mat& page, int margin, int multiple) {
  if (page.type() != CV_8UC3)
    throw train::ShapeError("the content of a page is looked for in 8-bit BGR");
  ContentWindow window(page);
  if (page.empty()) return window;
  const auto corner = [&](int i) {
    return page.at<cv::Vec3b>(i < 2 ? 0 : page.rows - 1, i % 2 ? page.cols - 1 : 0);
  };
  // A page in a corner of the canvas has that corner; the colour that leaves least is the canvas's.
  cv::Rect best = window.area_;
  for (int i = 0; i < 4; ++i) {
    bool seen = false;
    for (int j = 0; j < i; ++j) seen = seen || corner(j) == corner(i);
    if (seen) continue;
    const cv::Rect content = content_of(page, Ground(corner(i)));
    if (i > 0 && pixels(content.size()) >= pixels(best.size())) continue;
    best = content;
    window.ground_ = corner(i);
  }
  if (best.empty()) {
    window.area_ = {};
    return window;
  }
  best = {best.x - margin, best.y - margin, round_up(best.width + 2 * margin, multiple),
          round_up(best.height + 2 * margin, multiple)};
  if (pixels(best.size()) < pixels(page.size())) window.area_ = best;
  return window;
}

cv::Mat ContentWindow::part(const cv::Rect& rect) const {
  const cv::Rect wanted = rect + area_.tl();
  const cv::Rect there = wanted & cv::Rect(0, 0, page_.cols, page_.rows);
  if (there == wanted) return page_(wanted);
  cv::Mat out(rect.size(), page_.type(), cv::Scalar(ground_[0], ground_[1], ground_[2]));
  if (!there.empty()) page_(there).copyTo(out(there - wanted.tl()));
  return out;
}

cv::Mat ContentWindow::shrunk(int factor) const {
  const cv::Size size(std::max(1, area_.width / factor), std::max(1, area_.height / factor));
  cv::Mat out(size, page_.type());
  if (whole()) {
    cv::resize(page_, out, size, 0, 0, cv::INTER_AREA);
    return out;
  }
  for (int y = 0; y < size.height; y += kBandRows) {
    cv::Mat band = out.rowRange(y, std::min(size.height, y + kBandRows));
    cv::resize(part({0, y * factor, size.width * factor, band.rows * factor}), band, band.size(), 0,
               0, cv::INTER_AREA);
  }
  return out;
}

}  // namespace ocr
