// What the readers of single formats share: limits, oriented row output, compositing, sample
// conversion. Internal.
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "libocr/image/byte_source.h"
#include "libocr/image/decode.h"

namespace ocr {

/// Brightness of what is visible in an image with alpha; decides Background::kAutomatic.
struct AlphaStats {
  int64_t visible = 0, luma_sum = 0;  // pixels with alpha > 0; their brightness times 1000
  bool transparent = false;           // whether any pixel is less than opaque
  bool prefers_black() const;
};

/// One format's reader. `background` is the colour under transparent pixels.
class Decoder {
 public:
  Decoder(std::shared_ptr<ByteSource> source, std::string name, DecodeOptions options)
      : source_(std::move(source)), name_(std::move(name)), options_(std::move(options)) {}
  virtual ~Decoder() = default;
  virtual int page_count() { return 1; }
  virtual PageInfo info(int page) = 0;
  virtual Page read(int page, Bgr background, AlphaStats* alpha) = 0;
  const DecodeOptions& options() const { return options_; }

 protected:
  /// Throws train::FormatError naming the file.
  [[noreturn]] void fail(const std::string& message) const;
  [[noreturn]] void fail_truncated() const;
  /// Throws unless the sides are positive and within the limits and image plus `extra_bytes` fit
  /// the budget.
  void check_limits(int64_t width, int64_t height, int64_t extra_bytes = 0) const;
  /// Throws unless image plus `extra_bytes` fit the memory budget; `what` explains the extra bytes.
  void check_memory(int64_t width, int64_t height, int64_t extra_bytes, const char* what) const;
  /// Page info for a stored size, with the sides swapped where the orientation is applied.
  PageInfo make_info(int64_t width, int64_t height, int orientation, double dpi) const;

  std::shared_ptr<ByteSource> source_;
  std::string name_;
  DecodeOptions options_;
};

/// Takes the rows of a stored image in order (or in any order where !banded()) and puts them
/// upright into the target.
class RowWriter {
 public:
  /// Allocates `target` for a stored [height, width] image. Rows are flushed in bands of
  /// `band_rows`.
  RowWriter(Image& target, int width, int height, int orientation, int band_rows = 32);
  /// Where to write the 3*width bytes of stored row y; valid until a row of a later band is asked
  /// for.
  uint8_t* row(int y);
  /// Call after the last row.
  void finish();
  bool banded() const { return banded_; }
  static int64_t band_bytes(int width, int orientation, int band_rows);

 private:
  void flush();
  Image& target_;
  int width_, height_, orientation_, band_rows_;
  bool banded_;
  int band_start_ = 0, filled_ = 0;
  PixelBuffer band_;
};

/// Lays `n` BGRA pixels (alpha not premultiplied) on `background`: (c*a + bg*(255-a)) / 255,
/// rounded. In place is fine.
void composite_row(const uint8_t* bgra, uint8_t* bgr, int n, Bgr background, AlphaStats* stats);

/// CMYK ink (0 = none) to BGR as PIL converts it: (255-k) - (255-k)*ink/255, rounded.
void cmyk_row(const uint8_t* cmyk, uint8_t* bgr, int n, bool inverted);

/// 16-bit sample to 8 bits, rounded to nearest.
inline uint8_t to_8bit(uint32_t v) { return static_cast<uint8_t>((v * 255 + 32767) / 65535); }

std::unique_ptr<Decoder> make_jpeg(std::shared_ptr<ByteSource>, const std::string&,
                                   const DecodeOptions&);
std::unique_ptr<Decoder> make_png(std::shared_ptr<ByteSource>, const std::string&,
                                  const DecodeOptions&);
std::unique_ptr<Decoder> make_bmp(std::shared_ptr<ByteSource>, const std::string&,
                                  const DecodeOptions&);
std::unique_ptr<Decoder> make_webp(std::shared_ptr<ByteSource>, const std::string&,
                                   const DecodeOptions&);
std::unique_ptr<Decoder> make_tiff(std::shared_ptr<ByteSource>, const std::string&,
                                   const DecodeOptions&);
std::unique_ptr<Decoder> make_pnm(std::shared_ptr<ByteSource>, const std::string&,
                                  const DecodeOptions&);
std::unique_ptr<Decoder> make_gif(std::shared_ptr<ByteSource>, const std::string&,
                                  const DecodeOptions&);
std::unique_ptr<Decoder> make_pdf(std::shared_ptr<ByteSource>, const std::string&,
                                  const DecodeOptions&, const std::string& path);

}  // namespace ocr
