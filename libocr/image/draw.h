// Annotated pictures: boxes over the page, and beside it a panel with the text in its place.
#pragma once
#include <string>
#include <vector>

#include "libocr/image/font.h"
#include "libocr/image/image.h"

namespace ocr {

/// In pixels; pixel (0, 0) covers 0 to 1, so its centre is (0.5, 0.5).
struct DrawPoint {
  double x = 0, y = 0;
};

/// Anti-aliased lines through the points, clipped to the image. Points that are not finite are not
/// drawn.
void draw_polyline(Image& image, const std::vector<DrawPoint>& points, bool closed, Bgr colour,
                   double thickness);

/// Fills the inside (even-odd rule) with `colour` at `opacity` 0 to 1, clipped to the image.
void fill_polygon(Image& image, const std::vector<DrawPoint>& points, Bgr colour, double opacity);

/// One recognised line.
struct AnnotatedBox {
  std::vector<DrawPoint>
      points;  // clockwise from the top left in reading direction; 4, or an outline of more
  std::u32string text;  // empty where there is only a box
};

struct AnnotateOptions {
  int max_side = 4096;     // larger pages are shrunk so far; 0: never
  bool text_panel = true;  // white panel of the same size to the right, with each text in its box
};

/// The page with its boxes in distinct colours (the same on every run), the text beside it, as
/// PaddleOCR's draw_ocr shows them: text is as high as its box, smaller where it would be longer
/// than it; boxes over twice as high as wide get their text turned clockwise.
Image annotate(const ImageView& page, const std::vector<AnnotatedBox>& boxes, FontSet& fonts,
               const AnnotateOptions& options = {});

/// Draws one text into the quadrilateral (4 points, clockwise from the top left), scaled to fit.
void draw_text_in_box(Image& image, const std::vector<DrawPoint>& quad, std::u32string_view text,
                      FontSet& fonts, Bgr colour);

/// Shrinks by averaging so that no side exceeds `max_side`; a copy if none does.
Image shrink_to(const ImageView& image, int max_side);

}  // namespace ocr
