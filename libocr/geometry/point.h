// Points, quads and polygons in pixel coordinates: x to the right, y down.
#pragma once
#include <array>
#include <vector>

namespace ocr {

struct Point2f {
  float x = 0, y = 0;
  friend bool operator==(const Point2f&, const Point2f&) = default;
};

/// Four corners, clockwise on the screen from the top left: TL, TR, BR, BL in reading direction.
using Quad = std::array<Point2f, 4>;
using Polygon = std::vector<Point2f>;

}  // namespace ocr
