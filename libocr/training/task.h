// The three kinds of training: detection, recognition and classification, as the trainer runs them.
#pragma once
#include <memory>

#include "libocr/data/dataset.h"
#include "libocr/models/model.h"
#include "libocr/postprocess/db.h"
#include "libtrain/train/trainer.h"

namespace ocr {

struct TaskParts {
  const train::config::TrainingConfig& config;
  models::Model& model;
  const OcrDataset& train;
  const OcrDataset* eval = nullptr;  // null: no evaluation
  /// With several ranks each evaluates its share of the samples; the metrics are those of all.
  train::dist::Communicator* communicator = nullptr;
};

/// Loss and evaluation as `Loss`, `PostProcess` and `Metric` say.
///
/// Detection: DBLoss; hmean, precision, recall of boxes. Recognition: CTCLoss, alone or in a
/// MultiLoss with NRTRLoss; exact matches of raw text (which decides on the best checkpoint, unless
/// the dictionary folds case), PaddleOCR's acc and norm_edit_dis, CER; where lines of their own
/// widths are learnt (ds_width), they are read at those, see own_widths.h. Classification: ClsLoss;
/// acc. Throws ConfigError with the place for another loss, or for transforms that do not give what
/// the loss needs.
std::unique_ptr<train::Task> make_task(const TaskParts& parts, train::config::ReadContext& context);

struct SamplerParts {
  const train::config::TrainingConfig& config;
  const OcrDataset& train;
  int64_t samples = 0;  // of the data set
  int rank = 0, ranks = 1;
};
/// The order and company of the training samples, as `Train` says. Throws as MultiScaleSampler and
/// SimpleBatchSampler do.
std::unique_ptr<train::data::BatchSampler> make_sampler(const SamplerParts& parts);

/// DB's options of `PostProcess`; defaults where the section is absent.
DbOptions db_options(const train::config::NamedSection& post, train::config::ReadContext& context);

/// How many classes the recogniser of this configuration has, blank included; 0 when it is none.
int64_t classes_of(const OcrDataset& data);

}  // namespace ocr
