// PaddleOCR's label files: `path<TAB>label`, one sample a line.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libocr/data/skip.h"

namespace ocr {

/// One line. The views live as long as the LabelFile.
struct LabelLine {
  std::string_view path;   // as written; a JSON list of paths is one sample with several pictures
  std::string_view label;  // spaces at its ends are kept
  long line = 0;           // from 1
  double aspect = 0;       // width / height where the file has these columns (ds_width), else 0
};

struct LabelFileOptions {
  std::string delimiter = "\t";
  bool sizes = false;  // two more columns, width and height
};

/// The lines of a file. A byte order mark and the CR of line ends are taken off; blank lines are no
/// samples; a line that is none for another reason is in `skips`.
struct LabelFile {
  std::string name;
  std::shared_ptr<const std::string> text;
  std::vector<LabelLine> lines;
  SkipReport skips;
};

/// Throws train::FormatError when the file cannot be read or is larger than 4 GB.
LabelFile read_label_file(const std::string& path, const LabelFileOptions& options = {});
LabelFile parse_label_file(std::string text, const std::string& name,
                           const LabelFileOptions& options = {});

/// The pictures of a line: its path, or the entries of a JSON list. A text that begins with '[' and
/// is no list of strings is a path.
std::vector<std::string> label_paths(std::string_view path);

/// Which of `count` lines a file with `ratio` < 1 contributes in an epoch: round(count * ratio) of
/// them, half to even, in ascending order, drawn by (seed, epoch, file) alone.
std::vector<int64_t> draw_lines(int64_t count, double ratio, uint64_t seed, int epoch, int file);

}  // namespace ocr
