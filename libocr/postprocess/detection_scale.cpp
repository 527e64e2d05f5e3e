#include "libocr/postprocess/detection_scale.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "libocr/geometry/quad.h"

namespace ocr {
namespace {

// Measured on receipts, forms, reports and book pages (docs/performance.md). Heights are those of
// boxes, so about 1.4 times those of capitals, in pixels of the network's input.
constexpr double kHeight = 29;
constexpr double kQuantile = 0.25;  // of the lines' heights
constexpr size_t kFewest = 4;       // lines that say something about a page
constexpr double kMost = 0.75;      // above this the full size costs little more

}  // namespace

DetectionSize scaled_size(const DetectionSize& size, double scale) {
  if (scale == 1) return size;
  const auto side = [scale](int full) {
    return std::max(32, static_cast<int>(std::lround(full * scale / 32)) * 32);
  };
  DetectionSize out = size;
  out.height = side(size.height);
  out.width = side(size.width);
  out.ratio_h = static_cast<double>(out.height) / size.padded_height;
  out.ratio_w = static_cast<double>(out.width) / size.padded_width;
  return out;
}

double sufficient_scale(std::span<const Detection> boxes, const DetectionSize& size) {
  if (boxes.size() < kFewest) return 1;
  std::vector<float> heights;
  for (const Detection& d : boxes) heights.push_back(min_area_rect(d.points).short_side);
  const auto at =
      heights.begin() + static_cast<int64_t>(kQuantile * static_cast<double>(heights.size()));
  std::nth_element(heights.begin(), at, heights.end());
  const double height = *at * std::sqrt(size.ratio_h * size.ratio_w);
  if (!(height > 0)) return 1;
  const double scale = kHeight / height;
  return scale > kMost ? 1 : std::max(scale, kLookScale);
}

}  // namespace ocr
