// The label of a page: boxes with their text, as PaddleOCR and PPOCRLabel write them in JSON.
#pragma once
#include <opencv2/core/types.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ocr {

using PolygonD = std::vector<cv::Point2d>;

struct TextBoxLabel {
  std::string text;
  PolygonD points;  // pixels of the page
  bool ignore() const { return text == "###" || text == "*"; }
};

/// Reads `[{"transcription": "...", "points": [[x, y], ...]}, ...]`. Other fields, `difficult` too,
/// are not looked at. Throws train::FormatError that says which box is wrong and why.
std::vector<TextBoxLabel> parse_detection_label(std::string_view json);
/// One line of JSON; whole coordinates are written as whole numbers.
std::string write_detection_label(const std::vector<TextBoxLabel>& boxes);

}  // namespace ocr
