// How far a page may be shrunk for the detector: told by the letters that a look at a small copy
// finds.
#pragma once
#include <span>

#include "libocr/postprocess/db.h"
#include "libocr/postprocess/detection_resize.h"

namespace ocr {

/// Of the sides of the full input: the copy that is looked at first.
inline constexpr double kLookScale = 0.25;

/// `size` with the network's sides scaled, to multiples of 32, never below 32; 1 gives `size`.
DetectionSize scaled_size(const DetectionSize& size, double scale);

/// The scale, of the full input `size`, at which three of four lines are still high enough to be
/// found and kept apart as they are at full size: kLookScale (what the look found stands) to 1.
/// `boxes`: what a look at scaled_size(size, kLookScale) found, in page pixels. 1 where that is too
/// little to go by, or where the page would hardly become smaller.
double sufficient_scale(std::span<const Detection> boxes, const DetectionSize& size);

}  // namespace ocr
