#include "libocr/image/tiff_pixels.h"

#include <tiffio.h>

#include <cstring>

namespace ocr {

TiffPixels::TiffPixels(const TiffLayout& layout, Bgr background, AlphaStats* stats)
    : layout_(layout), background_(background), stats_(stats) {
  if (layout.photometric != PHOTOMETRIC_PALETTE || layout.bits > 8 || !layout.red) return;
  const int colours = 1 << layout.bits;
  // Old writers stored 8-bit values in the 16-bit table.
  bool small = true;
  for (int i = 0; i < colours; i++)
    small = small && layout.red[i] < 256 && layout.green[i] < 256 && layout.blue[i] < 256;
  auto channel = [&](uint16_t v) { return small ? static_cast<uint8_t>(v) : to_8bit(v); };
  for (int i = 0; i < colours; i++)
    palette_[i] = {channel(layout.blue[i]), channel(layout.green[i]), channel(layout.red[i])};
}

bool TiffPixels::supported() const {
  const int b = layout_.bits;
  if (layout_.compression == COMPRESSION_OJPEG) return false;
  if (layout_.sample_format != SAMPLEFORMAT_UINT && layout_.sample_format != SAMPLEFORMAT_VOID)
    return false;
  if (b != 1 && b != 2 && b != 4 && b != 8 && b != 16) return false;
  if (layout_.samples < 1 || layout_.samples > 16) return false;
  switch (layout_.photometric) {
    case PHOTOMETRIC_MINISWHITE:
    case PHOTOMETRIC_MINISBLACK:
      return true;
    case PHOTOMETRIC_PALETTE:
      return b <= 8;
    case PHOTOMETRIC_RGB:
      return b >= 8 && layout_.samples >= 3;
    case PHOTOMETRIC_SEPARATED:
      return b >= 8 && layout_.samples >= 4 && layout_.ink_set == INKSET_CMYK;
    default:
      return false;
  }
}

int64_t TiffPixels::row_bytes(int64_t width) const {
  const int64_t samples = layout_.planes() > 1 ? 1 : layout_.samples;
  return (width * samples * layout_.bits + 7) / 8;
}

void TiffPixels::unpack(const uint8_t* row, int width, int plane, uint8_t* scratch) const {
  const bool separate = layout_.planes() > 1;
  const ptrdiff_t step = separate ? layout_.samples : 1;
  const ptrdiff_t count = ptrdiff_t{width} * (separate ? 1 : layout_.samples);
  uint8_t* to = scratch + (separate ? plane : 0);
  if (layout_.bits == 16) {
    for (ptrdiff_t i = 0; i < count; i++) {
      uint16_t v;
      std::memcpy(&v, row + 2 * i, 2);
      to[i * step] = to_8bit(v);
    }
  } else if (layout_.bits == 8) {
    if (step == 1)
      std::memcpy(to, row, static_cast<size_t>(count));
    else
      for (ptrdiff_t i = 0; i < count; i++) to[i * step] = row[i];
  } else {
    const int per_byte = 8 / layout_.bits, top = (1 << layout_.bits) - 1;
    const int scale = layout_.photometric == PHOTOMETRIC_PALETTE ? 1 : 255 / top;
    for (ptrdiff_t i = 0; i < count; i++) {
      const int shift = static_cast<int>(per_byte - 1 - i % per_byte) * layout_.bits;
      to[i * step] = static_cast<uint8_t>((row[i / per_byte] >> shift & top) * scale);
    }
  }
}

void TiffPixels::convert(uint8_t* scratch, uint8_t* bgr, int width) const {
  const int n = layout_.samples;
  const bool ink = layout_.photometric == PHOTOMETRIC_SEPARATED,
             rgb = layout_.photometric == PHOTOMETRIC_RGB;
  const int colours = ink ? 4 : rgb ? 3 : 1;
  if (ink && n == 4) return cmyk_row(scratch, bgr, width, false);
  if (layout_.photometric == PHOTOMETRIC_MINISWHITE)
    for (ptrdiff_t i = 0; i < ptrdiff_t{width} * n; i += n)
      scratch[i] = static_cast<uint8_t>(255 - scratch[i]);
  if (layout_.alpha != TiffAlpha::kNone && n > colours && !ink)
    return convert_alpha(scratch, bgr, width, colours);
  for (int x = 0; x < width; x++) {
    const uint8_t* from = scratch + ptrdiff_t{n} * x;
    uint8_t* to = bgr + ptrdiff_t{3} * x;
    if (ink) {
      cmyk_row(from, to, 1, false);
    } else if (rgb) {
      to[0] = from[2], to[1] = from[1], to[2] = from[0];
    } else if (layout_.photometric == PHOTOMETRIC_PALETTE) {
      const Bgr c = palette_[from[0]];
      to[0] = c.b, to[1] = c.g, to[2] = c.r;
    } else {
      to[0] = to[1] = to[2] = from[0];
    }
  }
}

void TiffPixels::convert_alpha(uint8_t* scratch, uint8_t* bgr, int width, int colours) const {
  for (int x = 0; x < width; x++) {
    const uint8_t* from = scratch + ptrdiff_t{layout_.samples} * x;
    uint8_t bgra[4] = {from[0], from[0], from[0], from[colours]};
    if (colours == 3) bgra[0] = from[2], bgra[1] = from[1], bgra[2] = from[0];
    if (layout_.photometric == PHOTOMETRIC_PALETTE) {
      const Bgr c = palette_[from[0]];
      bgra[0] = c.b, bgra[1] = c.g, bgra[2] = c.r;
    } else if (layout_.alpha == TiffAlpha::kPremultiplied && bgra[3] > 0) {
      for (int k = 0; k < 3; k++)
        bgra[k] = static_cast<uint8_t>(std::min(255, (bgra[k] * 255 + bgra[3] / 2) / bgra[3]));
    }
    composite_row(bgra, bgr + ptrdiff_t{3} * x, 1, background_, stats_);
  }
}

}  // namespace ocr
