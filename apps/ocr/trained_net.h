// The net that a configuration trains, with the weights of its checkpoint: what is exported and
// evaluated.
#pragma once
#include <memory>
#include <string>

#include "apps/ocr/config_options.h"
#include "libocr/data/label_encode.h"
#include "libocr/models/model.h"
#include "libocr/training/export.h"
#include "libtrain/config/training.h"

namespace app {

class TrainedNet {
 public:
  /// Builds the net of `config`, which `options` read, and loads its weights: those that -o names
  /// (Global.pretrained_model or Global.checkpoints); else the best of the training, even where
  /// the configuration names the weights that it began with; else those. `config` must outlive
  /// this. `purpose`: "exported" or the like, for messages. Throws train::DeviceError where there
  /// is no checkpoint, train::FormatError where it is of another net or dictionary.
  TrainedNet(const ConfigOptions& options, const train::config::TrainingConfig& config, bool strict,
             const std::string& purpose);

  ocr::models::Model& model() { return *model_; }
  /// Of a recogniser, else null.
  const ocr::TextEncoder* encoder() const { return encoder_.get(); }

  /// The deployed net and what its file is to say of its use; warnings are logged.
  struct Deployed {
    train::Graph graph;
    ocr::ExportInfo info;
  };
  Deployed deployed();

 private:
  void build(bool strict);
  std::string chosen_checkpoint(const ConfigOptions& options, const std::string& purpose) const;
  void load();
  [[noreturn]] void refuse_shape(const std::string& name) const;

  const train::config::TrainingConfig& config_;
  std::unique_ptr<ocr::TextEncoder> encoder_;
  std::unique_ptr<ocr::models::Model> model_;
  std::string checkpoint_;
};

}  // namespace app
