// Cuts text lines out of a page: perspective crops as PaddleOCR makes them, and the way back.
#pragma once
#include <opencv2/core.hpp>

#include "libocr/geometry/quad.h"

namespace ocr {

/// What a crop of `quad` looks like, without its pixels. A line that stands (height / width >= 1.5)
/// is turned a quarter counter-clockwise, so that `out_*` are the sides of the final image.
struct CropShape {
  Quad quad;
  int width = 0, height = 0;  // int(longest of the opposite sides), before the turn; at least 1
  bool turned = false;
  int out_width() const { return turned ? height : width; }
  int out_height() const { return turned ? width : height; }
};

/// Shape of the crop of a quad given as TL, TR, BR, BL. Throws train::ShapeError when a corner is
/// not finite or the crop would exceed 2^28 pixels. `turn_ratio` <= 0 never turns.
CropShape crop_shape(const Quad& quad, double turn_ratio = 1.5);
/// Shape for a polygon: the crop of its smallest enclosing rectangle (whole pixels).
CropShape crop_shape(const Polygon& polygon, double turn_ratio = 1.5);

/// Cuts the crop: corners map to (0,0)-(w,h), bicubic, border replicated. page: 8-bit, 1 or 3
/// channels. `out` is reallocated only when its size changes. Upright quads on whole pixels are
/// copied, which gives the same bytes. Safe from many threads.
void cut_crop(const cv::Mat& page, const CropShape& shape, cv::Mat* out);
inline cv::Mat cut_crop(const cv::Mat& page, const CropShape& shape) {
  cv::Mat out;
  cut_crop(page, shape, &out);
  return out;
}

/// Maps points of the final crop (after the turn and, where `flipped`, after a half turn by the
/// textline classifier) back to the page.
class CropMapper {
 public:
  explicit CropMapper(const CropShape& shape, bool flipped = false);
  Point2f to_page(Point2f p) const;
  /// The upright box [x0, x1] x [0, height) of the crop as a quad on the page, corners in the
  /// crop's reading order.
  Quad column_box(float x0, float x1) const;

 private:
  CropShape shape_;
  bool flipped_;
  cv::Matx33d to_page_;
};

}  // namespace ocr
