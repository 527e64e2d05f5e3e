#include "libocr/image/image.h"

#include "libtrain/core/error.h"
#include "tests/image/test_images.h"

namespace ocr {
namespace {

// Pixel (x, y) of `image` upright, from the definition of the EXIF tag.
Bgr upright_pixel(const Image& image, int orientation, int x, int y) {
  const int w = image.width - 1, h = image.height - 1;
  switch (orientation) {
    case 2:
      return pixel(image, w - x, y);
    case 3:
      return pixel(image, w - x, h - y);
    case 4:
      return pixel(image, x, h - y);
    case 5:
      return pixel(image, y, x);
    case 6:
      return pixel(image, y, h - x);
    case 7:
      return pixel(image, w - y, h - x);
    case 8:
      return pixel(image, w - y, x);
    default:
      return pixel(image, x, y);
  }
}

TEST(Image, OrientationPutsEachPixelInPlace) {
  const Image image = noisy_image(71, 45);  // over one stripe of the transposition on both sides
  for (int orientation = 1; orientation <= 8; orientation++) {
    const Image turned = apply_orientation(copy_image(image.view()), orientation);
    ASSERT_EQ(turned.width, orientation >= 5 ? 45 : 71);
    ASSERT_EQ(turned.height, orientation >= 5 ? 71 : 45);
    for (int y = 0; y < turned.height; y++)
      for (int x = 0; x < turned.width; x++)
        ASSERT_EQ(pixel(turned, x, y), upright_pixel(image, orientation, x, y)) << orientation;
  }
}

TEST(Image, RotationsAreClockwiseAndUndoEachOther) {
  const Image image = noisy_image(5, 3);
  const Image right = rotate(image.view(), 90);
  EXPECT_EQ(pixel(right, 2, 0), pixel(image, 0, 0));
  EXPECT_EQ(rotate(right.view(), 270).pixels, image.pixels);
  EXPECT_EQ(rotate(rotate(image.view(), 180).view(), 180).pixels, image.pixels);
  EXPECT_EQ(rotate(image.view(), 0).pixels, image.pixels);
  EXPECT_THROW(rotate(image.view(), 45), train::ShapeError);
}

TEST(Image, CropIsClippedAndSharesPixels) {
  const Image image = noisy_image(10, 8);
  const ImageView part = crop_view(image.view(), 7, -2, 100, 5);
  EXPECT_EQ(part.width, 3);
  EXPECT_EQ(part.height, 3);
  EXPECT_EQ(part.data, image.row(0) + 21);
  EXPECT_TRUE(crop_view(image.view(), 20, 20, 5, 5).empty());
  EXPECT_TRUE(crop_view(image.view(), 2, 2, -5, 5).empty());
  EXPECT_EQ(pixel(copy_image(part), 2, 2), pixel(image, 9, 2));
}

TEST(Image, RejectsNegativeSides) { EXPECT_THROW(Image(-1, 5), train::ShapeError); }

TEST(Image, FillsWithAColour) {
  const Image image(4, 3, Bgr{1, 2, 3});
  EXPECT_EQ(pixel(image, 3, 2), (Bgr{1, 2, 3}));
}

}  // namespace
}  // namespace ocr
