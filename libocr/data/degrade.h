// Clean pages and lines made to look scanned, copied or photographed, so that what is trained on
// rendered documents reads real ones.
#pragma once
#include <opencv2/core.hpp>

#include "libocr/data/detection_label.h"
#include "libocr/data/random.h"

namespace ocr {

/// A degraded picture and how points of the clean one move.
struct Degraded {
  cv::Mat image;                         // 8UC3 BGR, as large as the clean one
  cv::Matx33d map = cv::Matx33d::eye();  // of homogeneous pixel coordinates
  int jpeg_quality = 92;                 // at which it is to be stored
};

/// Draws, in the order in which they befall paper: faded ink, tinted and unevenly lit paper, a
/// slight turn and perspective, a coarser resolution, blur, noise of the sensor, sometimes grey or
/// black and white, and the quality of the JPEG file. `strength` 1 is an ordinary office scan or
/// phone picture, 0 changes nothing but the file; text of 20 pixels stays legible up to 1.5. A long
/// line is turned less than a page, so that its ends stay in the picture.
Degraded degrade(const cv::Mat& image, double strength, Random& random);

/// The boxes where the degraded picture shows them, inside it, in whole pixels.
std::vector<TextBoxLabel> moved(std::vector<TextBoxLabel> boxes, const Degraded& picture);

}  // namespace ocr
