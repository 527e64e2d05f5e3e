// `ocr export`: a trained model as one ONNX file, for `ocr infer` and every other runtime.
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "apps/ocr/command.h"
#include "apps/ocr/commands.h"
#include "apps/ocr/log.h"
#include "apps/ocr/trained_net.h"
#include "apps/ocr/training_config.h"
#include "libocr/training/export.h"
#include "libocr/training/replay.h"
#include "libocr/training/task.h"
#include "libtrain/core/error.h"
#include "libtrain/core/thread_pool.h"
#include "libtrain/train/archive.h"

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
    TrainedNet net(r_.config, config_, r_.strict, "exported");
    open_samples();
    auto [graph, info] = net.deployed();
    const ocr::ReplayReport report = check(net, ocr::export_onnx(graph, info));
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

  void open_samples() {
    if (!config_.eval.present()) return;
    try {
      std::vector<std::string> warnings;
      eval_ = ocr::make_dataset(config_, false, warnings, r_.strict);
    } catch (const train::Error& e) {
      log_warning(cat("the Eval data cannot be read: ", e.what()));
    }
  }

  ocr::ReplayReport check(TrainedNet& net, const std::string& bytes) {
    if (!eval_ || eval_->size() == 0)
      log_warning("no evaluation samples: the file is checked on random numbers only, not on text");
    ocr::ReplayOptions options;
    options.samples = r_.samples;
    if (config_.architecture.model_type == "det") {
      train::config::ReadContext context{r_.strict, {}};
      options.db = ocr::db_options(config_.post_process, context);
      for (const std::string& w : context.warnings) log_warning(w);
    }
    ocr::ReplayReport report;
    try {
      report = ocr::replay(net.model(), bytes, config_.architecture.model_type, eval_.get(),
                           net.encoder() ? &net.encoder()->dictionary() : nullptr, options);
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
  std::string folder_;
  std::unique_ptr<ocr::OcrDataset> eval_;
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
