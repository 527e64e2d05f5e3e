// What the pipeline found on a page, in the pixel frame of the page as decoded (after EXIF).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "libocr/geometry/point.h"
#include "libocr/pipeline/options.h"

namespace ocr {

/// A word or a character of a line: its part of the line's box.
struct TextPart {
  std::string text;
  double score = 0;
  Quad box{};
  bool recovered = false;  // a space that the recogniser did not say itself (characters only)
};

struct TextLine {
  Polygon points;        // TL, TR, BR, BL in the reading direction of the page, or a polygon
  double det_score = 1;  // mean probability of the box
  std::string text;
  double score = 0;  // mean over the characters
  std::vector<TextPart> words, chars;
  int angle = 0;           // 180 when the classifier turned the line
  double angle_score = 0;  // its confidence; 0 when it was not asked
  bool vertical = false;   // the crop was turned a quarter to be read
};

/// One page, or one crop with task rec and cls.
struct PageResult {
  int index = 0;  // from 0
  int width = 0, height = 0;
  double dpi = 0;            // 0 when the file does not say
  int exif_orientation = 1;  // the mark in the file, honoured or not
  int rotation = 0;          // clockwise turn that brought the page upright: 0, 90, 180 or 270
  double rotation_score = 0;
  int tiles = 1;  // pieces that detection looked at
  double seconds = 0;
  std::vector<TextLine> lines;    // in reading order
  std::vector<Polygon> detected;  // all that the detector found, also where no line was kept
  std::vector<std::string> warnings;
};

/// A file with all its pages; `error` is not empty when it could not be read to its end.
struct DocumentResult {
  std::string path;
  int page_count = 1;  // of the file; `pages` may hold a selection
  std::vector<PageResult> pages;
  std::string error;
};

/// A model as it was loaded.
struct ModelNote {
  std::string kind, path, sha256;  // kind: det, rec, cls, doc
  std::string precision = "fp32";  // or bf16
};

/// What every output repeats about the run.
struct RunInfo {
  std::string version, isa;
  std::string task = "e2e";
  std::vector<ModelNote> models;
  std::vector<OptionText> settings;
};

}  // namespace ocr
