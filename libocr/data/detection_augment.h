// Augmentation of pages with boxes: flips, turns, scales, crops around texts, texts pasted from
// other pages.
#pragma once
#include "libocr/data/random.h"
#include "libocr/data/sample.h"

namespace ocr {

/// Applies the affine map of pixels (2 x 3) to picture and boxes; black outside.
void affine(Sample& s, const cv::Matx23d& map, cv::Size size);
void flip_horizontally(Sample& s);
void flip_vertically(Sample& s);
/// Scales both sides by `factor`, sides cut to whole pixels.
void scale(Sample& s, double factor);

/// Turns by `degrees` clockwise about the centre; `fit` grows the picture to hold all of it.
void turn(Sample& s, double degrees, double factor, bool fit);

struct CropOptions {
  cv::Size size{640, 640};
  int max_tries = 10;
  double min_crop_side_ratio = 0.1;
  bool keep_ratio = true;
};
/// EastRandomCropData: a rectangle whose sides cut no text and that holds or touches one, resized
/// to `size` (filled with black to the right and below when the aspect is kept). Texts outside go.
void random_crop(Sample& s, const CropOptions& options, Random& random);
/// The rectangle alone; the whole page when `max_tries` find none.
cv::Rect choose_crop(cv::Size page, const std::vector<PolygonD>& texts, const CropOptions& options,
                     Random& random);

/// CopyPaste: texts of s.extra[0], each turned by any angle, are pasted where they cover no other.
void copy_paste(Sample& s, double objects_paste_ratio, bool limit_paste, Random& random);

/// Brightness, contrast, saturation and hue, in random order, as paddle.vision's ColorJitter
/// changes them. Channels are taken as they lie, as upstream hands BGR to a function that expects
/// RGB.
struct ColorJitterOptions {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;
};
void color_jitter(cv::Mat& image, const ColorJitterOptions& options, Random& random);

}  // namespace ocr
