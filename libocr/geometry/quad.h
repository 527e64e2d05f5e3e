// Quads and polygons: corner order, areas, overlap, the smallest enclosing rectangle, page turns.
#pragma once
#include <span>

#include "libocr/geometry/point.h"

namespace ocr {

/// The two ways PaddleOCR's versions name the corners of a box; they differ for steep boxes only.
enum class CornerOrder {
  kSortX,    // left pair and right pair by x, each by y: early 2.x and RapidOCR
  kSumDiff,  // TL = least x + y, BR = most; of the others TR = least y - x: later 2.x
};

/// The corners as TL, TR, BR, BL. Equal keys keep their order of appearance.
Quad order_points_clockwise(const Quad& points, CornerOrder order);

/// Euclidean distance, with the sum of squares rounded to single precision: the value upstream's
/// float32 arrays give, which decides sizes at the truncation to int.
float corner_distance(Point2f a, Point2f b);

struct Bounds {
  float x0 = 0, y0 = 0, x1 = 0, y1 = 0;
  float width() const { return x1 - x0; }
  float height() const { return y1 - y0; }
};
/// Smallest upright rectangle; all zero for no points.
Bounds bounds_of(std::span<const Point2f> points);

/// Shoelace area, positive for corners in clockwise screen order.
double signed_area(std::span<const Point2f> polygon);
double polygon_area(std::span<const Point2f> polygon);
double polygon_perimeter(std::span<const Point2f> polygon);
bool is_convex(std::span<const Point2f> polygon);

/// Smallest rotated rectangle around points. `corners` start at the upper of the two leftmost ones,
/// as DB post-processing orders them; width and height are the sides of the rectangle.
struct RotatedRect {
  Quad corners;
  float short_side = 0, long_side = 0;
};
RotatedRect min_area_rect(std::span<const Point2f> points);
/// The same with points cut to whole pixels first, the input that upstream's poly mode has.
RotatedRect min_area_rect_int(std::span<const Point2f> points);

/// Area of the intersection of two simple polygons in any orientation. Convex pairs are clipped
/// exactly; others on a grid of 1/256 pixel. 0 for degenerate or non-finite input.
double intersection_area(std::span<const Point2f> a, std::span<const Point2f> b);
/// Intersection over union; 0 when either is degenerate. Symmetric.
double polygon_iou(std::span<const Point2f> a, std::span<const Point2f> b);
/// Outline of the union of two overlapping polygons without holes; the larger of the two when they
/// do not overlap.
Polygon polygon_union(std::span<const Point2f> a, std::span<const Point2f> b);

/// Pixel coordinates in a page that was turned clockwise by `degrees` (0, 90, 180 or 270) back to
/// the page as it was, `width` x `height` before the turn. Throws train::ShapeError for other
/// angles.
Point2f unrotate_point(Point2f p, int degrees, int width, int height);
void unrotate_points(std::span<Point2f> points, int degrees, int width, int height);

}  // namespace ocr
