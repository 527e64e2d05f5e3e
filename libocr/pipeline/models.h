// Finding model files: named sets in the usual places, folders and single files.
#pragma once
#include <string>
#include <vector>

#include "libocr/pipeline/options.h"

namespace ocr {

/// A model and what lies beside it; an empty path = there is none.
struct ModelFiles {
  std::string onnx, inference_yml, dictionary;
  bool found() const { return !onnx.empty(); }
};

/// Where model sets are looked for, in order: $OCR_MODELS, ./models, models/ of the checkout the
/// program was built in, <program>/../share/ocr/models, ~/.local/share/ocr/models,
/// /usr/local/share/ocr/models.
std::vector<std::string> model_roots();

/// The files of one kind (det, rec, cls, doc) for these options: the model's own option first,
/// else the set of `--models`. Throws train::ConfigError with the command that brings what is
/// missing or converts a folder of Paddle inference files; cls and doc are optional unless
/// `required`.
ModelFiles find_model(const Options& options, const std::string& kind, bool required);

}  // namespace ocr
