// What the command line of `ocr infer` asks for.
#pragma once
#include <string>
#include <vector>

#include "libocr/image/collect.h"
#include "libocr/pipeline/options.h"

namespace app {

class Command;

struct InferRequest {
  ocr::Options options;  // of the pipeline
  ocr::CollectOptions inputs;
  std::vector<std::string> configs, notes;
  std::string format;  // "": what the name of the output says, else text
  std::string output, visualize, save_crops;
  bool strict = false, resume = false, progress = true, save_crop_res = false;
};

/// Declares all options of `ocr infer`; they fill `request`, which must live as long as `command`.
void add_infer_options(Command& command, InferRequest& request);

/// Declares the settings of the page pipeline by their headings. Used by every command that reads
/// pages.
void add_pipeline_options(Command& command, ocr::Options& options);

}  // namespace app
