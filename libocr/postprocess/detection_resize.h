// The size at which a page enters the detector: every rule of PaddleOCR, and RapidOCR's own.
#pragma once
#include <span>

#include "libocr/geometry/point.h"

namespace ocr {

enum class LimitType {
  kMin,         // enlarge until the shorter side has limit_side_len
  kMax,         // shrink until the longer side has it
  kResizeLong,  // scale either way until the longer side has it
};

enum class DetectionResizeKind {
  kLimit,          // `limit_side_len` + `limit_type`, sides rounded to 32
  kResizeLong128,  // the separate key `resize_long`: longer side scaled, sides up to 128
  kImageShape,     // `image_shape`, with or without `keep_ratio`
};

struct DetectionResizeOptions {
  DetectionResizeKind kind = DetectionResizeKind::kLimit;
  LimitType limit_type = LimitType::kMin;
  int limit_side_len = 736;
  int max_side_limit = 4000;  // of the longer side after the limit; 0: none
  int resize_long = 960;
  int image_height = 736, image_width = 1280;
  bool keep_ratio = false;
  bool pad_small = true;  // h + w < 64: zero-pad each side to 32 first

  static DetectionResizeOptions ppocr2();    // 960 max
  static DetectionResizeOptions ppocr3();    // 64 min, capped at 4000
  static DetectionResizeOptions rapidocr();  // 736 min, no cap, no padding
};

struct DetectionSize {
  int height = 0, width = 0;                // of the network's input
  int padded_height = 0, padded_width = 0;  // of the page with its padding: what the map shows
  double ratio_h = 1, ratio_w = 1;          // input size / padded size
};

/// Sides are cut to whole pixels, then rounded to a multiple of 32, half to even (Python's round),
/// never below 32. Throws train::ShapeError when a side is not positive, beyond 2^24, or would be
/// scaled beyond that; train::ConfigError for a limit that is not positive.
DetectionSize detection_size(int height, int width, const DetectionResizeOptions& options);

/// RapidOCR's preparation of a page before detection: the page is resized into [min_side, max_side]
/// and, when flat, framed by black above and below. Boxes are found and crops cut in that copy.
struct RapidPage {
  int height = 0, width = 0;        // after the resize; equal to the page's when none is needed
  int pad = 0;                      // rows added above, and again below
  double ratio_h = 1, ratio_w = 1;  // factors back to the page (of the last resize only, as there)
};
struct RapidPageOptions {
  int min_side = 30, max_side = 2000;
  int min_height = 30;
  double width_height_ratio = 8;  // -1: flat pages are framed by height alone
};
/// Throws train::ShapeError for pages that RapidOCR itself refuses (a side would round to 0).
RapidPage rapidocr_page(int height, int width, const RapidPageOptions& options = {});
/// Points of the framed copy back to a page of `width` x `height`, clamped to [0, width] x
/// [0, height].
void rapidocr_to_page(std::span<Point2f> points, const RapidPage& page, int height, int width);

}  // namespace ocr
