#include "libocr/postprocess/cls.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace ocr {

ClassScore top_class(std::span<const float> probs) {
  ClassScore top;
  bool any = false;
  for (size_t i = 0; i < probs.size(); ++i) {
    if (!std::isnan(probs[i]) && (!any || probs[i] > top.score)) {
      top = {static_cast<int>(i), probs[i]};
      any = true;
    }
  }
  return top;
}

bool is_upside_down(AngleScore top, double threshold) {
  return top.degrees == 180 && top.score > threshold;
}

PageTurn vote_page_turn(std::span<const LineVote> votes, double min_share) {
  std::array<double, 4> weight{};  // by quarter turns clockwise
  double total = 0;
  for (const LineVote& v : votes) {
    const double longer = std::max(v.width, v.height), shorter = std::min(v.width, v.height);
    if (!(shorter > 0) || !std::isfinite(longer) || !(v.score > 0)) continue;
    const bool standing = v.height >= 1.5f * v.width;
    const double w = v.score * longer * (longer < 1.5 * shorter ? 0.5 : 1.0);
    // Lines running down were turned upright by the crop's counter-clockwise turn: so is the page.
    const size_t quarters = standing ? (v.upside_down ? 1 : 3) : (v.upside_down ? 2 : 0);
    weight[quarters] += w;
    total += w;
  }
  if (total <= 0) return {};
  const size_t best =
      static_cast<size_t>(std::max_element(weight.begin(), weight.end()) - weight.begin());
  const double share = weight[best] / total;
  if (best != 0 && share < min_share) return {0, weight[0] / total};
  return {static_cast<int>(best) * 90, share};
}

}  // namespace ocr
