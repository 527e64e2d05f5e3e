// The check of a training's data: what `ocr data check` prints, and what `ocr train` asks for
// before its first step.
#pragma once
#include <string>
#include <vector>

#include "libocr/data/check.h"
#include "libtrain/config/training.h"

namespace app {

/// What was found in one section.
struct DataFindings {
  std::string part;               // "Train", "Eval"
  int64_t samples = 0, lost = 0;  // lost: left out, or learnt without some of their characters
  std::string text;               // all findings, for a person; lines end in newlines
};

/// Looks at all samples of the section, with a progress bar where it is large.
ocr::CheckReport check_part(const ocr::OcrDataset& set, const std::string& part,
                            const ocr::CheckOptions& options);

/// The findings of the training's data, and of its evaluation's where `eval` is not null. Kept in
/// `folder`/data_check.json ("" keeps none) under a key of all that they follow from but the
/// pictures: label files or LMDB (path, size, time), transforms, dictionary, labels, time steps.
/// `cached` says whether they were found there.
std::vector<DataFindings> check_data(const train::config::TrainingConfig& config,
                                     const ocr::OcrDataset& train, const ocr::OcrDataset* eval,
                                     const std::string& folder, bool& cached);

}  // namespace app
