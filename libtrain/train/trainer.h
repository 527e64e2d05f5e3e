// Trainer: the loop of epochs and steps, with evaluation, checkpoints, logs and a way back.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "libtrain/amp/autocast.h"
#include "libtrain/amp/grad_scaler.h"
#include "libtrain/data/loader.h"
#include "libtrain/dist/reducer.h"
#include "libtrain/optim/ema.h"
#include "libtrain/optim/optimizer.h"
#include "libtrain/optim/schedule.h"
#include "libtrain/train/archive.h"
#include "libtrain/train/profiler.h"
#include "libtrain/train/run_log.h"

namespace train {

/// What is trained: a model, the loss of a batch, and how well it does.
class Task {
 public:
  virtual ~Task() = default;
  virtual nn::Module& model() = 0;
  /// The loss of a batch, one f32 element, its mean over the samples. Adds the parts of the loss
  /// that the log shall show to `parts`.
  virtual Variable loss(Tape& tape, const data::Batch& batch, Metrics& parts) = 0;
  /// Evaluates the model as it is (in evaluation mode, and with averaged weights if there are any).
  /// The first metric decides which checkpoint is best: larger is better. May be empty.
  virtual Metrics evaluate(Eager& eager) = 0;
};

/// What the run is made of; only the first three must be there. All outlive the trainer.
struct TrainerParts {
  Task* task = nullptr;
  const data::Dataset* dataset = nullptr;  // for the names of samples
  data::DataLoader* loader = nullptr;
  optim::Optimizer* optimizer = nullptr;
  const optim::Schedule* schedule = nullptr;
  optim::Ema* ema = nullptr;
  const amp::Autocast* autocast = nullptr;
  amp::GradScaler* scaler = nullptr;
  dist::Communicator* communicator = nullptr;
};

struct TrainerOptions {
  int64_t epochs = 1;
  int64_t accumulate = 1;                         // batches per update
  uint64_t seed = 1024;                           // of dropout
  std::string folder;                             // save_model_dir; empty: nothing is written
  std::string config;                             // written as config.yml
  int print_every = 10, smooth_window = 20;       // updates; values
  int64_t eval_from = 0, eval_every = 0;          // updates; 0: at the end of every epoch
  int64_t save_every_epochs = 0, save_every = 0;  // iter_epoch_N; latest, in updates: 0 never
  double clip_norm = 0, clip_norm_global = 0, clip_value = 0;  // 0: off
  /// Updates with a NaN or Inf (in loss or gradients) are left out. More than so many in a row end
  /// the run, or bring weights and optimiser back to the latest checkpoint, at most `max_rollbacks`
  /// times, and go on behind the batches that did it. (A loss scale of 65536 needs 16 to reach 1.)
  int64_t max_non_finite = 20, max_rollbacks = 0;
  int64_t stop_after = 0;  // updates in this process; 0: no limit
  /// Profiles the first so many updates of this process (0: none; an evaluation between them counts
  /// too) and hands the profile over once: when they are done, or when the run ends before.
  int64_t profile_updates = 0;
  std::function<void(const Profiler&)> on_profile = {};
};

struct TrainResult {
  enum class End : uint8_t { kFinished, kSignal, kLimit };
  End end = End::kFinished;
  int64_t global_step = 0, skipped = 0, rollbacks = 0;
  double best = 0;
  int64_t best_step = -1;
  double seconds = 0, reduce_seconds = 0;  // of updates in this process; of it in gradients' sums
};

/// Training that diverged; the message names the samples of the last update.
class DivergedError : public Error {
 public:
  using Error::Error;
};

/// Checkpoints: "latest" (every epoch, and when stopped), "best_accuracy", "iter_epoch_N"; files
/// "<folder>/<name>.safetensors" with everything that the rest of the run depends on. With the same
/// program, instruction set, threads and ranks, a run that was interrupted and resumed ends with
/// the same bits as one that was not.
class Trainer {
 public:
  Trainer(const TrainerParts& parts, const TrainerOptions& options,
          std::function<void(const std::string&)> log = {});
  ~Trainer();

  /// Goes on from a checkpoint, with or without its extension. Throws FormatError when it does not
  /// fit the run.
  void resume(const std::string& path);
  /// Goes on from the folder's latest checkpoint if it has one; true if so.
  bool resume_latest();
  /// Trains to the end, a signal (SIGTERM, SIGINT, SIGUSR1: saved first) or the limit.
  TrainResult run();
  void save(const std::string& name);

 private:
  struct Window;  // sums since the last progress line
  std::vector<data::Batch> next_batches();
  void update(const std::vector<data::Batch>& batches, Window& window);
  double backward(const std::vector<data::Batch>& batches, Metrics& parts);
  bool gradients_finite();
  void clip();
  void left_out(const std::vector<data::Batch>& batches, double loss);
  void roll_back(const std::string& why);
  void watch_loss(double loss);
  void report(Window& window);
  void after_update();
  void end_profile();
  void end_epoch();
  void evaluate();
  bool stop_wanted();
  bool has_ranks() const { return reducer_ != nullptr; }
  void read_checkpoint(const std::string& path, bool must_be_ours);
  void follow_ranks(const std::string& place);
  void visit_state(StateVisitor& visitor);
  bool leads() const { return !parts_.communicator || parts_.communicator->rank() == 0; }

  TrainerParts parts_;
  TrainerOptions options_;
  std::vector<nn::Parameter> parameters_;
  std::unique_ptr<dist::GradientReducer> reducer_;
  Eager eager_;
  std::unique_ptr<Profiler> profiler_;  // after what it watches
  RunLog log_;
  SmoothedMetrics smoothed_;
  double seconds_ = 0, timed_steps_ = 0;  // of this process, for the remaining time
  int64_t in_row_ = 0;                    // updates left out since the last good one
  double reduce_seconds_ = 0;             // in sums of gradients, of this process
  double last_loss_ = 0;
  int64_t same_loss_ = 0;  // updates with exactly that loss, in a row
  // What a checkpoint holds besides the parts' own state.
  int64_t epoch_ = 0, batch_ = 0;  // where the next update begins
  int64_t global_step_ = 0, skipped_ = 0, rollbacks_ = 0, evaluated_step_ = -1;
  double best_ = 0;
  int64_t best_step_ = -1;
  int64_t done_here_ = 0;
};

/// Sets a model's parameters and buffers from a checkpoint (ours or any safetensors file); weights
/// only.
struct WeightReport {
  int64_t kept = 0;
  std::vector<std::string> missing, unknown, other_shape;  // left as they were; not in the model
};
/// `path` with or without extension. Uses the averages of a checkpoint that has some if `averages`.
/// Throws FormatError when nothing fits.
WeightReport load_weights(nn::Module& model, const std::string& path, bool averages = true);

/// A checkpoint's file: `path` itself, or with ".safetensors".
std::string checkpoint_file(const std::string& path);

}  // namespace train
