#include "libocr/image/exif.h"

#include <cstring>

namespace ocr {
namespace {

// Bounds-checked integers in the byte order that the block states; 0 outside.
struct ExifBlock {
  const uint8_t* data;
  size_t size;
  bool little;

  bool has(size_t at, size_t n) const { return at <= size && n <= size - at; }
  uint32_t u16(size_t at) const {
    if (!has(at, 2)) return 0;
    return little ? data[at] | data[at + 1] << 8 : data[at] << 8 | data[at + 1];
  }
  uint32_t u32(size_t at) const {
    return little ? u16(at) | u16(at + 2) << 16 : u16(at) << 16 | u16(at + 2);
  }
};

constexpr uint32_t kTagOrientation = 0x0112, kTagXResolution = 0x011a, kTagResolutionUnit = 0x0128;
constexpr uint32_t kByte = 1, kShort = 3, kLong = 4, kRational = 5;

}  // namespace

ExifInfo parse_exif(const uint8_t* data, size_t size) {
  ExifInfo info;
  if (size >= 6 && std::memcmp(data, "Exif\0\0", 6) == 0) data += 6, size -= 6;
  if (size < 8) return info;
  const bool little = data[0] == 'I' && data[1] == 'I';
  if (!little && !(data[0] == 'M' && data[1] == 'M')) return info;
  const ExifBlock block{data, size, little};
  if (block.u16(2) != 42) return info;
  const size_t directory = block.u32(4);
  const uint32_t entries = block.u16(directory);
  double resolution = 0, per_unit = 1;
  for (uint32_t i = 0; i < entries; i++) {
    const size_t at = directory + 2 + size_t{12} * i;
    if (!block.has(at, 12)) break;
    const uint32_t tag = block.u16(at), type = block.u16(at + 2), count = block.u32(at + 4);
    if (count == 0) continue;
    const uint32_t value = type == kShort  ? block.u16(at + 8)
                           : type == kByte ? data[at + 8]
                           : type == kLong ? block.u32(at + 8)
                                           : 0;
    if (tag == kTagOrientation && value >= 1 && value <= 8)
      info.orientation = static_cast<int>(value);
    if (tag == kTagResolutionUnit && value == 3) per_unit = 2.54;
    if (tag == kTagXResolution && type == kRational) {
      const size_t where = block.u32(at + 8);
      const double denominator = block.u32(where + 4);
      if (denominator > 0) resolution = block.u32(where) / denominator;
    }
  }
  if (resolution >= 1 && resolution < 1e5) info.dpi = resolution * per_unit;
  return info;
}

}  // namespace ocr
