// From the samples of a TIFF (1 to 16 bits; grey, palette, RGB, CMYK; alpha) to BGR. Internal.
#pragma once
#include <cstdint>

#include "libocr/image/decoder.h"

namespace ocr {

enum class TiffAlpha { kNone, kStraight, kPremultiplied };

/// The tags of one TIFF directory that say how its samples are stored.
struct TiffLayout {
  int width = 0, height = 0;
  int bits = 1, samples = 1;
  uint16_t photometric = 0, compression = 1, sample_format = 1, ink_set = 1;
  bool separate = false, tiled = false;
  TiffAlpha alpha = TiffAlpha::kNone;
  const uint16_t *red = nullptr, *green = nullptr,
                 *blue = nullptr;  // [1 << bits], 16-bit, owned by libtiff

  /// How often the image is stored: once, or once per sample.
  int planes() const { return separate && samples > 1 ? samples : 1; }
};

/// Converts rows in two steps: unpack() each plane to 8-bit samples, then convert() those to BGR.
class TiffPixels {
 public:
  TiffPixels(const TiffLayout& layout, Bgr background, AlphaStats* stats);
  /// Whether this class knows the layout.
  bool supported() const;
  /// Bytes of a stored row of `width` pixels of one plane.
  int64_t row_bytes(int64_t width) const;
  /// Bytes of a row of 8-bit samples.
  int64_t scratch_bytes(int64_t width) const { return width * layout_.samples; }
  /// Brings `width` pixels of plane `plane` to 8 bits a sample (palette indices as they are) in
  /// scratch[width, samples].
  void unpack(const uint8_t* row, int width, int plane, uint8_t* scratch) const;
  /// scratch[width, samples] -> bgr[width, 3]. Changes the scratch.
  void convert(uint8_t* scratch, uint8_t* bgr, int width) const;

 private:
  void convert_alpha(uint8_t* scratch, uint8_t* bgr, int width, int colours) const;

  TiffLayout layout_;
  Bgr background_;
  AlphaStats* stats_;
  Bgr palette_[256] = {};
};

}  // namespace ocr
