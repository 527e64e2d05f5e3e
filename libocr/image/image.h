// The image every stage passes on: 8-bit BGR, interleaved, rows without padding.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace ocr {

/// Allocator that leaves new elements uninitialised, so that a decoder's target is not written
/// twice.
template <class T>
struct UninitializedAllocator : std::allocator<T> {
  template <class U>
  struct rebind {
    using other = UninitializedAllocator<U>;
  };
  template <class U, class... A>
  void construct(U* p, A&&... a) {
    if constexpr (sizeof...(A) == 0)
      ::new (static_cast<void*>(p)) U;
    else
      ::new (static_cast<void*>(p)) U(std::forward<A>(a)...);
  }
};

/// Bytes that resize() does not fill with zeros.
using PixelBuffer = std::vector<uint8_t, UninitializedAllocator<uint8_t>>;

/// One colour in the channel order of Image.
struct Bgr {
  uint8_t b = 0, g = 0, r = 0;
  bool operator==(const Bgr&) const = default;
};

/// A rectangle of pixels owned by someone else; `stride` is the distance of two rows in bytes.
struct ImageView {
  const uint8_t* data = nullptr;
  int width = 0, height = 0;
  ptrdiff_t stride = 0;

  const uint8_t* row(int y) const { return data + y * stride; }
  bool empty() const { return width <= 0 || height <= 0; }
};

/// An image that owns its pixels: [height, width, 3] bytes in BGR order, row stride 3*width.
struct Image {
  int width = 0, height = 0;
  PixelBuffer pixels;

  Image() = default;
  /// Allocates without filling. Throws train::ShapeError for a negative side, std::bad_alloc if
  /// memory is short.
  Image(int width, int height);
  /// Allocates and fills with one colour.
  Image(int width, int height, Bgr fill);

  ptrdiff_t stride() const { return ptrdiff_t{3} * width; }
  bool empty() const { return pixels.empty(); }
  uint8_t* row(int y) { return pixels.data() + y * stride(); }
  const uint8_t* row(int y) const { return pixels.data() + y * stride(); }
  ImageView view() const { return {pixels.data(), width, height, stride()}; }
};

/// The part of `image` inside the rectangle, clipped to the image; shares its pixels.
ImageView crop_view(const ImageView& image, int x, int y, int width, int height);

/// A copy that owns its pixels.
Image copy_image(const ImageView& image);

/// Turns clockwise by 0, 90, 180 or 270 degrees; throws train::ShapeError for another angle.
Image rotate(const ImageView& image, int degrees_clockwise);

/// The turns and mirrors of the EXIF orientation tag (1 to 8) that bring a stored image upright.
/// Equal to what PIL's ImageOps.exif_transpose does.
bool orientation_swaps_sides(int orientation);
Image apply_orientation(Image&& image, int orientation);

/// Writes rows y0.. of an image of [source_height, source_width] in its stored orientation to their
/// upright place in `target`, whose sides must already be those of the upright image. `rows` holds
/// rows.height of them.
void copy_oriented(const ImageView& rows, int y0, int source_height, int orientation,
                   Image& target);

}  // namespace ocr
