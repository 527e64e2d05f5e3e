// Perspective warp of 8-bit BGR images, bicubic: the bytes of OpenCV's, several times as fast.
#pragma once
#include <opencv2/core.hpp>

namespace ocr {

/// out(x, y) = page(to_page * (x, y, 1)), border replicated: what cv::warpPerspective gives with
/// INTER_CUBIC | WARP_INVERSE_MAP and BORDER_REPLICATE, byte for byte (OpenCV 4.6; other versions
/// may round otherwise). page: 8UC3 with sides below 32767. `out` is reallocated only when its size
/// changes and must not share memory with `page`.
void warp_bicubic(const cv::Mat& page, const cv::Matx33d& to_page, cv::Size size, cv::Mat* out);

}  // namespace ocr
