// `ocr train`: trains a detector, a recogniser or a classifier from a PaddleOCR configuration.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "apps/ocr/command.h"
#include "apps/ocr/commands.h"
#include "apps/ocr/data_check.h"
#include "apps/ocr/log.h"
#include "apps/ocr/training_config.h"
#include "libocr/data/multi_scale_sampler.h"
#include "libocr/training/optimizer.h"
#include "libocr/training/task.h"
#include "libtrain/core/error.h"
#include "libtrain/core/thread_pool.h"
#include "libtrain/train/profiler.h"

namespace app {
namespace {

using train::cat;
using train::config::TrainingConfig;

constexpr const char* kExamples = R"(Examples:
  ocr train -c rec.yml                                      from scratch, or as the configuration says
  ocr train -c rec.yml -o Global.epoch_num=20 Optimizer.lr.learning_rate=0.0005
  ocr train -c rec.yml --resume                             go on from save_model_dir/latest, or start
  ocr train -c rec.yml -o Global.pretrained_model=w/best    weights only, names that fit
  ocr train -c rec.yml --profile trace.json                 where the time of the first updates goes
  ocr train -c rec.yml --dry-run                            the net, the data checked, the plan; no training
  ocr train -c rec.yml --skip-bad 20                        although up to 20 samples cannot be used
)";

constexpr const char* kClosing =
    R"(Written to Global.save_model_dir: latest, best_accuracy and iter_epoch_N (.safetensors), config.yml as used,
train.log, metrics.jsonl, TensorBoard events, data_check.json (what `ocr data check` finds, which
comes first). SIGTERM, SIGINT and SIGUSR1 save and end; --resume goes on to the same bits (same program, instruction
set and threads). `ocr runs` lists trainings, `ocr plot` draws their curves. Training runs on the CPU; there is no GPU backend yet.
)";

constexpr int kProfileUpdates = 20;

struct Request {
  ConfigOptions config;
  bool strict = false, resume = false, dry_run = false;
  int threads = 0, skip_bad = 0;
  std::string profile;      // the trace's file; empty: none
  int profile_updates = 0;  // 0: not given
};

// All objects of one run, in the order in which they need each other.
class Run {
 public:
  explicit Run(const Request& r) : r_(r), config_(read_training_config(r.config, r.strict)) {
    std::vector<std::string> warnings;
    train_ = open_data(true, warnings);
    if (config_.eval.present()) eval_ = open_data(false, warnings);
    train::config::ReadContext context{r.strict, {}};
    model_ = ocr::models::build_model(config_.architecture, ocr::classes_of(*train_), context);
    model_->initialize(static_cast<uint64_t>(config_.global.seed));
    task_ = ocr::make_task({config_, *model_, *train_, eval_.get()}, context);
    warnings.insert(warnings.end(), context.warnings.begin(), context.warnings.end());
    for (const std::string& w : warnings) log_warning(w);
    if (has_data_) make_loader();
    make_optimizer();
    make_mixed_precision();
  }

  int run() {
    describe();
    if (has_data_) check_samples();
    if (r_.dry_run) return kExitOk;
    train::ThreadPool pool(threads());
    const train::PoolScope scope(&pool);
    train::Trainer trainer({.task = task_.get(),
                            .dataset = train_.get(),
                            .loader = loader_.get(),
                            .optimizer = optimizer_.get(),
                            .schedule = schedule_.get(),
                            .ema = ema_.get(),
                            .autocast = autocast_.get(),
                            .scaler = scaler_.get()},
                           options(), [](const std::string& line) { log_info(line); });
    begin(trainer);
    const train::TrainResult result = trainer.run();
    if (!loader_->bad().empty())
      log_warning(cat(loader_->bad().size(), " samples were left out; the first: ",
                      loader_->bad()[0].name, ": ", loader_->bad()[0].reason));
    if (result.end == train::TrainResult::End::kSignal) {
      log_note("stopped by a signal; `--resume` goes on from here");
      return kExitInterrupted;
    }
    return kExitOk;
  }

 private:
  int threads() const { return r_.threads > 0 ? r_.threads : train::usable_cpus(); }

  train::TrainerOptions options() const {
    train::TrainerOptions o = ocr::trainer_options(config_);
    if (r_.profile.empty()) return o;
    // A path that cannot be written is found now, not updates later.
    train::write_file_atomically(r_.profile, "{\"traceEvents\": []}\n");
    o.profile_updates = r_.profile_updates > 0 ? r_.profile_updates : kProfileUpdates;
    o.on_profile = [path = r_.profile](const train::Profiler& profiler) {
      train::write_file_atomically(path, profiler.chrome_trace());
      log_info(cat("profile of the first updates; its trace, for chrome://tracing: ", path));
      std::fputs(profiler.table().c_str(), stderr);  // asked for: whatever the level of messages
    };
    return o;
  }

  // A dry run asks for no data: where there are none it notes that.
  std::unique_ptr<ocr::OcrDataset> open_data(bool train, std::vector<std::string>& warnings) {
    const auto& split = train ? config_.train : config_.eval;
    const std::vector<std::string> missing =
        r_.dry_run ? ocr::missing_data(split.dataset) : std::vector<std::string>();
    if (!missing.empty()) {
      log_note(
          cat(train ? "Train" : "Eval", ": ", missing[0], " is not there: a training needs it"));
      if (!train) return nullptr;
      has_data_ = false;
    }
    return ocr::make_dataset(config_, train, warnings, r_.strict, 0, missing.empty());
  }

  // Nothing is lost in silence: samples that cannot be used end the run unless they were allowed.
  void check_samples() const {
    const std::string& save = config_.global.save_model_dir;
    const bool keep = !r_.dry_run || std::filesystem::is_directory(save);
    bool cached = false;
    int64_t lost = 0, samples = 0;
    for (const DataFindings& f :
         check_data(config_, *train_, eval_.get(), keep ? save : "", cached)) {
      lost += f.lost, samples += f.samples;
      if (f.lost > 0 || !cached) log_info(f.text.substr(0, f.text.size() - 1));
    }
    if (lost == 0) {
      if (cached) log_info("data: checked before, nothing would be lost");
      return;
    }
    const std::string summary =
        cat(lost, " of ", samples, " samples would be lost or learnt wrongly (see above)");
    if (lost > r_.skip_bad)
      throw train::Error(cat(summary, "; correct them, or train without them: --skip-bad ", lost));
    log_warning(summary + ", as --skip-bad allows");
  }

  void make_loader() {
    const train::config::SplitConfig& split = config_.train;
    const auto seed = static_cast<uint64_t>(config_.global.seed);
    if (split.sampler.name == "MultiScaleSampler")
      sampler_ =
          std::make_unique<ocr::MultiScaleSampler>(split.sampler, train_->size(), train_->aspects(),
                                                   ocr::MultiScaleSampler::Options{.seed = seed});
    else
      sampler_ = std::make_unique<train::data::SimpleBatchSampler>(
          train_->size(), train::data::BatchOptions{.batch_size = split.loader.batch_size_per_card,
                                                    .shuffle = split.loader.shuffle,
                                                    .drop_last = split.loader.drop_last,
                                                    .seed = seed});
    loader_ = std::make_unique<train::data::DataLoader>(
        *train_, *sampler_,
        train::data::LoaderOptions{.workers = std::min(split.loader.num_workers, threads()),
                                   .seed = seed,
                                   .max_bad = r_.skip_bad});
    batches_ = static_cast<int64_t>(sampler_->epoch(0).size());
  }

  void make_optimizer() {
    optimizer_ = ocr::make_optimizer(config_.optimizer, model_->parameters());
    schedule_ = std::make_unique<train::optim::Schedule>(
        ocr::make_schedule(config_.optimizer, batches_, config_.global.epoch_num));
    const train::config::GlobalConfig& g = config_.global;
    if (!g.use_ema) return;
    using Type = train::optim::EmaOptions::Type;
    ema_ = std::make_unique<train::optim::Ema>(
        *model_,
        train::optim::EmaOptions{.decay = g.ema_decay,
                                 .type = g.ema_decay_type == "exponential" ? Type::kExponential
                                         : g.ema_decay_type == "normal"    ? Type::kNormal
                                                                           : Type::kThreshold});
  }

  void make_mixed_precision() {
    const train::config::GlobalConfig& g = config_.global;
    if (!g.use_amp) return;
    const bool half = g.amp_dtype == "float16";
    autocast_ = std::make_unique<train::amp::Autocast>(
        train::amp::AutocastOptions{.dtype = half ? train::DType::kF16 : train::DType::kBF16,
                                    .black_list = g.amp_custom_black_list,
                                    .white_list = g.amp_custom_white_list});
    scaler_ = std::make_unique<train::amp::GradScaler>(train::amp::GradScalerOptions{
        .init_scale = g.scale_loss, .dynamic = g.use_dynamic_loss_scaling, .enabled = half});
    log_note("use_amp: values are rounded to 16 bits and computed in 32, which is no faster here");
  }

  void describe() const {
    int64_t weights = 0;
    for (const train::nn::Parameter& p : model_->parameters())
      weights += p.variable.shape().numel();
    const train::config::ArchitectureConfig& a = config_.architecture;
    log_info(cat(a.model_type, " ", a.algorithm, ": ", a.backbone.name,
                 a.neck.present() ? " + " + a.neck.name : "", " + ", a.head.name, ", ", weights,
                 " parameters"));
    log_info(cat("train: ", train_->size(), " samples, ", batches_, " batches an epoch, ",
                 config_.global.epoch_num, " epochs; eval: ", eval_ ? eval_->size() : 0,
                 " samples; ", threads(), " threads"));
  }

  void begin(train::Trainer& trainer) {
    const train::config::GlobalConfig& g = config_.global;
    if (r_.resume && trainer.resume_latest()) return;
    if (!g.checkpoints.empty()) return trainer.resume(g.checkpoints);
    if (g.pretrained_model.empty()) return;
    const train::WeightReport report = train::load_weights(*model_, g.pretrained_model);
    log_info(cat("weights from ", g.pretrained_model, ": ", report.kept, " fit"));
    const auto tell = [](const char* what, const std::vector<std::string>& names) {
      if (!names.empty()) log_warning(cat(names.size(), " ", what, ", the first: ", names[0]));
    };
    tell("are missing and start anew", report.missing);
    tell("have another shape and start anew", report.other_shape);
    tell("are not in this model", report.unknown);
  }

  const Request& r_;
  TrainingConfig config_;
  std::unique_ptr<ocr::OcrDataset> train_, eval_;
  std::unique_ptr<ocr::models::Model> model_;
  std::unique_ptr<train::Task> task_;
  std::unique_ptr<train::data::BatchSampler> sampler_;
  std::unique_ptr<train::data::DataLoader> loader_;
  std::unique_ptr<train::optim::Optimizer> optimizer_;
  std::unique_ptr<train::optim::Schedule> schedule_;
  std::unique_ptr<train::optim::Ema> ema_;
  std::unique_ptr<train::amp::Autocast> autocast_;
  std::unique_ptr<train::amp::GradScaler> scaler_;
  int64_t batches_ = 0;
  bool has_data_ = true;
};

}  // namespace

void declare_train(Command& command) {
  auto r = std::make_shared<Request>();
  command.describe("Trains a model as a PaddleOCR configuration says.");
  command.examples(kExamples);
  command.closing(kClosing);
  command.heading("Training");
  add_config_options(command, r->config);
  command.flag("resume", "go on from the latest checkpoint, if there is one",
               [r](const Given& g) { r->resume = g.truth(); });
  command.flag("dry_run", "build all of it, train nothing",
               [r](const Given& g) { r->dry_run = g.truth(); });
  command.option(
      "skip_bad", "N", "train without up to N samples that cannot be used",
      [r](const Given& g) { r->skip_bad = g.whole(0); }, "0");
  command.option(
      "threads,t", "N", "of the computation",
      [r](const Given& g) { r->threads = g.whole(1, 1024); }, "all cores");
  command.option("profile", "FILE.json",
                 "write a Chrome trace of the first updates, print a table by op",
                 [r](const Given& g) { r->profile = g.text; });
  command.option(
      "profile_updates", "N", "how many updates --profile watches",
      [r](const Given& g) { r->profile_updates = g.whole(1); }, std::to_string(kProfileUpdates));
  command.flag("strict", "unknown keys of the configuration are errors",
               [r](const Given& g) { r->strict = g.truth(); });
  add_log_options(command);
  command.run([r] {
    require_config(r->config, "train");
    if (r->profile_updates > 0 && r->profile.empty())
      throw train::ConfigError("", 0, 0, "--profile-updates goes with --profile FILE.json");
    return Run(*r).run();
  });
}

}  // namespace app
