// A deployed model runs beside the net that it was made of.
#pragma once
#include <string>

#include "libocr/data/dataset.h"
#include "libocr/models/model.h"
#include "libocr/postprocess/db.h"

namespace ocr {

struct ReplayOptions {
  int64_t samples = 32;     // of the evaluation data, in order; fewer where there are fewer
  double tolerance = 1e-4;  // before the last softmax or sigmoid, in parts of the values' range
  double tie = 1e-4;        // probabilities closer than this may fall either way
  DbOptions db;             // detection
};

struct ReplayReport {
  int64_t samples = 0;        // of evaluation data
  int64_t noise = 0;          // inputs of random numbers
  int64_t unread = 0;         // evaluation samples that could not be loaded
  double max_difference = 0;  // before the last softmax or sigmoid, in parts of the range
  int64_t ties = 0;           // samples whose text or boxes differ by a decision closer than a tie
  std::string where;          // the input with the greatest difference
  /// "32 samples and 4 batches of random numbers, greatest difference 1.2e-06 of the range"
  std::string str() const;
};

/// Imports `model` (the file's bytes) and runs it, as `ocr infer` would, beside `net` in
/// evaluation: on samples of `eval` (null or empty: on as many inputs of random numbers), and on
/// batches of random numbers of two sizes. Throws train::Error naming the input when the values
/// before the last softmax or sigmoid differ by more than the tolerance, or text (recognition) or
/// boxes (detection) differ in more than a tie.
ReplayReport replay(models::Model& net, const std::string& model, const std::string& model_type,
                    const OcrDataset* eval, const Dictionary* dictionary,
                    const ReplayOptions& options);

}  // namespace ocr
