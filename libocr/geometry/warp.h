// Perspective warp of 8-bit BGR images, bicubic, with exact positions.
#pragma once
#include <opencv2/core.hpp>

namespace ocr {

/// out(x, y) = page(to_page * (x, y, 1)), border replicated: cubic convolution (a = -0.75) at the
/// exact position, rounded to nearest. OpenCV 5 and builds with Intel's primitives give these bytes
/// (but for one pixel in 5,000, off by one); older OpenCV rounds positions to 1/32 pixel first,
/// which moves bytes by up to 4 and the recognisers' text in one line of a hundred. page: 8UC3.
/// `out` is reallocated only when its size changes and must not share memory with `page`.
void warp_bicubic(const cv::Mat& page, const cv::Matx33d& to_page, cv::Size size, cv::Mat* out);

}  // namespace ocr
