#include "libocr/data/detection_targets.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <opencv2/imgproc.hpp>
#include <polyclipping/clipper.hpp>

namespace ocr {
namespace {

// As GEOS sums it: the last bit decides at which whole number a grown outline lands.
double ring_area(const PolygonD& p) {
  const size_t n = p.size();
  const double x0 = p[0].x;
  double sum = 0;
  for (size_t i = 1; i < n; ++i) sum += (p[i].x - x0) * (p[i - 1].y - p[(i + 1) % n].y);
  return std::abs(sum / 2);
}

double ring_length(const PolygonD& p) {
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const cv::Point2d& a = p[i];
    const cv::Point2d& b = p[(i + 1) % p.size()];
    const double dx = b.x - a.x, dy = b.y - a.y;
    sum += std::sqrt(dx * dx + dy * dy);
  }
  return sum;
}

using Contour = std::vector<cv::Point>;

// Grows (or shrinks, by a negative distance) with round joins; corners are cut to whole pixels
// first.
std::vector<Contour> offset(const PolygonD& polygon, double distance) {
  ClipperLib::Path path;
  for (const cv::Point2d& p : polygon)
    path.emplace_back(static_cast<ClipperLib::cInt>(p.x), static_cast<ClipperLib::cInt>(p.y));
  ClipperLib::ClipperOffset offset;
  offset.AddPath(path, ClipperLib::jtRound, ClipperLib::etClosedPolygon);
  ClipperLib::Paths grown;
  offset.Execute(grown, distance);
  std::vector<Contour> out;
  for (const ClipperLib::Path& g : grown) {
    Contour& c = out.emplace_back();
    for (const ClipperLib::IntPoint& p : g)
      c.emplace_back(static_cast<int>(p.X), static_cast<int>(p.Y));
  }
  return out;
}

void fill(cv::Mat& map, const Contour& contour, double value) {
  if (!contour.empty()) cv::fillPoly(map, std::vector<Contour>{contour}, cv::Scalar(value));
}

Contour whole_pixels(const PolygonD& p) {
  Contour c;
  for (const cv::Point2d& q : p) c.emplace_back(static_cast<int>(q.x), static_cast<int>(q.y));
  return c;
}

// Distance of pixels to an edge, in units of `distance`, cut to [0, 1]. Upstream's formula by the
// law of cosines and its order of operations: on the edge itself rounding may give NaN, and such
// pixels are passed over there, too.
struct Edge {
  Edge(cv::Point2d from, cv::Point2d to)
      : a(from), b(to), square((a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y)) {}

  double to(double x, double y) const {
    const double a2 = (x - a.x) * (x - a.x) + (y - a.y) * (y - a.y);
    const double b2 = (x - b.x) * (x - b.x) + (y - b.y) * (y - b.y);
    const double cosine = (square - a2 - b2) / (2 * std::sqrt(a2 * b2));
    if (cosine < 0) return std::sqrt(std::fmin(a2, b2));
    double sine2 = 1 - cosine * cosine;
    if (std::isnan(sine2)) sine2 = 0;
    if (std::isinf(sine2)) sine2 = std::copysign(std::numeric_limits<double>::max(), sine2);
    return std::sqrt(a2 * b2 * sine2 / square);
  }

  cv::Point2d a, b;
  double square;
};

float unit(double v) { return static_cast<float>(v < 0 ? 0 : v > 1 ? 1 : v); }  // keeps NaN

void draw_border(const PolygonD& polygon, double shrink_ratio, TargetMap& out) {
  if (polygon.size() < 3) return;
  const double area = ring_area(polygon);
  if (!(area > 0)) return;
  const double distance = area * (1 - std::pow(shrink_ratio, 2)) / ring_length(polygon);
  const std::vector<Contour> grown = offset(polygon, distance);
  if (grown.empty()) return;
  fill(out.mask, grown[0], 1);
  const cv::Rect box = cv::boundingRect(grown[0]) & cv::Rect(0, 0, out.map.cols, out.map.rows);
  // Coordinates are taken from the corner of the grown outline, as upstream takes them.
  const cv::Point corner = cv::boundingRect(grown[0]).tl();
  std::vector<Edge> edges;
  for (size_t i = 0; i < polygon.size(); ++i) {
    const cv::Point2d origin(corner.x, corner.y);
    edges.emplace_back(polygon[i] - origin, polygon[(i + 1) % polygon.size()] - origin);
  }
  for (int y = box.y; y < box.y + box.height; ++y) {
    float* row = out.map.ptr<float>(y);
    for (int x = box.x; x < box.x + box.width; ++x) {
      float least = 2;
      for (const Edge& e : edges) {
        const float d = unit(e.to(x - corner.x, y - corner.y) / distance);
        if (std::isnan(d)) {
          least = d;
          break;
        }
        least = std::min(least, d);
      }
      row[x] = std::fmax(1 - least, row[x]);
    }
  }
}

double signed_area(const PolygonD& p) {
  double area = 0;
  cv::Point2d q = p.back();
  for (const cv::Point2d& r : p) {
    area += r.x * q.y - r.y * q.x;
    q = r;
  }
  return area / 2;
}

void make_valid(std::vector<PolygonD>& polys, std::vector<uint8_t>& ignore, cv::Size size) {
  for (size_t i = 0; i < polys.size(); ++i) {
    for (cv::Point2d& p : polys[i]) {
      p.x = std::clamp<double>(p.x, 0, size.width - 1);
      p.y = std::clamp<double>(p.y, 0, size.height - 1);
    }
    const double area = signed_area(polys[i]);
    if (std::abs(area) < 1) ignore[i] = 1;
    if (area > 0) std::reverse(polys[i].begin(), polys[i].end());
  }
}

// The first of ratio, 2 ratio, ... below 1 that leaves one piece; else what the last one leaves.
std::vector<Contour> shrink(const PolygonD& polygon, double shrink_ratio) {
  std::vector<Contour> shrunk;
  const double area = ring_area(polygon), length = ring_length(polygon);
  const auto tries = static_cast<int>(std::ceil((1 - shrink_ratio) / shrink_ratio));
  for (int k = 0; k < tries; ++k) {
    const double ratio = shrink_ratio + k * shrink_ratio;
    shrunk = offset(polygon, -(area * (1 - std::pow(ratio, 2)) / length));
    if (shrunk.size() == 1) break;
  }
  return shrunk;
}

}  // namespace

TargetMap make_border_map(const std::vector<PolygonD>& polys, const std::vector<uint8_t>& ignore,
                          cv::Size size, double shrink_ratio, double thresh_min,
                          double thresh_max) {
  TargetMap out{cv::Mat::zeros(size, CV_32F), cv::Mat::zeros(size, CV_32F)};
  for (size_t i = 0; i < polys.size(); ++i)
    if (!ignore[i]) draw_border(polys[i], shrink_ratio, out);
  const auto range = static_cast<float>(thresh_max - thresh_min);
  const auto least = static_cast<float>(thresh_min);
  for (int y = 0; y < size.height; ++y) {
    float* row = out.map.ptr<float>(y);
    for (int x = 0; x < size.width; ++x) row[x] = row[x] * range + least;
  }
  return out;
}

TargetMap make_shrink_map(std::vector<PolygonD>& polys, std::vector<uint8_t>& ignore, cv::Size size,
                          double shrink_ratio, double min_text_size) {
  make_valid(polys, ignore, size);
  TargetMap out{cv::Mat::zeros(size, CV_32F), cv::Mat::ones(size, CV_32F)};
  for (size_t i = 0; i < polys.size(); ++i) {
    double x0 = polys[i][0].x, x1 = x0, y0 = polys[i][0].y, y1 = y0;
    for (const cv::Point2d& p : polys[i]) {
      x0 = std::min(x0, p.x), x1 = std::max(x1, p.x);
      y0 = std::min(y0, p.y), y1 = std::max(y1, p.y);
    }
    std::vector<Contour> shrunk;
    if (!ignore[i] && !(std::min(y1 - y0, x1 - x0) < min_text_size))
      shrunk = shrink(polys[i], shrink_ratio);
    if (shrunk.empty()) {
      fill(out.mask, whole_pixels(polys[i]), 0);
      ignore[i] = 1;
    }
    for (const Contour& c : shrunk) fill(out.map, c, 1);
  }
  return out;
}

double ramped_shrink_ratio(double ratio, int epoch, double total_epoch) {
  return total_epoch > 0 ? ratio + 0.2 * epoch / total_epoch : ratio;
}

}  // namespace ocr
