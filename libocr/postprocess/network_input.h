// Turns 8-bit BGR pixels into what a network eats: resized, normalised, float, channels last.
#pragma once
#include <array>
#include <cstdint>
#include <opencv2/core.hpp>

#include "libocr/postprocess/detection_resize.h"

namespace ocr {

/// Normalisation (v / 255 - mean) / std per channel as a table: with 8-bit pixels there are only
/// 256 results, each computed as upstream does.
class Normalizer {
 public:
  /// `mean` and `std` apply to channels 0, 1, 2 of the *output*; with `rgb` these are R, G, B.
  /// PaddleOCR's detectors apply the RGB numbers to BGR pixels: leave `rgb` off for them.
  Normalizer(const std::array<double, 3>& mean, const std::array<double, 3>& std, bool rgb = false);
  static const Normalizer& half();          // mean = std = 0.5: recognisers, RapidOCR's detector
  static const Normalizer& imagenet();      // detectors, BGR
  static const Normalizer& imagenet_rgb();  // PP-LCNet classifiers

  /// One row: pixel i goes to out[i * ld + 0..2]; channels 3..ld-1 are set to 0. ld >= 3.
  void write_row(const uint8_t* bgr, int64_t pixels, float* out, int64_t ld) const;

 private:
  std::array<std::array<float, 256>, 3> table_;  // by channel of the input (B, G, R)
  bool rgb_;
};

/// Resizes `image` (8UC3) to `width` x `height` by OpenCV's bilinear rule and writes its rows to
/// `out`, `row_stride` floats apart. Throws train::ShapeError for an image that is not 8UC3.
void write_resized(const cv::Mat& image, int height, int width, const Normalizer& normalizer,
                   float* out, int64_t row_stride, int64_t ld);

/// A page as the detector's input: out[(y * size.width + x) * ld + c], c < 3; padding of small
/// pages is black before normalisation, as upstream pads the image.
void write_detection_input(const cv::Mat& page, const DetectionSize& size,
                           const Normalizer& normalizer, float* out, int64_t ld);

/// RapidOCR's copy of a page: resized, framed by black rows. Boxes and crops are cut from it.
cv::Mat rapidocr_copy(const cv::Mat& page, const RapidPage& prepared);

}  // namespace ocr
