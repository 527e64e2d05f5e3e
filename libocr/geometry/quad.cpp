#include "libocr/geometry/quad.h"

#include <algorithm>
#include <clipper.hpp>
#include <cmath>
#include <opencv2/imgproc.hpp>

#include "libtrain/core/error.h"

namespace ocr {
namespace {

double cross(Point2f o, Point2f a, Point2f b) {
  return (static_cast<double>(a.x) - o.x) * (static_cast<double>(b.y) - o.y) -
         (static_cast<double>(a.y) - o.y) * (static_cast<double>(b.x) - o.x);
}

bool all_finite(std::span<const Point2f> points) {
  return std::all_of(points.begin(), points.end(), [](Point2f p) {
    return std::isfinite(p.x) && std::isfinite(p.y) && std::abs(p.x) < 1e7f && std::abs(p.y) < 1e7f;
  });
}

struct PointD {
  double x, y;
};

double area_of(const std::vector<PointD>& p) {
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const PointD &a = p[i], &b = p[(i + 1) % p.size()];
    sum += a.x * b.y - b.x * a.y;
  }
  return std::abs(sum) / 2;
}

// Sutherland-Hodgman: `subject` cut by the half planes of the convex polygon `clip`.
std::vector<PointD> clip_convex(std::span<const Point2f> subject, std::span<const Point2f> clip) {
  std::vector<PointD> in, out;
  // Coordinates relative to one corner keep the products small.
  const Point2f origin = clip[0];
  const auto relative = [origin](Point2f p) {
    return PointD{static_cast<double>(p.x) - origin.x, static_cast<double>(p.y) - origin.y};
  };
  for (Point2f p : subject) out.push_back(relative(p));
  const double sign = signed_area(clip) >= 0 ? 1 : -1;
  for (size_t e = 0; e < clip.size() && !out.empty(); ++e) {
    const PointD a = relative(clip[e]), b = relative(clip[(e + 1) % clip.size()]);
    const auto side = [&](PointD p) {
      return sign * ((b.x - a.x) * (p.y - a.y) - (b.y - a.y) * (p.x - a.x));
    };
    in.swap(out);
    out.clear();
    for (size_t i = 0; i < in.size(); ++i) {
      const PointD p = in[i], q = in[(i + 1) % in.size()];
      const double sp = side(p), sq = side(q);
      if (sp >= 0) out.push_back(p);
      if ((sp > 0 && sq < 0) || (sp < 0 && sq > 0)) {
        const double t = sp / (sp - sq);
        out.push_back({p.x + t * (q.x - p.x), p.y + t * (q.y - p.y)});
      }
    }
  }
  return out;
}

constexpr double kGrid = 256;  // integer steps per pixel inside Clipper

ClipperLib::Path to_path(std::span<const Point2f> polygon) {
  ClipperLib::Path path;
  path.reserve(polygon.size());
  for (Point2f p : polygon) {
    path.emplace_back(std::llround(p.x * kGrid), std::llround(p.y * kGrid));
  }
  return path;
}

ClipperLib::Paths combine(ClipperLib::ClipType kind, std::span<const Point2f> a,
                          std::span<const Point2f> b) {
  ClipperLib::Clipper clipper;
  clipper.AddPath(to_path(a), ClipperLib::ptSubject, true);
  clipper.AddPath(to_path(b), ClipperLib::ptClip, true);
  ClipperLib::Paths out;
  clipper.Execute(kind, out, ClipperLib::pftNonZero, ClipperLib::pftNonZero);
  return out;
}

// Corner order of DB post-processing: by x, then each pair by y.
Quad db_corners(const cv::RotatedRect& rect) {
  cv::Point2f raw[4];
  rect.points(raw);
  std::stable_sort(raw, raw + 4, [](cv::Point2f a, cv::Point2f b) { return a.x < b.x; });
  const bool left_down = raw[1].y > raw[0].y, right_down = raw[3].y > raw[2].y;
  const auto at = [&raw](int i) { return Point2f{raw[i].x, raw[i].y}; };
  return {at(left_down ? 0 : 1), at(right_down ? 2 : 3), at(right_down ? 3 : 2),
          at(left_down ? 1 : 0)};
}

RotatedRect to_rect(const cv::RotatedRect& rect) {
  return {db_corners(rect), std::min(rect.size.width, rect.size.height),
          std::max(rect.size.width, rect.size.height)};
}

}  // namespace

Quad order_points_clockwise(const Quad& points, CornerOrder order) {
  Quad p = points;
  if (order == CornerOrder::kSortX) {
    const auto by_y = [](Point2f a, Point2f b) { return a.y < b.y; };
    std::stable_sort(p.begin(), p.end(), [](Point2f a, Point2f b) { return a.x < b.x; });
    std::stable_sort(p.begin(), p.begin() + 2, by_y);
    std::stable_sort(p.begin() + 2, p.end(), by_y);
    return {p[0], p[2], p[3], p[1]};
  }
  const auto sum = [](Point2f a) { return a.x + a.y; };
  size_t first = 0, last = 0;
  for (size_t i = 1; i < 4; ++i) {
    if (sum(p[i]) < sum(p[first])) first = i;
    if (sum(p[i]) > sum(p[last])) last = i;
  }
  if (first == last) return p;  // all sums equal: nothing tells the corners apart
  Point2f rest[2];
  size_t n = 0;
  for (size_t i = 0; i < 4; ++i) {
    if (i != first && i != last) rest[n++] = p[i];
  }
  const bool swap = rest[1].y - rest[1].x < rest[0].y - rest[0].x;
  return {p[first], rest[swap ? 1 : 0], p[last], rest[swap ? 0 : 1]};
}

float corner_distance(Point2f a, Point2f b) {
  const float dx = a.x - b.x, dy = a.y - b.y;
  const float xx = dx * dx, yy = dy * dy;
  return std::sqrt(static_cast<float>(static_cast<double>(xx) + static_cast<double>(yy)));
}

Bounds bounds_of(std::span<const Point2f> points) {
  if (points.empty()) return {};
  Bounds b{points[0].x, points[0].y, points[0].x, points[0].y};
  for (Point2f p : points) {
    b.x0 = std::min(b.x0, p.x);
    b.y0 = std::min(b.y0, p.y);
    b.x1 = std::max(b.x1, p.x);
    b.y1 = std::max(b.y1, p.y);
  }
  return b;
}

double signed_area(std::span<const Point2f> p) {
  double sum = 0;
  for (size_t i = 1; i + 1 < p.size(); ++i) sum += cross(p[0], p[i], p[i + 1]);
  return sum / 2;
}

double polygon_area(std::span<const Point2f> polygon) { return std::abs(signed_area(polygon)); }

double polygon_perimeter(std::span<const Point2f> p) {
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const Point2f a = p[i], b = p[(i + 1) % p.size()];
    const double dx = static_cast<double>(b.x) - a.x, dy = static_cast<double>(b.y) - a.y;
    sum += std::sqrt(dx * dx + dy * dy);
  }
  return sum;
}

bool is_convex(std::span<const Point2f> p) {
  // Turns of one sign alone would accept a star; its x direction changes more than twice.
  if (p.size() < 3) return false;
  double sign = 0;
  int changes = 0;
  float direction = 0, first_direction = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const Point2f b = p[(i + 1) % p.size()], c = p[(i + 2) % p.size()];
    const double turn = cross(p[i], b, c);
    if (turn != 0) {
      if (sign * turn < 0) return false;
      sign = turn;
    }
    const float step = b.x - p[i].x;
    if (step != 0) {
      if (direction == 0) first_direction = step;
      if (direction * step < 0) ++changes;
      direction = step;
    }
  }
  if (direction * first_direction < 0) ++changes;
  return sign != 0 && changes <= 2;
}

RotatedRect min_area_rect(std::span<const Point2f> points) {
  if (points.empty() || !all_finite(points)) return {};
  std::vector<cv::Point2f> p;
  p.reserve(points.size());
  for (Point2f q : points) p.emplace_back(q.x, q.y);
  return to_rect(cv::minAreaRect(p));
}

RotatedRect min_area_rect_int(std::span<const Point2f> points) {
  if (points.empty() || !all_finite(points)) return {};
  std::vector<cv::Point> p;
  p.reserve(points.size());
  for (Point2f q : points) p.emplace_back(static_cast<int>(q.x), static_cast<int>(q.y));
  return to_rect(cv::minAreaRect(p));
}

double intersection_area(std::span<const Point2f> a, std::span<const Point2f> b) {
  if (a.size() < 3 || b.size() < 3 || !all_finite(a) || !all_finite(b)) return 0;
  const Bounds p = bounds_of(a), q = bounds_of(b);
  if (p.x1 <= q.x0 || q.x1 <= p.x0 || p.y1 <= q.y0 || q.y1 <= p.y0) return 0;
  if (is_convex(a) && is_convex(b)) {
    // Rounding depends on who is cut: a fixed choice makes the result symmetric.
    const bool swap = std::lexicographical_compare(
        b.begin(), b.end(), a.begin(), a.end(),
        [](Point2f s, Point2f t) { return s.x != t.x ? s.x < t.x : s.y < t.y; });
    return swap ? area_of(clip_convex(b, a)) : area_of(clip_convex(a, b));
  }
  double sum = 0;
  for (const ClipperLib::Path& path : combine(ClipperLib::ctIntersection, a, b)) {
    sum += ClipperLib::Area(path);  // holes count negative
  }
  return std::abs(sum) / (kGrid * kGrid);
}

double polygon_iou(std::span<const Point2f> a, std::span<const Point2f> b) {
  const double shared = intersection_area(a, b);
  if (shared <= 0) return 0;
  const double joined = polygon_area(a) + polygon_area(b) - shared;
  return joined <= 0 ? 0 : std::min(1.0, shared / joined);
}

Polygon polygon_union(std::span<const Point2f> a, std::span<const Point2f> b) {
  Polygon largest = polygon_area(a) >= polygon_area(b) ? Polygon(a.begin(), a.end())
                                                       : Polygon(b.begin(), b.end());
  if (a.size() < 3 || b.size() < 3 || !all_finite(a) || !all_finite(b)) return largest;
  double best = polygon_area(largest);
  for (const ClipperLib::Path& path : combine(ClipperLib::ctUnion, a, b)) {
    const double area = ClipperLib::Area(path) / (kGrid * kGrid);
    if (area <= best) continue;
    best = area;
    largest.clear();
    for (const ClipperLib::IntPoint& p : path) {
      largest.push_back({static_cast<float>(static_cast<double>(p.X) / kGrid),
                         static_cast<float>(static_cast<double>(p.Y) / kGrid)});
    }
  }
  return largest;
}

Point2f unrotate_point(Point2f p, int degrees, int width, int height) {
  const float right = static_cast<float>(width - 1), bottom = static_cast<float>(height - 1);
  switch (degrees) {
    case 0:
      return p;
    case 90:
      return {p.y, bottom - p.x};
    case 180:
      return {right - p.x, bottom - p.y};
    case 270:
      return {right - p.y, p.x};
    default:
      throw train::ShapeError(
          train::cat("a page is turned by 0, 90, 180 or 270 degrees, not by ", degrees));
  }
}

void unrotate_points(std::span<Point2f> points, int degrees, int width, int height) {
  for (Point2f& p : points) p = unrotate_point(p, degrees, width, height);
}

}  // namespace ocr
