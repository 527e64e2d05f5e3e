#include "libocr/image/decoder.h"

#include "libtrain/core/error.h"

namespace ocr {

bool AlphaStats::prefers_black() const {
  constexpr int kLight = 128;  // RapidOCR's rule, so that both see the same page
  return transparent && visible > 0 && luma_sum >= int64_t{1000} * kLight * visible;
}

void Decoder::fail(const std::string& message) const {
  throw train::FormatError(name_ + ": " + message);
}

void Decoder::fail_truncated() const { fail("is truncated: the file ends inside the image data"); }

void Decoder::check_limits(int64_t width, int64_t height, int64_t extra_bytes) const {
  if (width <= 0 || height <= 0)
    fail(train::cat("has no pixels: its size is ", width, " x ", height));
  if (width > options_.max_side || height > options_.max_side)
    fail(train::cat("is ", width, " x ", height, " pixels; the limit of a side is ",
                    options_.max_side));
  if (width * height > options_.max_pixels)
    fail(train::cat("is ", width, " x ", height, " pixels; the limit is ", options_.max_pixels,
                    " pixels in all (max_pixels)"));
  check_memory(width, height, extra_bytes, "decoding");
}

void Decoder::check_memory(int64_t width, int64_t height, int64_t extra_bytes,
                           const char* what) const {
  const int64_t image = 3 * width * height;
  if (extra_bytes > options_.max_memory || image > options_.max_memory - extra_bytes)
    fail(train::cat("is ", width, " x ", height, " pixels and ", what, " needs ",
                    (image + extra_bytes) >> 20, " MiB; the limit is ", options_.max_memory >> 20,
                    " MiB (max_memory)"));
}

PageInfo Decoder::make_info(int64_t width, int64_t height, int orientation, double dpi) const {
  PageInfo info;
  info.orientation = orientation;
  info.oriented = options_.exif_orientation && orientation > 1;
  const bool swap = info.oriented && orientation_swaps_sides(orientation);
  info.width = static_cast<int>(swap ? height : width);
  info.height = static_cast<int>(swap ? width : height);
  info.dpi = dpi;
  return info;
}

RowWriter::RowWriter(Image& target, int width, int height, int orientation, int band_rows)
    : target_(target),
      width_(width),
      height_(height),
      orientation_(orientation < 2 || orientation > 8 ? 1 : orientation),
      band_rows_(std::min(band_rows, height)),
      banded_(orientation_ != 1 && orientation_ != 4) {
  const bool swap = orientation_swaps_sides(orientation_);
  target = swap ? Image(height, width) : Image(width, height);
  if (banded_)
    band_.resize(size_t{3} * static_cast<size_t>(width) * static_cast<size_t>(band_rows_));
}

int64_t RowWriter::band_bytes(int width, int orientation, int band_rows) {
  return orientation <= 1 || orientation == 4 ? 0 : int64_t{3} * width * band_rows;
}

uint8_t* RowWriter::row(int y) {
  if (!banded_) return target_.row(orientation_ == 4 ? height_ - 1 - y : y);
  if (y >= band_start_ + band_rows_) {
    flush();
    band_start_ = y - y % band_rows_;
  }
  filled_ = std::max(filled_, y - band_start_ + 1);
  return band_.data() + ptrdiff_t{3} * width_ * (y - band_start_);
}

void RowWriter::flush() {
  if (filled_ > 0)
    copy_oriented({band_.data(), width_, filled_, ptrdiff_t{3} * width_}, band_start_, height_,
                  orientation_, target_);
  filled_ = 0;
}

void RowWriter::finish() {
  if (banded_) flush();
}

void composite_row(const uint8_t* bgra, uint8_t* bgr, int n, Bgr background, AlphaStats* stats) {
  const int bg[3] = {background.b, background.g, background.r};
  int64_t visible = 0, luma_sum = 0, opaque = 0;
  for (int i = 0; i < n; i++) {
    const int c[3] = {bgra[4 * i], bgra[4 * i + 1], bgra[4 * i + 2]};
    const int a = bgra[4 * i + 3];
    opaque += a == 255;
    visible += a > 0;
    if (a > 0) luma_sum += 114 * c[0] + 587 * c[1] + 299 * c[2];
    for (int k = 0; k < 3; k++)
      bgr[3 * i + k] = static_cast<uint8_t>((c[k] * a + bg[k] * (255 - a) + 127) / 255);
  }
  if (!stats) return;
  stats->visible += visible, stats->luma_sum += luma_sum;
  stats->transparent = stats->transparent || opaque < n;
}

void cmyk_row(const uint8_t* cmyk, uint8_t* bgr, int n, bool inverted) {
  const uint8_t flip = inverted ? 255 : 0;
  for (int i = 0; i < n; i++) {
    const int light = 255 - (cmyk[4 * i + 3] ^ flip);
    for (int k = 0; k < 3; k++) {
      const int product = (cmyk[4 * i + k] ^ flip) * light + 128;
      bgr[3 * i + 2 - k] = static_cast<uint8_t>(light - ((product + (product >> 8)) >> 8));
    }
  }
}

}  // namespace ocr
