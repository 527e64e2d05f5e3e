// Writing images: PNG and JPEG, to memory or atomically to a file.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "libocr/image/image.h"

namespace ocr {

struct EncodeOptions {
  int jpeg_quality = 92;  // 1 to 100
  int png_compression =
      1;           // zlib level, 0 to 9: 1 is several times faster than 6 and little larger
  double dpi = 0;  // stored where it is not 0
};

/// Writes PNG or JPEG as the extension of `path` says (.png, .jpg, .jpeg; any case). The file
/// appears complete or not at all. Throws train::ConfigError for another extension,
/// train::FormatError for an image that the format cannot hold (no pixels, a JPEG side over
/// 65,500), train::DeviceError when writing fails (disk full).
void write_image(const std::string& path, const ImageView& image,
                 const EncodeOptions& options = {});

/// The same in memory.
std::vector<uint8_t> encode_png(const ImageView& image, const EncodeOptions& options = {});
std::vector<uint8_t> encode_jpeg(const ImageView& image, const EncodeOptions& options = {});

}  // namespace ocr
