#include "libocr/image/image.h"

#include <algorithm>
#include <cstring>

#include "libtrain/core/error.h"

namespace ocr {
namespace {

size_t byte_count(int width, int height) {
  if (width < 0 || height < 0)
    throw train::ShapeError(train::cat("an image cannot be ", width, " x ", height, " pixels"));
  return size_t{3} * static_cast<size_t>(width) * static_cast<size_t>(height);
}

// Where source pixel (x, y) lands: origin + x*dx + y*dy bytes.
struct Placement {
  ptrdiff_t origin, dx, dy;
};

Placement placement(int orientation, int width, int height) {
  const ptrdiff_t w = width, h = height;
  const ptrdiff_t row = 3 * (orientation_swaps_sides(orientation) ? h : w);
  const ptrdiff_t right = 3 * (w - 1), bottom = row * (h - 1);                // sides kept
  const ptrdiff_t turned_right = 3 * (h - 1), turned_bottom = row * (w - 1);  // sides swapped
  switch (orientation) {
    case 2:
      return {right, -3, row};
    case 3:
      return {right + bottom, -3, -row};
    case 4:
      return {bottom, 3, -row};
    case 5:
      return {0, row, 3};
    case 6:
      return {turned_right, row, -3};
    case 7:
      return {turned_right + turned_bottom, -row, -3};
    case 8:
      return {turned_bottom, -row, 3};
    default:
      return {0, 3, row};
  }
}

}  // namespace

Image::Image(int width, int height)
    : width(width), height(height), pixels(byte_count(width, height)) {}

Image::Image(int width, int height, Bgr fill) : Image(width, height) {
  if (empty()) return;
  for (int x = 0; x < width; x++) {
    uint8_t* p = row(0) + ptrdiff_t{3} * x;
    p[0] = fill.b, p[1] = fill.g, p[2] = fill.r;
  }
  for (int y = 1; y < height; y++) std::memcpy(row(y), row(0), static_cast<size_t>(stride()));
}

ImageView crop_view(const ImageView& image, int x, int y, int width, int height) {
  const int64_t x0 = std::clamp<int64_t>(x, 0, image.width);
  const int64_t y0 = std::clamp<int64_t>(y, 0, image.height);
  const int64_t x1 = std::clamp<int64_t>(int64_t{x} + width, x0, image.width);
  const int64_t y1 = std::clamp<int64_t>(int64_t{y} + height, y0, image.height);
  return {image.data + y0 * image.stride + 3 * x0, static_cast<int>(x1 - x0),
          static_cast<int>(y1 - y0), image.stride};
}

Image copy_image(const ImageView& image) {
  Image out(image.width, image.height);
  for (int y = 0; y < image.height; y++)
    if (image.width > 0)
      std::memcpy(out.row(y), image.row(y), 3 * static_cast<size_t>(image.width));
  return out;
}

bool orientation_swaps_sides(int orientation) { return orientation >= 5 && orientation <= 8; }

void copy_oriented(const ImageView& rows, int y0, int source_height, int orientation,
                   Image& target) {
  const Placement p = placement(orientation, rows.width, source_height);
  uint8_t* base = target.pixels.data() + p.origin + y0 * p.dy;
  if (p.dx == 3) {
    for (int y = 0; y < rows.height; y++)
      std::memcpy(base + y * p.dy, rows.row(y), 3 * static_cast<size_t>(rows.width));
    return;
  }
  auto copy_pixel = [&](int x, int y) {
    const uint8_t* from = rows.row(y) + ptrdiff_t{3} * x;
    uint8_t* to = base + x * p.dx + y * p.dy;
    to[0] = from[0], to[1] = from[1], to[2] = from[2];
  };
  if (!orientation_swaps_sides(orientation)) {
    for (int y = 0; y < rows.height; y++)
      for (int x = 0; x < rows.width; x++) copy_pixel(x, y);
    return;
  }
  // Transposing in stripes of rows keeps both the reads and the writes within a few cache lines.
  constexpr int kStripe = 32;
  for (int top = 0; top < rows.height; top += kStripe) {
    const int bottom = std::min(rows.height, top + kStripe);
    for (int x = 0; x < rows.width; x++)
      for (int y = top; y < bottom; y++) copy_pixel(x, y);
  }
}

Image apply_orientation(Image&& image, int orientation) {
  if (orientation < 2 || orientation > 8) return std::move(image);
  const bool swap = orientation_swaps_sides(orientation);
  Image out(swap ? image.height : image.width, swap ? image.width : image.height);
  copy_oriented(image.view(), 0, image.height, orientation, out);
  return out;
}

Image rotate(const ImageView& image, int degrees_clockwise) {
  const int orientation = degrees_clockwise == 90    ? 6
                          : degrees_clockwise == 180 ? 3
                          : degrees_clockwise == 270 ? 8
                                                     : 1;
  if (orientation == 1) {
    if (degrees_clockwise != 0)
      throw train::ShapeError(
          train::cat("cannot turn an image by ", degrees_clockwise, " degrees"));
    return copy_image(image);
  }
  const bool swap = orientation_swaps_sides(orientation);
  Image out(swap ? image.height : image.width, swap ? image.width : image.height);
  copy_oriented(image, 0, image.height, orientation, out);
  return out;
}

}  // namespace ocr
