// A training configuration as the command line names it: -c, -o, --strict, --task.
#pragma once
#include "apps/ocr/config_options.h"
#include "libocr/data/check.h"
#include "libtrain/config/training.h"

namespace app {

/// Reads the configuration of -c with the changes of -o; its warnings are logged.
train::config::TrainingConfig read_training_config(const ConfigOptions& options, bool strict);

/// det, rec or cls, from Architecture.model_type. Throws train::ConfigError with its place.
ocr::TaskKind task_of(const train::config::TrainingConfig& config);

/// What a check needs to know of a configuration: task, heads, classes, time steps of the network.
ocr::CheckOptions check_options(const train::config::TrainingConfig& config);

}  // namespace app
