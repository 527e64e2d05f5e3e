// What a training will take, found out before it begins: parameters, operations, memory, time.
#pragma once
#include <cstdint>

#include "libocr/data/dataset.h"
#include "libocr/models/model.h"
#include "libtrain/train/trainer.h"

namespace ocr {

/// A training that has not begun. `task` with `model`, `train`, `optimizer`, `schedule` and
/// `sampler` must be there.
struct EstimateParts {
  const train::config::TrainingConfig& config;
  models::Model& model;
  train::Task* task = nullptr;
  const OcrDataset* train = nullptr;  // where it holds no samples, made-up ones take their place
  const OcrDataset* eval = nullptr;   // null: no evaluation
  const train::data::BatchSampler* sampler = nullptr;
  train::optim::Optimizer* optimizer = nullptr;
  const train::optim::Schedule* schedule = nullptr;
  train::optim::Ema* ema = nullptr;
  const train::amp::Autocast* autocast = nullptr;
  train::amp::GradScaler* scaler = nullptr;
  int threads = 1;  // of the computation
  int workers = 0;  // that read samples beside it; 0: read in between
};

struct EstimateOptions {
  double seconds = 40;  // that the trials may take, about; two small ones always run
  int64_t memory = 0;   // bytes that trials stay below, as far as can be foreseen; 0: no limit
};

struct Estimate {
  int64_t trained = 0, frozen = 0, buffers = 0;  // elements
  double samples = 0;                            // of a batch, on average, as all that follows
  double flops = 0;                              // forward and backward
  double batch_seconds = 0;                      // from one batch to the next
  double compute_seconds = 0, read_seconds = 0;  // without reading; all reading, one thread
  int64_t batches = 0;                           // of an epoch; 0 where there are no data
  double evaluation_seconds = 0;                 // of one evaluation; 0 where there is none
  int64_t memory = 0;  // the most that the process will have in use, bytes
  double tried = 1;  // the share of a batch that the largest trial had; below 1: the rest is drawn
                     // on from smaller ones
};

/// Trains some updates in copies of this process, which leave this one as it is, and reads off what
/// they took: batches of a few samples first, then larger ones as time and memory allow; what a
/// whole batch takes is measured or drawn on along a line. Of samplers that change the size,
/// batches of up to six sizes, the largest among them. Must be called before other threads are
/// started. Throws train::Error when the updates throw, train::CopyKilled when the system ends the
/// copy.
Estimate estimate_training(const EstimateParts& parts, const EstimateOptions& options = {});

}  // namespace ocr
