// Fuzzer: any bytes as a label file, as the label of a page and as a text to encode are lines,
// boxes and classes within their bounds, or a train::Error.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "libocr/data/convert.h"
#include "libocr/data/detection_label.h"
#include "libocr/data/label_encode.h"
#include "libocr/data/label_file.h"
#include "libtrain/core/error.h"

namespace {

void page(std::string_view label) {
  try {
    const auto boxes = ocr::parse_detection_label(label);
    for (const ocr::TextBoxLabel& b : boxes)
      if (b.points.size() < 3) std::abort();
    if (ocr::parse_detection_label(ocr::write_detection_label(boxes)).size() != boxes.size())
      std::abort();
  } catch (const train::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  static const ocr::TextEncoder encoder = ocr::TextEncoder::from_settings("", false, 25);
  for (const bool sizes : {false, true}) {
    const ocr::LabelFile file = ocr::parse_label_file(text, "fuzz", {"\t", sizes});
    for (const ocr::LabelLine& line : file.lines) {
      if (ocr::label_paths(line.path).empty()) std::abort();
      page(line.label);
      try {
        const ocr::EncodedText t = encoder.encode(line.label, "fuzz", line.line);
        for (const int64_t id : encoder.ctc(t))
          if (id < 0 || id >= encoder.classes(ocr::GuideHead::kNone)) std::abort();
        for (const int64_t id : encoder.guide(t, ocr::GuideHead::kSar))
          if (id < 0 || id > encoder.classes(ocr::GuideHead::kSar)) std::abort();
      } catch (const ocr::SkippedSample&) {
      }
    }
  }
  page(text);
  for (const auto parse : {ocr::parse_icdar, ocr::parse_layout_xml}) {
    try {
      for (const ocr::TextBoxLabel& b : parse(text, "fuzz"))
        if (b.points.size() < 3) std::abort();
    } catch (const train::Error&) {
    }
  }
  return 0;
}
