// Pictures for a person: augmented samples with their targets, boxes on pages.
#pragma once
#include <vector>

#include "libocr/data/sample.h"
#include "libocr/geometry/point.h"
#include "libocr/image/image.h"

namespace ocr {

/// A sample as the network sees it, with its boxes (ignored ones red) and, beside it, shrink map
/// and mask, threshold map and mask.
cv::Mat show_sample(const Sample& sample);

struct Outline {
  Polygon points;
  Bgr colour;
};
/// The page with outlines, reduced to `longest` pixels.
cv::Mat draw_outlines(const cv::Mat& page, const std::vector<Outline>& outlines, int longest);

/// A line as PaddleOCR's RecResizeImg squashes it: wider ones are brought to width x height, others
/// stay as they are unless `all`.
cv::Mat squash_line(const cv::Mat& line, int width, int height, bool all);

}  // namespace ocr
