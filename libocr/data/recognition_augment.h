// Augmentation of text lines: PaddleOCR's RecAug (geometric distortion by moving least squares,
// then crop, blur, colour, jitter, noise, reversal), lines joined end to end, and RandAugment.
#pragma once
#include "libocr/data/random.h"
#include "libocr/data/sample.h"

namespace ocr {

/// Warps so that `to` points of the result show the `from` points of the source, by moving least
/// squares (Schaefer et al., 2006) on a grid of 100 pixels with bilinear steps between.
cv::Mat warp_mls(const cv::Mat& image, const std::vector<cv::Point2d>& from,
                 const std::vector<cv::Point2d>& to);
cv::Mat tia_distort(const cv::Mat& image, int segments, Random& random);
cv::Mat tia_stretch(const cv::Mat& image, int segments, Random& random);
cv::Mat tia_perspective(const cv::Mat& image, Random& random);

struct BaseAugmentOptions {
  double crop_prob = 0.4, reverse_prob = 0.4, noise_prob = 0.4, jitter_prob = 0.4, blur_prob = 0.4,
         hsv_aug_prob = 0.4;
};
void base_augment(cv::Mat& image, const BaseAugmentOptions& options, Random& random);

struct RandAugmentOptions {
  double prob = 0.5;
  int num_layers = 2;
  double magnitude = 5;  // of 10
};
void rand_augment(cv::Mat& image, const RandAugmentOptions& options, Random& random);
/// The operations that it draws from, by upstream's names.
enum class RandOp {
  kShearX,
  kShearY,
  kTranslateX,
  kTranslateY,
  kRotate,
  kColor,
  kPosterize,
  kSolarize,
  kContrast,
  kSharpness,
  kBrightness,
  kAutocontrast,
  kEqualize,
  kInvert
};
constexpr int kRandOps = 14;
/// One operation; `sign` is 1 or -1.
cv::Mat rand_op(const cv::Mat& image, RandOp op, double magnitude, int sign);

/// Puts `other` behind the line: both at height `height`, labels joined.
void join_lines(Sample& s, const Sample& other, int height);

/// resize_norm_img: height H; the width keeps the aspect up to W and is filled with zeros (after
/// normalisation: mid-grey), or is W when `padding` is off; (v / 255 - .5) / .5.
struct LineShape {
  int height = 48, width = 320;
};
void resize_line(Sample& s, LineShape shape, bool padding);
/// resize_norm_img_chinese: as above, but a longer line gets the width that it needs.
void resize_line_freely(Sample& s, LineShape shape);

}  // namespace ocr
