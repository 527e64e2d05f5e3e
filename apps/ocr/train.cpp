// `ocr train`: trains a detector, a recogniser or a classifier from a PaddleOCR configuration.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>

#include "apps/ocr/command.h"
#include "apps/ocr/commands.h"
#include "apps/ocr/data_check.h"
#include "apps/ocr/log.h"
#include "apps/ocr/training_config.h"
#include "apps/ocr/training_estimate.h"
#include "libocr/training/optimizer.h"
#include "libocr/training/task.h"
#include "libtrain/core/error.h"
#include "libtrain/core/thread_pool.h"
#include "libtrain/dist/collect.h"
#include "libtrain/dist/launch.h"
#include "libtrain/dist/mpi_ranks.h"
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
  mpirun -np 4 ocr train -c rec.yml -t 1                    four processes, see docs/train.md, "Ranks"
  ocr train -c rec.yml --dry-run                            parameters, memory and time, the data checked; no training
  ocr train -c rec.yml --skip-bad 20                        although up to 20 samples cannot be used
)";

constexpr const char* kClosing =
    R"(Written to Global.save_model_dir: latest, best_accuracy and iter_epoch_N (.safetensors), config.yml as used,
train.log, metrics.jsonl, TensorBoard events, data_check.json (what `ocr data check` finds, which
comes first). SIGTERM, SIGINT and SIGUSR1 save and end; --resume goes on to the same bits (same program, instruction
set and threads). `ocr runs` lists trainings, `ocr plot` draws their curves. Training runs on the CPU; there is no GPU backend yet.
)";

constexpr int kProfileUpdates = 20;
constexpr int kRankTimeout = 300;         // seconds
constexpr int64_t kMadeUpSamples = 4096;  // of an epoch where there are no data

struct Request {
  ConfigOptions config;
  bool strict = false, resume = false, dry_run = false, estimate = true;
  std::optional<int> memory_limit;  // MiB; 0: none; not given: what can be used
  int threads = 0, skip_bad = 0;
  std::string ranks;  // empty: as started; "mpi"; a number: threads of this process
  int rank_timeout = kRankTimeout;
  std::string profile;      // the trace's file; empty: none
  int profile_updates = 0;  // 0: not given
};

// All objects of one run, in the order in which they need each other.
class Run {
 public:
  /// `communicator` null: one rank. `sharers`: ranks that share this machine's CPUs.
  explicit Run(const Request& r, train::dist::Communicator* communicator = nullptr, int sharers = 1)
      : r_(r),
        communicator_(communicator),
        sharers_(sharers),
        config_(read_training_config(r.config, r.strict)) {
    std::vector<std::string> warnings;
    train_ = open_data(true, warnings);
    if (config_.eval.present()) eval_ = open_data(false, warnings);
    train::config::ReadContext context{r.strict, {}};
    model_ = ocr::models::build_model(config_.architecture, ocr::classes_of(*train_), context);
    model_->initialize(static_cast<uint64_t>(config_.global.seed));
    if (communicator_ && config_.global.use_sync_bn)
      train::dist::synchronize_batch_norms(*communicator_, *model_);
    task_ = ocr::make_task({config_, *model_, *train_, eval_.get(), communicator_}, context);
    warnings.insert(warnings.end(), context.warnings.begin(), context.warnings.end());
    if (leads())
      for (const std::string& w : warnings) log_warning(w);
    make_sampler();
    make_optimizer();
    make_mixed_precision();
  }

  int run() {
    if (leads()) describe();
    if (leads()) estimate();  // in copies of this process, while it has no other threads
    if (has_data_ && leads()) check_samples();  // the other ranks have the same data
    if (r_.dry_run) return kExitOk;
    make_loader();
    train::ThreadPool pool(threads());
    const train::PoolScope scope(&pool);
    train::Trainer trainer({.task = task_.get(),
                            .dataset = train_.get(),
                            .loader = loader_.get(),
                            .optimizer = optimizer_.get(),
                            .schedule = schedule_.get(),
                            .ema = ema_.get(),
                            .autocast = autocast_.get(),
                            .scaler = scaler_.get(),
                            .communicator = communicator_},
                           options(), [leads = leads()](const std::string& line) {
                             if (leads) log_info(line);
                           });
    begin(trainer);
    const train::TrainResult result = trainer.run();
    if (!loader_->bad().empty())
      log_warning(cat(ranks() > 1 ? cat("rank ", rank(), ": ") : "", loader_->bad().size(),
                      " samples were left out; the first: ", loader_->bad()[0].name, ": ",
                      loader_->bad()[0].reason));
    if (ranks() > 1 && leads() && result.seconds > 0)
      log_info(cat("sums of gradients over ", ranks(), " ranks took ",
                   static_cast<int>(1000 * result.reduce_seconds / result.seconds + .5) / 10.,
                   " % of the time of updates"));
    if (result.end == train::TrainResult::End::kSignal) {
      if (leads()) log_note("stopped by a signal; `--resume` goes on from here");
      return kExitInterrupted;
    }
    return kExitOk;
  }

 private:
  int threads() const {
    return r_.threads > 0 ? r_.threads : std::max(1, train::usable_cpus() / sharers_);
  }
  int rank() const { return communicator_ ? communicator_->rank() : 0; }
  int ranks() const { return communicator_ ? communicator_->size() : 1; }
  bool leads() const { return rank() == 0; }

  train::TrainerOptions options() const {
    train::TrainerOptions o = ocr::trainer_options(config_);
    if (r_.profile.empty() || !leads()) return o;
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

  void make_sampler() {
    sampler_ = ocr::make_sampler({.config = config_,
                                  .train = *train_,
                                  .samples = has_data_ ? train_->size() : kMadeUpSamples,
                                  .rank = rank(),
                                  .ranks = ranks()});
    if (has_data_) batches_ = static_cast<int64_t>(sampler_->epoch(0).size());
  }

  int workers() const { return std::min(config_.train.loader.num_workers, threads()); }

  void make_loader() {
    loader_ = std::make_unique<train::data::DataLoader>(
        *train_, *sampler_,
        train::data::LoaderOptions{.workers = workers(),
                                   .seed = static_cast<uint64_t>(config_.global.seed),
                                   .max_bad = r_.skip_bad,
                                   .whole = ranks() > 1});
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
    if (leads() && !autocast_->multiplies_bf16())
      log_note(
          "use_amp: values are rounded to 16 bits and computed in 32, which is no faster here; "
          "amp_dtype bfloat16 is, on a CPU with AVX512-BF16");
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
                 " samples; ", threads(), " threads",
                 ranks() > 1
                     ? cat(" in each of ", ranks(), " ranks",
                           config_.global.use_sync_bn ? ", statistics over all of them" : "")
                     : ""));
    if (threads() > train::usable_cpus())
      log_warning(cat(threads(), " threads on ", train::usable_cpus(),
                      " CPUs that this process may use",
                      ranks() > 1 ? ": mpirun binds ranks to cores, --bind-to none does not" : ""));
  }

  // A run that goes on has shown it already.
  void estimate() const {
    if (!r_.estimate) return;
    if (ranks() > 1) {
      if (r_.dry_run) log_note("no estimate with several ranks: it is made for one");
      return;
    }
    const train::config::GlobalConfig& g = config_.global;
    const bool goes_on = !g.checkpoints.empty() ||
                         (r_.resume && std::filesystem::exists(
                                           train::checkpoint_file(g.save_model_dir + "/latest")));
    if (goes_on && !r_.dry_run) return;
    tell_estimate({.config = config_,
                   .model = *model_,
                   .task = task_.get(),
                   .train = train_.get(),
                   .eval = eval_.get(),
                   .sampler = sampler_.get(),
                   .optimizer = optimizer_.get(),
                   .schedule = schedule_.get(),
                   .ema = ema_.get(),
                   .autocast = autocast_.get(),
                   .scaler = scaler_.get(),
                   .threads = threads(),
                   .workers = workers()},
                  r_.memory_limit);
  }

  void begin(train::Trainer& trainer) {
    const train::config::GlobalConfig& g = config_.global;
    if (r_.resume && trainer.resume_latest()) return;
    if (!g.checkpoints.empty()) return trainer.resume(g.checkpoints);
    if (g.pretrained_model.empty() || !leads()) return;  // the other ranks get rank 0's weights
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
  train::dist::Communicator* communicator_;  // null: one rank
  int sharers_;
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

// Ranks that are threads of this process.
int run_threads(const Request& r, int ranks) {
  int code = kExitOk;
  train::dist::run_ranks(ranks,
                         [&](train::dist::Communicator& c) {
                           const int mine = Run(r, &c, ranks).run();
                           if (c.rank() == 0) code = mine;
                         },
                         {.timeout_seconds = static_cast<double>(r.rank_timeout)});
  return code;
}

// What stands in the way of a rank's run before it begins. Usually the same for all of them: one of
// them says it, and all end in good order.
struct Setup {
  std::unique_ptr<Run> run;
  std::string error;
  int code = kExitOk;

  Setup(const Request& r, train::dist::Communicator& c, int sharers) {
    try {
      run = std::make_unique<Run>(r, &c, sharers);
    } catch (const train::ConfigError& e) {
      error = e.what();
      code = kExitUsage;
    } catch (const std::exception& e) {
      error = e.what();
      code = kExitFailed;
    }
    std::vector<double> codes(static_cast<size_t>(c.size()));
    codes[static_cast<size_t>(c.rank())] = code;
    c.all_reduce(std::span<double>(codes));
    const auto first = std::ranges::find_if(codes, [](double d) { return d != 0; });
    if (first == codes.end()) return;
    if (first - codes.begin() == c.rank()) log_fatal(error);
    code = static_cast<int>(*std::ranges::max_element(codes));
  }
};

// This process is one rank of several.
int run_process(const Request& r, const train::dist::Launch& launch) {
  using namespace std::chrono_literals;
  std::unique_ptr<train::dist::MpiRanks> ranks;
  try {
    ranks = train::dist::join_mpi(launch.size,
                                  {.timeout_seconds = static_cast<double>(r.rank_timeout)});
  } catch (const train::Error& e) {
    if (launch.rank == 0) throw;
    std::this_thread::sleep_for(1s);  // rank 0 says it, before mpirun ends it because of this one
    return kExitFailed;
  }
  try {
    const Setup setup(r, *ranks, launch.bound ? 1 : launch.local_size);
    const int code = setup.code == kExitOk ? setup.run->run() : setup.code;
    ranks->finish();
    return code;
  } catch (const train::dist::RankFailure& e) {
    if (e.report)
      log_fatal(e.what());
    else
      std::this_thread::sleep_for(5s);  // the rank that reports ends this one
  } catch (const std::exception& e) {
    log_fatal(cat("rank ", ranks->rank(), ": ", e.what()));
    ranks->say_failed(e.what());
    std::this_thread::sleep_for(100ms);  // for the word to arrive
  }
  ranks->abort(kExitFailed);
  return kExitFailed;
}

int run(const Request& r) {
  const auto launch = train::dist::find_launch();
  const bool launched = launch && launch->size > 1;
  if (r.ranks.empty()) return launched ? run_process(r, *launch) : Run(r).run();
  if (r.ranks == "mpi")
    return run_process(r, launch.value_or(train::dist::Launch{.by = "", .size = 0}));
  const int ranks = Given{"ranks", "--ranks", r.ranks}.whole(1, 1024);
  if (launched)
    throw train::ConfigError(
        "", 0, 0,
        cat("--ranks ", ranks, " makes ranks of this process, but ", launch->by,
            " started it as one of ", launch->size, ": leave one of them out"));
  return ranks == 1 ? Run(r).run() : run_threads(r, ranks);
}

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
  command.flag("dry_run", "say what it would take, check the data, train nothing",
               [r](const Given& g) { r->dry_run = g.truth(); });
  command.flag("no_estimate", "begin without finding out memory and time first",
               [r](const Given& g) { r->estimate = !g.truth(); });
  command.option(
      "memory_limit", "MIB", "do not begin where it would take more; 0: no limit",
      [r](const Given& g) { r->memory_limit = g.whole(0, 1 << 30); }, "what can be used");
  command.option(
      "skip_bad", "N", "train without up to N samples that cannot be used",
      [r](const Given& g) { r->skip_bad = g.whole(0); }, "0");
  command.option(
      "threads,t", "N", "of the computation",
      [r](const Given& g) { r->threads = g.whole(1, 1024); }, "all cores");
  command.option(
      "ranks", "N|mpi", "N: train as N ranks, threads of this process; mpi: as mpirun started it",
      [r](const Given& g) { r->ranks = g.text; }, "as started");
  command.option(
      "rank_timeout", "SECONDS", "how long a rank waits for another",
      [r](const Given& g) { r->rank_timeout = g.whole(1); }, std::to_string(kRankTimeout));
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
    return run(*r);
  });
}

}  // namespace app
