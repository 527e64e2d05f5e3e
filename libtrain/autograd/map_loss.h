// Losses of maps with a mask, as DB's (Liao et al. 2020): Dice, balanced cross-entropy with hard
// negatives, masked L1, focal. Each reduces to one number.
#pragma once
#include "libtrain/autograd/tape.h"

namespace train {

enum class MapLoss : uint8_t {
  /// 1 - 2 sum(p g m) / (sum(p m) + sum(g m) + epsilon).
  kDice,
  /// Binary cross-entropy of probabilities: the mean over the positive pixels and, of the negative
  /// ones, the `ratio` times as many with the largest loss (Shrivastava et al. 2016).
  kBalancedBce,
  /// sum(|p - g| m) / (sum(m) + epsilon).
  kL1,
  /// Focal loss of probabilities (Lin et al. 2017), the mean over the mask: -a (1 - q)^gamma log q,
  /// q the probability of what g says, a = alpha for positives, 1 - alpha for negatives.
  kFocal
};

struct MapLossOptions {
  double epsilon = 1e-6;
  double ratio = 3;               // kBalancedBce
  double alpha = .25, gamma = 2;  // kFocal
};

/// Inputs: p (probabilities or distances), g (the truth, 0 or 1 but for kL1), m (0 or 1), of one
/// shape. Outputs: loss [], d loss / d p. Logarithms are cut at -100, as in PyTorch and Paddle;
/// sums are in double.
class MapLossOp final : public Op {
 public:
  explicit MapLossOp(MapLoss kind, const MapLossOptions& options = {})
      : kind(kind), options(options) {}
  std::string_view type() const override { return "MapLoss"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  MapLoss kind;
  MapLossOptions options;
};

Variable map_loss(Tape& tape, MapLoss kind, const Variable& p, const Variable& truth,
                  const Variable& mask, const MapLossOptions& options = {});

struct DbLossOptions {
  double alpha = 5, beta = 10;  // of the shrink map and the threshold map; the binary map counts 1
  double ratio = 3, epsilon = 1e-6;
  bool dice = true;  // the shrink map's loss: Dice (PaddleOCR's configs) or balanced cross-entropy
  /// PaddleOCR's DiceFocalLoss: the shrink map's and the binary map's loss are dice_weight times
  /// Dice and focal_weight times the focal loss of probabilities cut to [epsilon, 1 - epsilon].
  bool focal = false;
  double dice_weight = 1, focal_weight = 1, focal_alpha = .25, focal_gamma = 2;
};
struct DbLossResult {
  Variable total, shrink, threshold, binary;  // the parts with their weights
};
/// DB's loss of maps [N, 3, H, W] (shrink, threshold, binary, as the training head gives them)
/// against [N, H, W] or [N, 1, H, W]: threshold map and its mask, shrink map and its mask.
DbLossResult db_loss(Tape& tape, const Variable& maps, const Variable& threshold_map,
                     const Variable& threshold_mask, const Variable& shrink_map,
                     const Variable& shrink_mask, const DbLossOptions& options = {});
/// The loss that the options choose for the shrink map, without its weight, of another map [N, 1,
/// H, W] of the same truth.
Variable db_shrink_loss(Tape& tape, const Variable& map, const Variable& shrink_map,
                        const Variable& shrink_mask, const DbLossOptions& options = {});

}  // namespace train
