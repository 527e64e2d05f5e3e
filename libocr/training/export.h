// From a trained net to the graph and the file that are deployed.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libocr/data/label_encode.h"
#include "libocr/models/model.h"
#include "libocr/onnx/export.h"
#include "libocr/postprocess/recognition_resize.h"
#include "libtrain/config/training.h"

namespace ocr {

/// Sizes of images that a net is recorded for. `height` and `width` 0: free.
struct InputSize {
  int height = 0, width = 0;
};

/// The size that a configuration's deployed net takes: detectors and classifiers any; recognisers
/// the height of their lines, any width; SVTRNet one size alone.
InputSize input_size(const train::config::TrainingConfig& config, const models::Model& model);

/// How lines enter a recogniser that is trained on lines of their own widths (ds_width): as wide as
/// they are, no narrower than high. Nothing for every other net.
std::optional<RecognitionResizeOptions> own_width_resize(
    const train::config::TrainingConfig& config, const InputSize& size);

/// The net in evaluation as a graph of plain operators: recorded for any batch and the sizes that
/// are free, branches and norms merged. Leaves the model in evaluation. Throws train::Error where
/// the net cannot be recorded.
train::Graph inference_graph(models::Model& model, const InputSize& size);

/// What a deployed model's file says of its use. Settings of `ocr infer` are under "ocr.NAME";
/// "kind" is det, rec or cls; "character" the dictionary, one entry a line, without an appended
/// space; further keys tell other programs of the input. `encoder`: of a recogniser, else null.
/// Appends to `warnings` what the configuration asks and `ocr infer` does not do.
std::map<std::string, std::string> model_metadata(const train::config::TrainingConfig& config,
                                                  const TextEncoder* encoder, const InputSize& size,
                                                  std::vector<std::string>& warnings);

/// What a configuration's `PostProcess` says of DB, by the names of `ocr infer`'s settings.
std::vector<std::pair<std::string, std::string>> db_settings(
    const train::config::NamedSection& post_process);

/// Names of the file's input "x" [batch, 3, height, width] and its output: "maps" [batch, 1,
/// height, width], "probs" [batch, steps, classes] or [batch, classes].
ExportInfo export_info(const std::string& model_type, std::map<std::string, std::string> metadata);

}  // namespace ocr
