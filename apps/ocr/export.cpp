// `ocr export`: a trained model as one ONNX file, for `ocr infer` and every other runtime.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "apps/ocr/command.h"
#include "apps/ocr/commands.h"
#include "apps/ocr/log.h"
#include "apps/ocr/training_config.h"
#include "libocr/training/export.h"
#include "libocr/training/replay.h"
#include "libocr/training/task.h"
#include "libtrain/core/error.h"
#include "libtrain/core/thread_pool.h"
#include "libtrain/train/archive.h"
#include "libtrain/train/trainer.h"

namespace app {
namespace {

namespace fs = std::filesystem;
using train::cat;
using train::config::TrainingConfig;

constexpr const char* kExamples = R"(Examples:
  ocr export -c rec.yml -o Global.pretrained_model=output/rec/best_accuracy Global.save_inference_dir=inference/rec
  ocr export -c output/rec/config.yml -o Global.save_inference_dir=inference/rec   save_model_dir/best_accuracy
  ocr infer --task rec --rec_model_dir inference/rec line.png                      and use it
)";

constexpr const char* kClosing =
    R"(Written to Global.save_inference_dir: inference.onnx, all there is. The dictionary, the sizes, means and thresholds
are in its metadata, where `ocr infer` and RapidOCR find them; opset 17 (ONNX Runtime 1.12 or newer, OpenVINO).
Before it is kept, the file runs beside the trained net on evaluation samples; where they differ there is no file.
)";

struct Request {
  ConfigOptions config;
  bool strict = false;
  int threads = 0, samples = 32;
};

class Export {
 public:
  explicit Export(const Request& r) : r_(r), config_(read_training_config(r.config, r.strict)) {
    task_of(config_);  // refuses other kinds, with the place
    folder_ = config_.global.save_inference_dir;
    if (folder_.empty())
      throw train::ConfigError("", 0, 0, "where to? -o Global.save_inference_dir=FOLDER says it");
  }

  int run() {
    train::ThreadPool pool(r_.threads > 0 ? r_.threads : train::usable_cpus());
    const train::PoolScope scope(&pool);
    prepare_folder();
    build();
    load();
    open_samples();

    const ocr::InputSize size = ocr::input_size(config_, *model_);
    const std::string& type = config_.architecture.model_type;
    std::vector<std::string> warnings;
    ocr::ExportInfo info =
        ocr::export_info(type, ocr::model_metadata(config_, encoder_.get(), size, warnings));
    info.metadata["checkpoint"] = fs::path(checkpoint_).filename().string();
    for (const std::string& w : warnings) log_warning(w);
    const train::Graph graph = ocr::inference_graph(*model_, size);
    const ocr::ReplayReport report = check(ocr::export_onnx(graph, info));
    info.metadata["replayed"] = report.str();
    write(ocr::export_onnx(graph, info), graph);
    return kExitOk;
  }

 private:
  // A folder that cannot be written to is found before the work, not behind it.
  void prepare_folder() const {
    std::error_code error;
    fs::create_directories(folder_, error);
    if (error || !fs::is_directory(folder_))
      throw train::DeviceError(
          cat("Global.save_inference_dir: the folder ", folder_,
              " cannot be made: ", error ? error.message() : "there is a file of that name"));
    if (::access(folder_.c_str(), W_OK) != 0)
      throw train::DeviceError(
          cat("Global.save_inference_dir: ", folder_, ": ", std::strerror(errno)));
  }

  void build() {
    const train::config::GlobalConfig& g = config_.global;
    if (config_.architecture.model_type == "rec")
      encoder_ = std::make_unique<ocr::TextEncoder>(ocr::TextEncoder::from_settings(
          g.character_dict_path, g.use_space_char, g.max_text_length));
    train::config::ReadContext context{r_.strict, {}};
    model_ = ocr::models::build_model(config_.architecture,
                                      encoder_ ? encoder_->dictionary().classes() : 0, context,
                                      /*with_guides=*/false);
    model_->initialize(static_cast<uint64_t>(g.seed));
    if (config_.architecture.model_type == "det")
      db_ = ocr::db_options(config_.post_process, context);
    for (const std::string& w : context.warnings) log_warning(w);
  }

  // What -o names; else the best of the training, even where the configuration names the weights
  // that it began with; else those.
  std::string chosen_checkpoint() const {
    const train::config::GlobalConfig& g = config_.global;
    for (const Override& o : r_.config.overrides)
      for (const auto& [key, file] : {std::pair("Global.pretrained_model", &g.pretrained_model),
                                      {"Global.checkpoints", &g.checkpoints}})
        if (o.key == key && !file->empty()) return *file;
    const std::string named = !g.pretrained_model.empty() ? g.pretrained_model : g.checkpoints;
    const std::string best = g.save_model_dir + "/best_accuracy";
    if (named.empty() || named == best) return best;
    if (!exists(train::checkpoint_file(best))) return named;
    log_warning(cat("the configuration names ", named,
                    ", which its training began with; exported is ", best,
                    " (-o Global.pretrained_model=FILE chooses)"));
    return best;
  }

  // Every weight of the net must be in the checkpoint.
  void load() {
    checkpoint_ = chosen_checkpoint();
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

  static bool exists(const std::string& path) { return fs::is_regular_file(path); }

  [[noreturn]] void refuse_shape(const std::string& name) const {
    const std::string file =
        exists(checkpoint_) ? checkpoint_ : train::checkpoint_file(checkpoint_);
    const train::ArchiveReader reader = train::ArchiveReader::open(file);
    const train::Shape saved = reader.get(reader.is_ours() ? "model." + name : name).shape();
    train::Shape wanted;
    for (const train::nn::StateEntry& e : model_->state_dict())
      if (e.name == name) wanted = e.variable.shape();
    std::string remedy = ": it is of another architecture";
    if (encoder_ && name.starts_with("head.") && saved.rank() > 0 && saved[0] != wanted[0] &&
        wanted[0] == encoder_->dictionary().classes())
      remedy = cat(": the dictionary ", encoder_->dictionary().name(), " with",
                   encoder_->dictionary().appended_space() ? "" : "out", " a space gives ",
                   wanted[0], " classes, the checkpoint has ", saved[0],
                   "; character_dict_path and use_space_char must be those of the training");
    throw train::FormatError(
        cat(file, ": ", name, " is ", saved.str(), ", the net has ", wanted.str(), remedy));
  }

  void open_samples() {
    if (!config_.eval.present()) return;
    try {
      std::vector<std::string> warnings;
      eval_ = ocr::make_dataset(config_, false, warnings, r_.strict);
    } catch (const train::Error& e) {
      log_warning(cat("the Eval data cannot be read: ", e.what()));
    }
  }

  ocr::ReplayReport check(const std::string& bytes) {
    if (!eval_ || eval_->size() == 0)
      log_warning("no evaluation samples: the file is checked on random numbers only, not on text");
    ocr::ReplayOptions options;
    options.samples = r_.samples;
    options.db = db_;
    ocr::ReplayReport report;
    try {
      report = ocr::replay(*model_, bytes, config_.architecture.model_type, eval_.get(),
                           encoder_ ? &encoder_->dictionary() : nullptr, options);
    } catch (const train::Error& e) {
      throw train::Error(cat("no file was written: ", e.what()));
    }
    if (report.unread > 0)
      log_warning(cat(report.unread, " evaluation samples could not be read; `ocr data check -c ",
                      r_.config.config, "` says which"));
    log_info("checked: " + report.str());
    return report;
  }

  void write(const std::string& bytes, const train::Graph& graph) const {
    const std::string path = (fs::path(folder_) / "inference.onnx").string();
    train::write_file_atomically(path, bytes);
    log_info(cat(path, ": ", (bytes.size() + 512) / 1024, " KiB, ", graph.nodes.size(),
                 " operators, opset ", ocr::kExportOpset));
  }

  const Request& r_;
  TrainingConfig config_;
  std::string folder_, checkpoint_;
  std::unique_ptr<ocr::TextEncoder> encoder_;
  std::unique_ptr<ocr::models::Model> model_;
  std::unique_ptr<ocr::OcrDataset> eval_;
  ocr::DbOptions db_;
};

}  // namespace

void declare_export(Command& command) {
  auto r = std::make_shared<Request>();
  command.describe("Writes a trained model as one ONNX file that `ocr infer` and others run.");
  command.examples(kExamples);
  command.closing(kClosing);
  command.heading("Export");
  add_config_options(command, r->config);
  command.option(
      "samples", "N", "evaluation samples that the file is checked on",
      [r](const Given& g) { r->samples = g.whole(1); }, "32");
  command.option(
      "threads,t", "N", "of the check", [r](const Given& g) { r->threads = g.whole(1, 1024); },
      "all cores");
  command.flag("strict", "unknown keys of the configuration are errors",
               [r](const Given& g) { r->strict = g.truth(); });
  add_log_options(command);
  command.run([r] {
    require_config(r->config, "export");
    return Export(*r).run();
  });
}

}  // namespace app
