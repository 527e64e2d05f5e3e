#include "libocr/postprocess/db.h"

#include <algorithm>
#include <clipper.hpp>
#include <cmath>
#include <opencv2/imgproc.hpp>
#include <optional>

#include "libtrain/core/error.h"

namespace ocr {
namespace {

constexpr int kMaxSide = 1 << 20;
constexpr int64_t kMaxPixels = int64_t{1} << 30;

using Contour = std::vector<cv::Point>;

// Mean of the map inside a polygon, drawn as OpenCV draws it. The mask covers the polygon's bounds
// only, and its memory is kept from box to box.
class MeanInside {
 public:
  explicit MeanInside(const cv::Mat& map) : map_(map) {}

  double operator()(std::span<const Point2f> polygon) {
    const Bounds b = bounds_of(polygon);
    start(cv::Point(clamp_x(std::floor(b.x0)), clamp_y(std::floor(b.y0))),
          cv::Point(clamp_x(std::ceil(b.x1)), clamp_y(std::ceil(b.y1))));
    for (Point2f p : polygon) {
      shifted_.emplace_back(static_cast<int>(p.x - static_cast<float>(area_.x)),
                            static_cast<int>(p.y - static_cast<float>(area_.y)));
    }
    return mean();
  }

  double operator()(const Contour& contour) {
    const cv::Rect b = cv::boundingRect(contour);
    start(b.tl(), b.br() - cv::Point(1, 1));
    for (cv::Point p : contour) shifted_.push_back(p - area_.tl());
    return mean();
  }

 private:
  int clamp_x(float v) const {
    return static_cast<int>(std::clamp(v, 0.0f, static_cast<float>(map_.cols - 1)));
  }
  int clamp_y(float v) const {
    return static_cast<int>(std::clamp(v, 0.0f, static_cast<float>(map_.rows - 1)));
  }
  void start(cv::Point first, cv::Point last) {
    area_ = cv::Rect(first, last + cv::Point(1, 1));
    shifted_.clear();
  }
  double mean() {
    const size_t pixels = static_cast<size_t>(area_.area());
    if (memory_.size() < pixels) memory_.resize(pixels);
    cv::Mat mask(area_.size(), CV_8U, memory_.data());
    mask.setTo(0);
    const cv::Point* points = shifted_.data();
    const int count = static_cast<int>(shifted_.size());
    cv::fillPoly(mask, &points, &count, 1, cv::Scalar(1));
    return cv::mean(map_(area_), mask)[0];
  }

  const cv::Mat& map_;
  cv::Rect area_;
  Contour shifted_;
  std::vector<uint8_t> memory_;
};

// Perimeter and area in the order of operations of GEOS, so that the distance rounds alike.
double offset_distance(std::span<const Point2f> p, double ratio) {
  const size_t n = p.size();
  double area = 0;
  for (size_t i = 1; i < n; ++i) {
    const double x = static_cast<double>(p[i].x) - p[0].x;
    area += x * (static_cast<double>(p[i - 1].y) - p[(i + 1) % n].y);
  }
  const double length = polygon_perimeter(p);
  return length > 0 ? std::abs(area / 2) * ratio / length : 0;
}

// Grown polygons: round joins, corners cut to whole pixels first as pyclipper does.
ClipperLib::Paths unclip(std::span<const Point2f> polygon, double ratio) {
  ClipperLib::Path path;
  path.reserve(polygon.size());
  for (Point2f p : polygon) {
    path.emplace_back(static_cast<ClipperLib::cInt>(p.x), static_cast<ClipperLib::cInt>(p.y));
  }
  ClipperLib::ClipperOffset offset;
  offset.AddPath(path, ClipperLib::jtRound, ClipperLib::etClosedPolygon);
  ClipperLib::Paths grown;
  offset.Execute(grown, offset_distance(polygon, ratio));
  return grown;
}

Polygon to_polygon(const ClipperLib::Path& path) {
  Polygon out;
  out.reserve(path.size());
  for (const ClipperLib::IntPoint& p : path) {
    out.push_back({static_cast<float>(p.X), static_cast<float>(p.Y)});
  }
  return out;
}

RotatedRect mini_box(const Contour& contour) {
  Polygon points;
  points.reserve(contour.size());
  for (cv::Point p : contour) {
    points.push_back({static_cast<float>(p.x), static_cast<float>(p.y)});
  }
  return min_area_rect_int(points);
}

// Clipped to the last pixel and cut to a whole one.
Point2f clip_to_page(Point2f p, int width, int height) {
  const float x = std::min(std::max(p.x, 0.0f), static_cast<float>(width - 1));
  const float y = std::min(std::max(p.y, 0.0f), static_cast<float>(height - 1));
  return {std::trunc(x), std::trunc(y)};
}

class DbReader {
 public:
  DbReader(const cv::Mat& map, int src_height, int src_width, const DbOptions& options)
      : map_(map), src_height_(src_height), src_width_(src_width), options_(options), mean_(map) {}

  std::optional<Detection> quad(const Contour& contour) {
    const RotatedRect box = mini_box(contour);
    if (!(box.short_side >= static_cast<float>(options_.min_size))) return std::nullopt;
    const double score =
        options_.score_mode == ScoreMode::kFast ? mean_(box.corners) : mean_(contour);
    if (!(score >= options_.box_thresh)) return std::nullopt;
    const ClipperLib::Paths grown = unclip(box.corners, options_.unclip_ratio);
    if (grown.size() != 1) return std::nullopt;
    const RotatedRect outer = min_area_rect_int(to_polygon(grown[0]));
    if (!(outer.short_side >= static_cast<float>(options_.min_size + 2))) return std::nullopt;
    Quad page = outer.corners;
    for (Point2f& p : page) p = quad_point_to_page(p);
    page = order_points_clockwise(page, options_.corner_order);
    for (Point2f& p : page) p = clip_to_page(p, src_width_, src_height_);
    if (options_.drop_small && (static_cast<int>(corner_distance(page[0], page[1])) <= 3 ||
                                static_cast<int>(corner_distance(page[0], page[3])) <= 3)) {
      return std::nullopt;
    }
    return Detection{Polygon(page.begin(), page.end()), score};
  }

  std::optional<Detection> poly(const Contour& contour) {
    Contour approximated;
    cv::approxPolyDP(contour, approximated, 0.002 * cv::arcLength(contour, true), true);
    if (approximated.size() < 4) return std::nullopt;
    Polygon points;
    for (cv::Point p : approximated) {
      points.push_back({static_cast<float>(p.x), static_cast<float>(p.y)});
    }
    const double score = mean_(points);
    if (!(score >= options_.box_thresh)) return std::nullopt;
    const ClipperLib::Paths grown = unclip(points, options_.unclip_ratio);
    if (grown.size() != 1) return std::nullopt;
    Polygon outer = to_polygon(grown[0]);
    if (!(min_area_rect_int(outer).short_side >= static_cast<float>(options_.min_size + 2))) {
      return std::nullopt;
    }
    for (Point2f& p : outer) p = clip_to_page(poly_point_to_page(p), src_width_, src_height_);
    return Detection{std::move(outer), score};
  }

 private:
  // Quads are scaled in single precision and polygons in double, as NumPy does with their dtypes.
  Point2f quad_point_to_page(Point2f p) const {
    const float w = static_cast<float>(src_width_), h = static_cast<float>(src_height_);
    const float x = std::nearbyint(p.x / static_cast<float>(map_.cols) * w);
    const float y = std::nearbyint(p.y / static_cast<float>(map_.rows) * h);
    return {std::clamp(x, 0.0f, w), std::clamp(y, 0.0f, h)};
  }
  Point2f poly_point_to_page(Point2f p) const {
    const double x = std::nearbyint(static_cast<double>(p.x) / map_.cols * src_width_);
    const double y = std::nearbyint(static_cast<double>(p.y) / map_.rows * src_height_);
    return {static_cast<float>(std::clamp(x, 0.0, static_cast<double>(src_width_))),
            static_cast<float>(std::clamp(y, 0.0, static_cast<double>(src_height_)))};
  }

  const cv::Mat& map_;
  int src_height_, src_width_;
  const DbOptions& options_;
  MeanInside mean_;
};

void check(const MapView& map, int src_height, int src_width) {
  if (!map.data || map.height <= 0 || map.width <= 0 || src_height <= 0 || src_width <= 0 ||
      map.height > kMaxSide || map.width > kMaxSide || src_height > kMaxSide ||
      src_width > kMaxSide || int64_t{map.height} * map.width > kMaxPixels) {
    throw train::ShapeError(train::cat("a probability map of ", map.width, " x ", map.height,
                                       " for a page of ", src_width, " x ", src_height,
                                       " cannot be read"));
  }
}

// A view of the map when its pixels are neighbours in memory, else a dense copy.
cv::Mat dense(const MapView& map) {
  if (map.pixel_stride == 1) {
    return cv::Mat(map.height, map.width, CV_32F, const_cast<float*>(map.data),
                   static_cast<size_t>(map.row_stride) * sizeof(float));
  }
  cv::Mat out(map.height, map.width, CV_32F);
  for (int y = 0; y < map.height; ++y) {
    const float* from = map.data + y * map.row_stride;
    float* to = out.ptr<float>(y);
    for (int x = 0; x < map.width; ++x) to[x] = from[x * map.pixel_stride];
  }
  return out;
}

cv::Mat binarise(const cv::Mat& map, const DbOptions& options) {
  cv::Mat mask(map.size(), CV_8U);
  // Locals: the compiler must take written bytes to alias any member, and would not vectorise.
  const float thresh = options.thresh;
  const int height = map.rows, width = map.cols;
  for (int y = 0; y < height; ++y) {
    const float* p = map.ptr<float>(y);
    uint8_t* m = mask.ptr<uint8_t>(y);
    for (int x = 0; x < width; ++x) m[x] = p[x] > thresh ? 255 : 0;
  }
  if (options.use_dilation) cv::dilate(mask, mask, cv::Mat::ones(2, 2, CV_8U));
  return mask;
}

}  // namespace

DbOptions DbOptions::rapidocr() {
  DbOptions o;
  o.box_thresh = 0.5;
  o.unclip_ratio = 1.6;
  o.use_dilation = true;
  o.corner_order = CornerOrder::kSortX;
  return o;
}

std::vector<Detection> db_postprocess(const MapView& map, int src_height, int src_width,
                                      const DbOptions& options, DbReport* report) {
  check(map, src_height, src_width);
  const cv::Mat probabilities = dense(map);
  std::vector<Contour> contours;
  cv::findContours(binarise(probabilities, options), contours, cv::RETR_LIST,
                   cv::CHAIN_APPROX_SIMPLE);
  const size_t limit = static_cast<size_t>(std::max(0, options.max_candidates));
  if (report) {
    report->contours = static_cast<int64_t>(contours.size());
    report->cut_candidates =
        contours.size() > limit ? static_cast<int64_t>(contours.size() - limit) : 0;
  }
  if (contours.size() > limit) contours.resize(limit);

  DbReader reader(probabilities, src_height, src_width, options);
  std::vector<Detection> out;
  for (const Contour& contour : contours) {
    std::optional<Detection> found =
        options.box_type == BoxType::kQuad ? reader.quad(contour) : reader.poly(contour);
    if (found) out.push_back(std::move(*found));
  }
  return out;
}

}  // namespace ocr
