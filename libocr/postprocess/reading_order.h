// Orders text boxes as a person reads them, and as PaddleOCR and RapidOCR do.
#pragma once
#include <span>
#include <vector>

#include "libocr/geometry/point.h"

namespace ocr {

/// The inner loops of PaddleOCR's sorted_boxes: down to the first box, or stopping short of it.
enum class BubbleVariant { kFull, kShort };

/// Each function returns indices into `boxes`: a permutation, the same for the same input. Boxes
/// are quads (TL, TR, BR, BL) or polygons; only the first corner counts for the two peers' orders.

/// PaddleOCR 2.x: by (y, x), then neighbours less than 10 rows apart swap by x.
std::vector<int> order_paddle(std::span<const Polygon> boxes,
                              BubbleVariant variant = BubbleVariant::kFull);
/// RapidOCR 3.10: rows are chains of boxes less than 10 rows apart; by x within a row.
std::vector<int> order_rapidocr(std::span<const Polygon> boxes);

enum class WritingDirection {
  kAuto,        // vertical when standing boxes dominate
  kHorizontal,  // lines from left to right, then down
  kVertical,    // lines downwards, then from right to left (Chinese, Japanese)
};

struct ReadingOrderOptions {
  WritingDirection direction = WritingDirection::kAuto;
  double min_gutter = 1.0;    // least white between text columns, in line heights
  double min_line_ratio = 7;  // lines of a text column are this much longer than high
  double min_fill = 0.6;      // and cover this part of their column's width (medians)
  int min_lines = 3;          // and there are this many in each column
};

/// Columns, then lines, then along the line. A page is split at white gutters wherever both sides
/// look like running text, so that tables and forms are read by rows; titles across columns come in
/// their place. A slight slant of the page (up to 15 degrees) is taken out first.
std::vector<int> reading_order(std::span<const Polygon> boxes,
                               const ReadingOrderOptions& options = {});

}  // namespace ocr
