// Fuzzer: any bytes as an image are pixels of the size announced, within the limits, or a
// train::Error. PDF is left out: what runs there is poppler, which is fuzzed at home.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "libocr/image/decode.h"
#include "libtrain/core/error.h"

namespace {

void decode(const uint8_t* data, size_t size, const ocr::DecodeOptions& options) {
  ocr::Document document =
      ocr::open_document(std::vector<uint8_t>(data, data + size), "fuzz", options);
  for (int i = 0; i < std::min(document.page_count(), 3); i++) {
    try {
      const ocr::PageInfo info = document.page_info(i);
      const ocr::Page page = document.read_page(i);
      const int64_t pixels = int64_t{page.image.width} * page.image.height;
      if (page.image.width != info.width || page.image.height != info.height) std::abort();
      if (pixels <= 0 || pixels > options.max_pixels) std::abort();
      if (page.image.pixels.size() != static_cast<size_t>(3 * pixels)) std::abort();
      // A pixel that nobody wrote would differ.
      if (document.read_page(i).image.pixels != page.image.pixels) std::abort();
    } catch (const train::Error&) {
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto format = ocr::sniff_format(data, std::min<size_t>(size, 1024));
  if (!format || *format == ocr::ImageFormat::kPdf) return 0;
  ocr::DecodeOptions options;
  options.max_pixels = 1 << 18;
  options.max_memory = 16 << 20;
  options.max_side = 1 << 14;
  options.max_pages = 100;
  // The last byte chooses the options, so that they are reproduced with the input.
  options.exif_orientation = (data[size - 1] & 1) == 0;
  options.background = data[size - 1] & 2 ? ocr::Background::kAutomatic : ocr::Background::kColour;
  options.scale_denom = data[size - 1] & 4 ? 2 : 1;
  try {
    decode(data, size, options);
  } catch (const train::Error&) {
  }
  return 0;
}
