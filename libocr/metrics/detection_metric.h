// How well text was found: PaddleOCR's DetMetric (the ICDAR 2015 protocol by IoU), and end to end,
// where a box counts only when its text was read.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "libocr/geometry/quad.h"

namespace ocr {

struct PageText {
  Polygon points;
  std::string text;
  bool ignore = false;  // of targets: `###` and `*`
};

struct PrecisionRecall {
  int64_t targets = 0, found = 0, matched = 0;
  double precision() const;
  double recall() const;
  double hmean() const;
};

struct PageDetection {
  std::string name;
  PrecisionRecall counts;
};

/// Greedy matching: of targets and boxes in order, the first pair with IoU > 0.5 (not equal) is
/// taken. Boxes more than half on an ignored target do not count, nor do polygons that cross
/// themselves, on either side. Sums over pages (micro average).
class DetectionMetric {
 public:
  PageDetection add(const std::string& name, const std::vector<PageText>& targets,
                    const std::vector<Polygon>& boxes);
  const PrecisionRecall& total() const { return total_; }
  /// Recall of targets by height (short side).
  const std::map<std::string, PrecisionRecall>& by_height() const { return by_height_; }
  /// Pages with the lowest hmean first.
  std::vector<PageDetection> worst(size_t count) const;
  std::string json() const;
  std::string text() const;

 private:
  PrecisionRecall total_;
  std::map<std::string, PrecisionRecall> by_height_;
  std::vector<PageDetection> pages_;
};

/// The same matching; a match counts when the texts are equal. Also the text of pages: edits per
/// character over matched pairs, with unmatched targets lost and unmatched boxes added, and the F1
/// of the bags of words.
class EndToEndMetric {
 public:
  explicit EndToEndMetric(bool fold_case) : fold_(fold_case) {}
  void add(const std::vector<PageText>& targets, const std::vector<PageText>& read);
  const PrecisionRecall& lines() const { return lines_; }
  const PrecisionRecall& words() const { return words_; }
  double cer() const;
  std::string json() const;
  std::string text() const;

 private:
  bool fold_;
  PrecisionRecall lines_, words_;
  int64_t characters_ = 0, edits_ = 0;
};

/// Whether the outline crosses or touches itself, or has no area.
bool is_simple_polygon(const Polygon& polygon);

}  // namespace ocr
