// The losses of detection and recognition, as `Loss` says.
#pragma once
#include <array>

#include "libocr/models/model.h"
#include "libtrain/autograd/ctc.h"
#include "libtrain/autograd/map_loss.h"
#include "libtrain/nn/layers.h"
#include "libtrain/train/trainer.h"

namespace ocr {

struct RecognitionLossOptions {
  train::CtcOptions ctc;
  bool nrtr = false;           // the guide's loss too
  float nrtr_smoothing = .1f;  // shared by all characters but the right one
  float ctc_weight = 1, nrtr_weight = 1;
};
/// CTCLoss, or MultiLoss of CTCLoss and, where the net `has_guide`, NRTRLoss. Throws ConfigError.
RecognitionLossOptions recognition_loss_options(const train::config::NamedSection& loss,
                                                bool has_guide,
                                                train::config::ReadContext& context);

/// N images [N, 3, H, W], labels i64 [N, L], lengths i64 of N elements; guide i64 [N, L], as
/// NRTRLabelEncode gives them.
struct RecognitionBatch {
  train::Tensor images, labels, lengths, guide;
};

/// CTC, and beside it the guide's next characters.
class RecognitionLoss {
 public:
  explicit RecognitionLoss(const RecognitionLossOptions& options);
  /// What the net says of the batch, its guide told the text. Throws DataError where the guide's
  /// labels are not NRTR's.
  models::Outputs forward(train::Tape& tape, const models::Model& model,
                          const RecognitionBatch& batch) const;
  /// The loss of that; adds its weighted parts to `parts` when there are two.
  train::Variable operator()(train::Tape& tape, const models::Outputs& out,
                             const RecognitionBatch& batch, train::Metrics& parts) const;

  const RecognitionLossOptions options;

 private:
  train::nn::SoftmaxCrossEntropy next_character_;
};

struct DetectionLossOptions {
  train::DbLossOptions db;
  std::array<double, models::kAuxLevels.size()> aux_weights{};  // of the auxiliary heads' losses
};
/// DBLoss. Throws ConfigError.
DetectionLossOptions detection_loss_options(const train::config::NamedSection& loss,
                                            train::config::ReadContext& context);

/// Maps [N, H, W] of a batch.
struct DetectionTargets {
  train::Variable threshold_map, threshold_mask, shrink_map, shrink_mask;
};
/// The loss of a detector's maps, and of those of its refinement and its auxiliary heads; adds the
/// parts that PaddleOCR prints to `parts`, the auxiliary ones without their weights.
train::Variable detection_loss(train::Tape& tape, const models::Outputs& out,
                               const DetectionTargets& targets, const DetectionLossOptions& options,
                               train::Metrics& parts);

}  // namespace ocr
