#include "apps/ocr/training_config.h"

#include <algorithm>

#include "apps/ocr/log.h"
#include "libtrain/core/error.h"
#include "libtrain/core/thread_pool.h"

namespace app {

using train::config::Node;
using train::config::TrainingConfig;

TrainingConfig read_training_config(const ConfigOptions& options, bool strict) {
  train::config::TrainingReadOptions read;
  read.strict = strict;
  for (const Override& o : options.overrides) read.overrides.push_back(o.key + "=" + o.value);
  TrainingConfig config = train::config::load_training_config(options.config, read);
  for (const std::string& w : config.warnings) log_warning(w);
  config.warnings.clear();
  return config;
}

ocr::TaskKind task_of(const TrainingConfig& config) {
  const std::string& type = config.architecture.model_type;
  if (type == "det") return ocr::TaskKind::kDetection;
  if (type == "rec") return ocr::TaskKind::kRecognition;
  if (type == "cls") return ocr::TaskKind::kClassification;
  const Node* place = config.architecture.node.find("model_type");
  (place ? *place : config.architecture.node)
      .fail(train::cat("'Architecture.model_type' is det, rec or cls",
                       type.empty() ? "" : ", not " + type));
}

namespace {

// Columns of the widest training picture: of the sampler's scales or of a resize.
int64_t input_width(const TrainingConfig& config) {
  int64_t width = 0;
  for (const std::vector<int>& s : config.train.sampler.scales)
    if (!s.empty()) width = std::max<int64_t>(width, s[0]);
  for (const auto* split : {&config.train, &config.eval})
    for (const train::config::NamedNode& t : split->dataset.transforms)
      if (const Node* shape =
              t.name.ends_with("ResizeImg") ? t.arguments.find("image_shape") : nullptr)
        if (width == 0 && shape->items().size() == 3)
          width = shape->items()[2].as_int().value_or(0);
  return width;
}

}  // namespace

ocr::CheckOptions check_options(const TrainingConfig& config) {
  ocr::CheckOptions o;
  o.kind = task_of(config);
  o.classes = config.global.label_list;
  o.threads = train::usable_cpus();
  for (const train::config::NamedNode& t : config.train.dataset.transforms)
    o.attention = o.attention || t.name == "MultiLabelEncode";
  // CRNN and SVTR give a step for 4 columns, the newer LCNets and HGNets for 8.
  const std::string& a = config.architecture.algorithm;
  const bool fine = a == "CRNN" || a == "Rosetta" || a == "STARNet" ||
                    (a == "SVTR" && config.architecture.backbone.name == "SVTRNet");
  if (o.kind != ocr::TaskKind::kRecognition) return o;
  o.ctc_steps = input_width(config) / (fine ? 4 : 8);
  const train::config::SamplerConfig& sampler = config.train.sampler;
  if (config.train.dataset.ds_width && !sampler.scales.empty() && !sampler.scales[0].empty()) {
    o.step_columns = fine ? 4 : 8;
    o.height = sampler.scales[0].back();
    o.max_width = static_cast<int>(sampler.max_w);
  }
  return o;
}

}  // namespace app
