#include "libocr/geometry/crop.h"

#include <algorithm>
#include <cmath>
#include <opencv2/imgproc.hpp>

#include "libocr/geometry/warp.h"
#include "libtrain/core/error.h"

namespace ocr {
namespace {

constexpr int kRemapLimit = 32766;  // OpenCV keeps source coordinates in 16 bits
constexpr double kMaxPixels = 1 << 28;

bool is_whole(float v) { return v == std::floor(v); }

// Quad -> upright rectangle of whole pixels inside the page: the warp is then a copy.
bool is_plain_copy(const cv::Mat& page, const CropShape& s) {
  const Quad& q = s.quad;
  return q[0].x == q[3].x && q[1].x == q[2].x && q[0].y == q[1].y && q[2].y == q[3].y &&
         is_whole(q[0].x) && is_whole(q[0].y) && is_whole(q[2].x) && is_whole(q[2].y) &&
         q[2].x > q[0].x && q[2].y > q[0].y && q[0].x >= 0 && q[0].y >= 0 &&
         q[2].x <= static_cast<float>(page.cols) && q[2].y <= static_cast<float>(page.rows) &&
         s.width == static_cast<int>(q[2].x - q[0].x) &&
         s.height == static_cast<int>(q[2].y - q[0].y);
}

void corners_of(const CropShape& s, cv::Point2f quad[4], cv::Point2f rect[4]) {
  const float w = static_cast<float>(s.width), h = static_cast<float>(s.height);
  const cv::Point2f target[4] = {{0, 0}, {w, 0}, {w, h}, {0, h}};
  for (size_t i = 0; i < 4; ++i) {
    quad[i] = {s.quad[i].x, s.quad[i].y};
    rect[i] = target[i];
  }
}

// Area of the page that the block `part` of the crop reads, with room for the bicubic taps.
cv::Rect source_area(const cv::Mat& page, const cv::Matx33d& to_page, const cv::Rect& part) {
  double x0 = page.cols, y0 = page.rows, x1 = 0, y1 = 0;
  for (int corner = 0; corner < 4; ++corner) {
    const cv::Vec3d p = to_page * cv::Vec3d(part.x + (corner & 1 ? part.width : 0),
                                            part.y + (corner & 2 ? part.height : 0), 1);
    const double z = p[2] != 0 ? p[2] : 1;
    x0 = std::min(x0, p[0] / z);
    x1 = std::max(x1, p[0] / z);
    y0 = std::min(y0, p[1] / z);
    y1 = std::max(y1, p[1] / z);
  }
  const auto bound = [](double v, int limit) {
    return static_cast<int>(std::clamp(v, 0.0, static_cast<double>(limit)));
  };
  const int left = std::min(bound(x0 - 4, page.cols), page.cols - 1);
  const int top = std::min(bound(y0 - 4, page.rows), page.rows - 1);
  const int right = std::max(bound(x1 + 5, page.cols), left + 1);
  const int bottom = std::max(bound(y1 + 5, page.rows), top + 1);
  return {left, top, right - left, bottom - top};
}

void warp_page(const cv::Mat& page, const cv::Matx33d& to_page, cv::Size size, cv::Mat* out) {
  if (page.type() == CV_8UC3) {
    warp_bicubic(page, to_page, size, out);
  } else {
    cv::warpPerspective(page, *out, to_page, size, cv::INTER_CUBIC | cv::WARP_INVERSE_MAP,
                        cv::BORDER_REPLICATE);
  }
}

// For pages beyond OpenCV's 16 bits: the crop is cut in blocks, each from its own part of the page.
void warp_in_parts(const cv::Mat& page, const cv::Matx33d& to_page, const cv::Rect& part,
                   cv::Mat* out) {
  const cv::Rect area = source_area(page, to_page, part);
  if ((area.width >= kRemapLimit || area.height >= kRemapLimit) &&
      std::max(part.width, part.height) > 64) {
    cv::Rect first = part, second = part;
    if (part.width >= part.height) {
      first.width = part.width / 2;
      second.x += first.width;
      second.width -= first.width;
    } else {
      first.height = part.height / 2;
      second.y += first.height;
      second.height -= first.height;
    }
    warp_in_parts(page, to_page, first, out);
    warp_in_parts(page, to_page, second, out);
    return;
  }
  const cv::Rect read(area.x, area.y, std::min(area.width, kRemapLimit - 1),
                      std::min(area.height, kRemapLimit - 1));
  const cv::Matx33d shift_in(1, 0, -read.x, 0, 1, -read.y, 0, 0, 1);
  const cv::Matx33d shift_out(1, 0, part.x, 0, 1, part.y, 0, 0, 1);
  cv::Mat target = (*out)(part);
  warp_page(page(read), shift_in * to_page * shift_out, part.size(), &target);
}

void warp(const cv::Mat& page, const CropShape& shape, cv::Mat* out) {
  const cv::Size size(shape.width, shape.height);
  if (is_plain_copy(page, shape)) {
    const cv::Rect area(static_cast<int>(shape.quad[0].x), static_cast<int>(shape.quad[0].y),
                        shape.width, shape.height);
    page(area).copyTo(*out);
    return;
  }
  cv::Point2f quad[4], rect[4];
  corners_of(shape, quad, rect);
  const cv::Mat matrix = cv::getPerspectiveTransform(quad, rect);
  if (page.cols < kRemapLimit && page.rows < kRemapLimit) {
    // Inverted by OpenCV, so that the matrix has the bits that its own warp would use.
    cv::Mat inverse;
    cv::invert(matrix, inverse);
    warp_page(page, cv::Matx33d(inverse), size, out);
    return;
  }
  out->create(size, page.type());
  const cv::Matx33d forward(matrix);
  warp_in_parts(page, forward.inv(), {{0, 0}, size}, out);
}

}  // namespace

CropShape crop_shape(const Quad& quad, double turn_ratio) {
  CropShape s;
  s.quad = quad;
  const float w = std::max(corner_distance(quad[0], quad[1]), corner_distance(quad[2], quad[3]));
  const float h = std::max(corner_distance(quad[0], quad[3]), corner_distance(quad[1], quad[2]));
  if (!std::isfinite(w) || !std::isfinite(h) ||
      std::max(1.0, static_cast<double>(w)) * std::max(1.0, static_cast<double>(h)) > kMaxPixels) {
    throw train::ShapeError(train::cat("a text box of ", w, " x ", h, " pixels cannot be cut out"));
  }
  s.width = std::max(1, static_cast<int>(w));
  s.height = std::max(1, static_cast<int>(h));
  s.turned = turn_ratio > 0 && static_cast<double>(s.height) / s.width >= turn_ratio;
  return s;
}

CropShape crop_shape(const Polygon& polygon, double turn_ratio) {
  return crop_shape(min_area_rect_int(polygon).corners, turn_ratio);
}

void cut_crop(const cv::Mat& page, const CropShape& shape, cv::Mat* out) {
  if (page.empty()) throw train::ShapeError("a text box cannot be cut out of an empty page");
  if (!shape.turned) {
    warp(page, shape, out);
    return;
  }
  cv::Mat standing;
  warp(page, shape, &standing);
  cv::rotate(standing, *out, cv::ROTATE_90_COUNTERCLOCKWISE);
}

CropMapper::CropMapper(const CropShape& shape, bool flipped) : shape_(shape), flipped_(flipped) {
  cv::Point2f quad[4], rect[4];
  corners_of(shape, quad, rect);
  to_page_ = cv::Matx33d(cv::getPerspectiveTransform(rect, quad));
}

Point2f CropMapper::to_page(Point2f p) const {
  double x = p.x, y = p.y;
  if (flipped_) {
    x = shape_.out_width() - x;
    y = shape_.out_height() - y;
  }
  if (shape_.turned) {  // the turn sent (x, y) to (y, width - x)
    const double standing_x = shape_.width - y;
    y = x;
    x = standing_x;
  }
  const cv::Vec3d q = to_page_ * cv::Vec3d(x, y, 1);
  const double z = q[2] != 0 ? q[2] : 1;
  return {static_cast<float>(q[0] / z), static_cast<float>(q[1] / z)};
}

Quad CropMapper::column_box(float x0, float x1) const {
  const float h = static_cast<float>(shape_.out_height());
  return {to_page({x0, 0}), to_page({x1, 0}), to_page({x1, h}), to_page({x0, h})};
}

}  // namespace ocr
