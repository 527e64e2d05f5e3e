#include "libocr/postprocess/detection_resize.h"

#include <algorithm>
#include <cmath>

#include "libtrain/core/error.h"

namespace ocr {
namespace {

using train::cat;
using train::ConfigError;
using train::ShapeError;

constexpr double kMaxSide = 1 << 24;

double positive(int value, const char* name) {
  if (value <= 0) throw ConfigError("", 0, 0, cat(name, " must be positive, not ", value));
  return value;
}

// int(): towards zero, after a check that the value fits.
int whole(double side) {
  if (!(side <= kMaxSide)) {
    throw ShapeError(cat("the detector's input would be ", side,
                         " pixels long; lower det_limit_side_len or read the page in tiles"));
  }
  return static_cast<int>(side);
}

// round(side / 32) * 32, half to even.
int round32(int side) { return static_cast<int>(std::nearbyint(side / 32.0)) * 32; }
int up(double side, int multiple) { return whole(std::ceil(side / multiple)) * multiple; }

// Scale that the limit asks for; of equal sides it does not matter which is taken.
double limit_ratio(int h, int w, LimitType type, double limit) {
  const double longer = std::max(h, w), shorter = std::min(h, w);
  switch (type) {
    case LimitType::kMin:
      return shorter < limit ? limit / shorter : 1.0;
    case LimitType::kMax:
      return longer > limit ? limit / longer : 1.0;
    case LimitType::kResizeLong:
      return limit / longer;
  }
  return 1.0;
}

void set_limited(int h, int w, const DetectionResizeOptions& o, DetectionSize* out) {
  double ratio = limit_ratio(h, w, o.limit_type, positive(o.limit_side_len, "limit_side_len"));
  // Capped before the check of whole(): a cap keeps extreme pages possible.
  double sides[2] = {std::trunc(h * ratio), std::trunc(w * ratio)};
  const double longer = std::max(sides[0], sides[1]);
  if (o.max_side_limit > 0 && longer > o.max_side_limit) {
    ratio = o.max_side_limit / longer;
    for (double& side : sides) side = std::trunc(side * ratio);
  }
  out->height = std::max(round32(whole(sides[0])), 32);
  out->width = std::max(round32(whole(sides[1])), 32);
}

struct Scaled {
  int height, width;
};

// RapidOCR's resize of a page by a factor, sides to multiples of 32.
Scaled rapid_resize(int h, int w, double ratio) {
  const Scaled s{round32(whole(h * ratio)), round32(whole(w * ratio))};
  if (s.height <= 0 || s.width <= 0) {
    throw ShapeError(cat("a page of ", w, " x ", h, " pixels is too thin for RapidOCR's rules"));
  }
  return s;
}

}  // namespace

DetectionResizeOptions DetectionResizeOptions::ppocr2() {
  DetectionResizeOptions o;
  o.limit_type = LimitType::kMax;
  o.limit_side_len = 960;
  return o;
}

DetectionResizeOptions DetectionResizeOptions::ppocr3() {
  DetectionResizeOptions o;
  o.limit_side_len = 64;
  return o;
}

DetectionResizeOptions DetectionResizeOptions::rapidocr() {
  DetectionResizeOptions o;
  o.max_side_limit = 0;
  o.pad_small = false;
  return o;
}

DetectionSize detection_size(int height, int width, const DetectionResizeOptions& o) {
  if (height <= 0 || width <= 0 || height > kMaxSide || width > kMaxSide) {
    throw ShapeError(cat("a page of ", width, " x ", height, " pixels cannot be read"));
  }
  DetectionSize out;
  const bool pad = o.pad_small && height + width < 64;
  const int h = out.padded_height = pad ? std::max(32, height) : height;
  const int w = out.padded_width = pad ? std::max(32, width) : width;
  switch (o.kind) {
    case DetectionResizeKind::kLimit:
      set_limited(h, w, o, &out);
      break;
    case DetectionResizeKind::kResizeLong128: {
      const double ratio = positive(o.resize_long, "resize_long") / std::max(h, w);
      out.height = std::max(up(whole(h * ratio), 128), 128);
      out.width = std::max(up(whole(w * ratio), 128), 128);
      break;
    }
    case DetectionResizeKind::kImageShape:
      out.height = whole(positive(o.image_height, "image_shape"));
      out.width = o.keep_ratio ? up(static_cast<double>(w) * out.height / h, 32)
                               : whole(positive(o.image_width, "image_shape"));
      break;
  }
  out.ratio_h = static_cast<double>(out.height) / h;
  out.ratio_w = static_cast<double>(out.width) / w;
  return out;
}

RapidPage rapidocr_page(int height, int width, const RapidPageOptions& o) {
  if (height <= 0 || width <= 0) throw ShapeError("an empty page cannot be read");
  RapidPage page{height, width, 0, 1, 1};
  const auto resize_to = [&page](double side, int reference) {
    const Scaled s = rapid_resize(page.height, page.width, side / reference);
    page.ratio_h = static_cast<double>(page.height) / s.height;
    page.ratio_w = static_cast<double>(page.width) / s.width;
    page.height = s.height;
    page.width = s.width;
  };
  const int longer = std::max(height, width);
  if (longer > o.max_side) resize_to(o.max_side, longer);
  const int shorter = std::min(page.height, page.width);
  if (shorter < o.min_side) resize_to(o.min_side, shorter);

  const bool flat = o.width_height_ratio != -1 &&
                    static_cast<double>(page.width) / page.height > o.width_height_ratio;
  if (page.height <= o.min_height || flat) {
    const int half = std::max(static_cast<int>(page.width / o.width_height_ratio), o.min_height);
    page.pad = std::abs(half * 2 - page.height) / 2;
  }
  return page;
}

void rapidocr_to_page(std::span<Point2f> points, const RapidPage& page, int height, int width) {
  for (Point2f& p : points) {
    p.x = std::clamp(p.x * static_cast<float>(page.ratio_w), 0.0f, static_cast<float>(width));
    p.y = std::clamp((p.y - static_cast<float>(page.pad)) * static_cast<float>(page.ratio_h), 0.0f,
                     static_cast<float>(height));
  }
}

}  // namespace ocr
