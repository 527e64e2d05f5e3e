// Differentiable Binarization: from a detector's probability map to text boxes (Liao et al., 2020),
// step by step as PaddleOCR's DBPostProcess does it.
#pragma once
#include <cstdint>
#include <vector>

#include "libocr/geometry/quad.h"

namespace ocr {

enum class ScoreMode {
  kFast,  // mean probability inside the smallest rectangle
  kSlow,  // inside the contour itself
};
enum class BoxType { kQuad, kPoly };

struct DbOptions {
  float thresh = 0.3f;        // a pixel is text above this probability
  double box_thresh = 0.6;    // a box needs at least this mean probability
  int max_candidates = 1000;  // contours looked at, holes included
  double unclip_ratio = 1.5;  // grows a box by area * ratio / perimeter
  bool use_dilation = false;  // dilate the text mask by 2 x 2 first
  ScoreMode score_mode = ScoreMode::kFast;
  BoxType box_type = BoxType::kQuad;
  int min_size = 3;  // least short side on the map; 2 more after growing
  CornerOrder corner_order = CornerOrder::kSumDiff;
  bool drop_small = true;  // drop quads whose int(width) or int(height) on the page is <= 3

  static DbOptions rapidocr();  // 0.3 / 0.5 / 1.6, dilated, corners by x
};

struct Detection {
  Polygon points;    // quad: TL, TR, BR, BL; whole pixels of the page
  double score = 0;  // mean probability in [0, 1]
};

struct DbReport {
  int64_t contours = 0;
  /// Contours beyond max_candidates: when not 0, a part of the page was not read.
  int64_t cut_candidates = 0;
};

/// A probability map in memory: pixel (y, x) at data[y * row_stride + x * pixel_stride].
struct MapView {
  const float* data = nullptr;
  int height = 0, width = 0;
  int64_t row_stride = 0, pixel_stride = 1;
};

/// Boxes on the page of `src_width` x `src_height` pixels that the whole map shows, in the order of
/// OpenCV's contours. Points are rounded half to even and clipped to the page. NaN is no text.
/// Throws train::ShapeError for empty or oversized maps. `report` may be null.
std::vector<Detection> db_postprocess(const MapView& map, int src_height, int src_width,
                                      const DbOptions& options, DbReport* report = nullptr);

/// The same for a dense map with row stride `ld`.
inline std::vector<Detection> db_postprocess(const float* map, int64_t ld, int h, int w, int src_h,
                                             int src_w, const DbOptions& options,
                                             DbReport* report = nullptr) {
  return db_postprocess(MapView{map, h, w, ld, 1}, src_h, src_w, options, report);
}

}  // namespace ocr
