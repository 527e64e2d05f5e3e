// Labels of other tools and formats as PaddleOCR's lines, and what is made of such lines.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libocr/data/detection_label.h"
#include "libocr/data/skip.h"

namespace ocr {

/// A page or a line with its label, on the way to a label file.
struct LabelledImage {
  std::string path;
  std::string label;
};

/// ICDAR's gt_*.txt: x1,y1,...,x4,y4,text a line (or x1,y1,x2,y2,text), commas in the text allowed,
/// quotes around it taken off, a byte order mark too. Throws train::DataError naming file and line.
std::vector<TextBoxLabel> parse_icdar(std::string_view text, const std::string& name);
/// Text lines of an ALTO (`TextLine`, `String`) or PAGE (`TextLine`, `Coords`, `Unicode`) file.
/// Throws train::FormatError when it is neither.
std::vector<TextBoxLabel> parse_layout_xml(std::string_view text, const std::string& name);

/// The formats that `ocr data convert` reads.
enum class LabelFormat : uint8_t {
  kPpocrlabel,  // Label.txt or rec_gt.txt: made relative to the output
  kIcdar,       // a folder of gt_NAME.txt beside or apart from NAME.jpg
  kGtTxt,       // NAME.gt.txt with the text of NAME.png, ...
  kXml,         // NAME.xml in ALTO or PAGE
};

/// Reads `input` (a file, or a folder for formats with a file per picture); pictures are looked for
/// in `images`, or beside the labels when that is empty. Paths of the result are relative to
/// `base`. What cannot be read is in `skips`.
std::vector<LabelledImage> read_labels_of(LabelFormat format, const std::string& input,
                                          const std::string& images, const std::string& base,
                                          SkipReport& skips);

/// Whether a picture belongs to the part held back: crc32(key) % parts == 0, where the key is the
/// file name without folder, extension and `_crop_N`: lines of a page stay together.
bool held_back(std::string_view path, uint32_t parts);
std::string page_key(std::string_view path);
uint32_t crc32(std::string_view bytes);

}  // namespace ocr
