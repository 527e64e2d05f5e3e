#include "apps/ocr/trained_net.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "apps/ocr/log.h"
#include "libtrain/core/error.h"
#include "libtrain/train/archive.h"
#include "libtrain/train/trainer.h"

namespace app {
namespace {

namespace fs = std::filesystem;
using train::cat;

bool exists(const std::string& path) { return fs::is_regular_file(path); }

}  // namespace

TrainedNet::TrainedNet(const ConfigOptions& options, const train::config::TrainingConfig& config,
                       bool strict, const std::string& purpose)
    : config_(config) {
  build(strict);
  checkpoint_ = chosen_checkpoint(options, purpose);
  load();
}

TrainedNet::Deployed TrainedNet::deployed() {
  const ocr::InputSize size = ocr::input_size(config_, *model_);
  std::vector<std::string> warnings;
  ocr::ExportInfo info = ocr::export_info(config_.architecture.model_type,
                                          ocr::model_metadata(config_, encoder(), size, warnings));
  info.metadata["checkpoint"] = fs::path(checkpoint_).filename().string();
  for (const std::string& w : warnings) log_warning(w);
  return {ocr::inference_graph(*model_, size), std::move(info)};
}

void TrainedNet::build(bool strict) {
  const train::config::GlobalConfig& g = config_.global;
  if (config_.architecture.model_type == "rec")
    encoder_ = std::make_unique<ocr::TextEncoder>(ocr::TextEncoder::from_settings(
        g.character_dict_path, g.use_space_char, g.max_text_length));
  train::config::ReadContext context{strict, {}};
  model_ = ocr::models::build_model(config_.architecture,
                                    encoder_ ? encoder_->dictionary().classes() : 0, context,
                                    /*with_guides=*/false);
  model_->initialize(static_cast<uint64_t>(g.seed));
  for (const std::string& w : context.warnings) log_warning(w);
}

std::string TrainedNet::chosen_checkpoint(const ConfigOptions& options,
                                          const std::string& purpose) const {
  const train::config::GlobalConfig& g = config_.global;
  for (const Override& o : options.overrides)
    for (const auto& [key, file] : {std::pair("Global.pretrained_model", &g.pretrained_model),
                                    {"Global.checkpoints", &g.checkpoints}})
      if (o.key == key && !file->empty()) return *file;
  const std::string named = !g.pretrained_model.empty() ? g.pretrained_model : g.checkpoints;
  const std::string best = g.save_model_dir + "/best_accuracy";
  if (named.empty() || named == best) return best;
  if (!exists(train::checkpoint_file(best))) return named;
  log_warning(cat("the configuration names ", named, ", which its training began with; ", purpose,
                  " is ", best, " (-o Global.pretrained_model=FILE chooses)"));
  return best;
}

// Every weight of the net must be in the checkpoint.
void TrainedNet::load() {
  if (!exists(checkpoint_) && !exists(train::checkpoint_file(checkpoint_)))
    throw train::DeviceError(
        cat("there is no checkpoint ", train::checkpoint_file(checkpoint_),
            exists(checkpoint_ + ".pdparams") ? " (Paddle's .pdparams cannot be read)" : "",
            "; -o Global.pretrained_model=FILE names one"));
  train::WeightReport report = train::load_weights(*model_, checkpoint_);
  std::erase_if(report.unknown, [](const std::string& name) {  // of a guide, as it should be
    return name.find(".gtc_head.") != std::string::npos ||
           name.find(".before_gtc.") != std::string::npos;
  });
  if (!report.other_shape.empty()) refuse_shape(report.other_shape[0]);
  if (!report.missing.empty())
    throw train::FormatError(cat(checkpoint_, " lacks ", report.missing.size(),
                                 " of the net's tensors, the first: ", report.missing[0],
                                 ": it is of another architecture"));
  if (!report.unknown.empty())
    log_warning(cat(report.unknown.size(), " tensors of ", checkpoint_,
                    " are not in this net, the first: ", report.unknown[0]));
  log_info(cat("weights: ", checkpoint_, ", ", report.kept, " tensors"));
}

void TrainedNet::refuse_shape(const std::string& name) const {
  const std::string file = exists(checkpoint_) ? checkpoint_ : train::checkpoint_file(checkpoint_);
  const train::ArchiveReader reader = train::ArchiveReader::open(file);
  const train::Shape saved = reader.get(reader.is_ours() ? "model." + name : name).shape();
  train::Shape wanted;
  for (const train::nn::StateEntry& e : model_->state_dict())
    if (e.name == name) wanted = e.variable.shape();
  std::string remedy = ": it is of another architecture";
  if (encoder_ && name.starts_with("head.") && saved.rank() > 0 && saved[0] != wanted[0] &&
      wanted[0] == encoder_->dictionary().classes())
    remedy = cat(": the dictionary ", encoder_->dictionary().name(), " with",
                 encoder_->dictionary().appended_space() ? "" : "out", " a space gives ", wanted[0],
                 " classes, the checkpoint has ", saved[0],
                 "; character_dict_path and use_space_char must be those of the training");
  throw train::FormatError(
      cat(file, ": ", name, " is ", saved.str(), ", the net has ", wanted.str(), remedy));
}

}  // namespace app
