// An image of the project as an OpenCV matrix, without a copy.
#pragma once
#include <opencv2/core.hpp>

#include "libocr/image/image.h"

namespace ocr {

/// A matrix header over the pixels of `image` (8UC3), which must outlive it. OpenCV has no constant
/// matrices: treat the result as one, as all functions here do with their inputs.
inline cv::Mat as_mat(const ImageView& image) {
  if (image.empty()) return {};
  return cv::Mat(image.height, image.width, CV_8UC3, const_cast<uint8_t*>(image.data),
                 static_cast<size_t>(image.stride));
}
inline cv::Mat as_mat(const Image& image) { return as_mat(image.view()); }

}  // namespace ocr
