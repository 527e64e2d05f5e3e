// The maps that a DB detector learns (Liao et al., 2020): shrunk text regions, and borders for the
// threshold. Equal to PaddleOCR's MakeShrinkMap and MakeBorderMap.
#pragma once
#include <opencv2/core.hpp>
#include <vector>

#include "libocr/data/detection_label.h"

namespace ocr {

struct TargetMap {
  cv::Mat map, mask;  // 32F [height, width]
};

/// Threshold targets: `thresh_max` on the outline of each text, falling to `thresh_min` at the
/// distance by which the region is shrunk and grown; the mask covers the grown texts. Texts to be
/// ignored are left out.
TargetMap make_border_map(const std::vector<PolygonD>& polys, const std::vector<uint8_t>& ignore,
                          cv::Size size, double shrink_ratio, double thresh_min, double thresh_max);

/// Shrunk regions: 1 inside, and a mask that is 0 where nothing is to be learnt: ignored texts,
/// those of a side below `min_text_size`, and those that vanish when shrunk. As upstream it clips
/// `polys` to the picture, makes their direction one, and marks in `ignore` what it left out.
TargetMap make_shrink_map(std::vector<PolygonD>& polys, std::vector<uint8_t>& ignore, cv::Size size,
                          double shrink_ratio, double min_text_size);

/// The shrink ratio in an epoch (from 0): `ratio` + 0.2 epoch / total_epoch. Upstream does so only
/// when a ratio_list is below 1; without, it takes the seed (1024) for the epoch, by mistake, which
/// gives a constant .81 at 500 epochs. total_epoch 0: no ramp.
double ramped_shrink_ratio(double ratio, int epoch, double total_epoch);

}  // namespace ocr
