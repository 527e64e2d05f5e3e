// The two things wanted of EXIF: which way is up, and the resolution.
#pragma once
#include <cstddef>
#include <cstdint>

namespace ocr {

struct ExifInfo {
  int orientation = 1;  // 1 to 8; 1 where the tag is missing or absurd
  double dpi = 0;       // 0 where not stated
};

/// Reads the first directory of an EXIF block: a TIFF header, with or without "Exif\0\0" before it.
/// Never fails: what does not parse counts as absent.
ExifInfo parse_exif(const uint8_t* data, size_t size);

}  // namespace ocr
