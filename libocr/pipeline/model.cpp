#include "libocr/pipeline/precision.h"
#include "libocr/pipeline/stages.h"
#include "libtrain/core/error.h"

namespace ocr {

int64_t Model::input_side(size_t axis) const {
  if (info.inputs.empty() || axis >= info.inputs[0].dims.size()) return -1;
  return info.inputs[0].dims[axis];
}

int64_t Model::classes() const {
  if (info.outputs.empty() || info.outputs[0].dims.empty()) return -1;
  return info.outputs[0].dims.back();
}

const std::string* Model::find(const std::string& key) const {
  const auto it = info.metadata.find(key);
  return it == info.metadata.end() || it->second.empty() ? nullptr : &it->second;
}

Model load_model(const ModelFiles& files, const std::string& kind, Options& options) {
  Model model;
  model.files = files;
  model.graph = import_onnx(files.onnx, {}, &model.info);
  if (model.graph.inputs.size() != 1 || model.graph.outputs.empty())
    throw train::FormatError(train::cat(
        files.onnx, ": a model of this pipeline has one input, not ", model.graph.inputs.size()));
  // What `ocr export` says of a model; others say nothing.
  const std::string* made_for = model.find("kind");
  const bool fits = !made_for || *made_for == kind || (kind == "doc" && *made_for == "cls");
  if (!fits && (*made_for == "det" || *made_for == "rec" || *made_for == "cls"))
    throw train::ConfigError(
        "", 0, 0,
        train::cat(files.onnx, " is a model for '", *made_for, "', not for '", kind, "'"));
  constexpr std::string_view prefix = "ocr.";
  for (const auto& [key, value] : model.info.metadata)
    if (key.starts_with(prefix))
      set_option(options, std::string_view(key).substr(prefix.size()), value, Source::kMetadata,
                 files.onnx);
  const PrecisionChoice precision = choose_precision(options.precision.value, model.info.sha256);
  model.precision = precision.precision;
  model.note = {kind, files.onnx, model.info.sha256, precision.name};
  return model;
}

}  // namespace ocr
