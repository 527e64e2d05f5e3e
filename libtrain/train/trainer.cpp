#include "libtrain/train/trainer.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "libtrain/core/child.h"
#include "libtrain/cpu/isa.h"
#include "libtrain/dist/collect.h"
#include "libtrain/optim/gradients.h"
#include "libtrain/train/signals.h"

namespace train {
namespace {

constexpr int64_t kStandingLoss = 50;  // updates with the very same loss until a warning

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void make_folders(const std::string& path) {
  for (size_t at = 1; at <= path.size(); ++at)
    if (at == path.size() || path[at] == '/')
      if (::mkdir(path.substr(0, at).c_str(), 0777) != 0 && errno != EEXIST)
        throw DeviceError(path.substr(0, at) + ": cannot make the folder: " + std::strerror(errno));
}

// What a killed run left half written.
void remove_temporaries(const std::string& folder) {
  DIR* dir = ::opendir(folder.c_str());
  if (!dir) return;
  while (const dirent* entry = ::readdir(dir))
    if (std::string_view(entry->d_name).ends_with(".safetensors.tmp"))
      ::unlink((folder + "/" + entry->d_name).c_str());
  ::closedir(dir);
}

std::string prepare(const std::string& folder, const std::string& config) {
  if (folder.empty()) return folder;
  make_folders(folder);
  remove_temporaries(folder);
  if (!config.empty()) write_file_atomically(folder + "/config.yml", config);
  return folder;
}

}  // namespace

// Sums since the last progress line.
struct Trainer::Window {
  double begin = now(), reader = 0;
  int64_t updates = 0, samples = 0;
};

Trainer::Trainer(const TrainerParts& parts, const TrainerOptions& options,
                 std::function<void(const std::string&)> log)
    : parts_(parts),
      options_(options),
      parameters_(parts.task->model().parameters()),
      log_(prepare(leads() ? options.folder : "", options.config), std::move(log)),
      smoothed_(options.smooth_window) {
  if (options.accumulate < 1 || options.epochs < 0 || options.print_every < 1)
    throw ConfigError("", 0, 0, "training needs epochs >= 0, accumulate and print_every >= 1");
  if (!parts_.communicator || parts_.communicator->size() == 1) return;
  dist::broadcast_parameters(*parts_.communicator, parameters_);
  reducer_ = std::make_unique<dist::GradientReducer>(*parts_.communicator, parameters_);
}

Trainer::~Trainer() = default;

void Trainer::visit_state(StateVisitor& visitor) {
  {
    const StateVisitor::Scope scope(visitor, "model");
    for (nn::StateEntry& e : parts_.task->model().state_dict()) {
      Tensor saved = e.variable.value();
      visitor.tensor(e.name, visitor.loading() ? e.variable.writable() : saved);
    }
  }
  const auto part = [&](const char* name, auto* object) {
    const StateVisitor::Scope scope(visitor, name);
    if (object) object->visit_state(visitor);
  };
  part("optimizer", parts_.optimizer);
  part("ema", parts_.ema);
  part("scaler", parts_.scaler);
  const StateVisitor::Scope scope(visitor, "trainer");
  visitor.value("epoch", epoch_);
  visitor.value("batch", batch_);
  visitor.value("global_step", global_step_);
  visitor.value("skipped", skipped_);
  visitor.value("rollbacks", rollbacks_);
  visitor.value("in_row", in_row_);
  visitor.value("evaluated_step", evaluated_step_);
  visitor.value("best", best_);
  visitor.value("best_step", best_step_);
  // Equal bits are promised for equal ones of these.
  std::string place = cat(cpu::isa_name(), ", ", current_threads(), " threads, ",
                          parts_.communicator ? parts_.communicator->size() : 1, " ranks");
  const std::string here = place;
  visitor.value("place", place);
  if (place != here) follow_ranks(place);
  if (place != here)
    log_.line("warning: the checkpoint was made with " + place + "; with " + here +
              " the last bits may differ");
}

void Trainer::save(const std::string& name) {
  if (options_.folder.empty() || !leads()) return;
  ArchiveWriter writer;
  visit_state(writer);
  writer.write(checkpoint_file(options_.folder + "/" + name));
}

void Trainer::resume(const std::string& path) {
  read_checkpoint(checkpoint_file(path), true);
  log_.line(cat("resumed from ", checkpoint_file(path), " at epoch ", epoch_ + 1, ", batch ",
                batch_, ", global_step ", global_step_));
}

// Rank 0 reads the file, and the others have it from rank 0: they need no common file system.
void Trainer::read_checkpoint(const std::string& path, bool must_be_ours) {
  std::string bytes;
  if (leads()) bytes = read_file(path);
  if (has_ranks()) dist::broadcast_text(*parts_.communicator, bytes);
  ArchiveReader reader = ArchiveReader::from_bytes(std::move(bytes), path);
  if (must_be_ours && !reader.is_ours())
    throw FormatError(path +
                      ": holds weights but no state of a training; load it as pretrained_model");
  visit_state(reader);
  if (must_be_ours) reader.finish();
}

// A batch of one rank count is another place in the epoch with another.
void Trainer::follow_ranks(const std::string& place) {
  const size_t comma = place.rfind(", ");
  int before = 0;
  if (comma == std::string::npos || std::sscanf(place.c_str() + comma, ", %d ranks", &before) != 1)
    return;
  const int now = parts_.communicator ? parts_.communicator->size() : 1;
  if (before < 1 || before == now) return;
  batch_ = batch_ * before / now;
  log_.line(cat("warning: the checkpoint was made with ", before, " ranks, this run has ", now,
                ": the global batch, the number of updates and the samples of the rest of this "
                "epoch are others"));
}

bool Trainer::resume_latest() {
  const std::string path = options_.folder + "/latest";
  if (options_.folder.empty()) return false;
  double there = leads() && ::access(checkpoint_file(path).c_str(), F_OK) == 0;
  if (has_ranks()) there = parts_.communicator->sum(there);
  if (there == 0) return false;
  resume(path);
  return true;
}

TrainResult Trainer::run() {
  const SignalWatch watch;
  if (has_ranks()) dist::broadcast_state(*parts_.communicator, parts_.task->model());
  if (done_here_ < options_.profile_updates) profiler_ = std::make_unique<Profiler>(eager_);
  TrainResult result;
  const auto finish = [&](TrainResult::End end) {
    end_profile();
    result.end = end;
    result.global_step = global_step_;
    result.skipped = skipped_;
    result.rollbacks = rollbacks_;
    result.best = best_;
    result.best_step = best_step_;
    result.seconds = seconds_;
    result.reduce_seconds = reduce_seconds_;
    return result;
  };
  while (epoch_ < options_.epochs) {
    parts_.loader->start(epoch_, batch_);
    Window window;
    for (;;) {
      const std::vector<data::Batch> batches = next_batches();
      if (batches.empty()) break;
      update(batches, window);
      if (global_step_ % options_.print_every == 0) report(window);
      after_update();
      if (stop_wanted()) {
        save("latest");
        const bool signal = SignalWatch::received() != 0;
        log_.line(cat(signal ? "stopped by a signal" : "stopped at the limit of updates",
                      "; saved at global_step ", global_step_));
        return finish(signal ? TrainResult::End::kSignal : TrainResult::End::kLimit);
      }
    }
    if (window.updates > 0) report(window);
    end_epoch();
  }
  log_.line(cat("finished: ", epoch_, " epochs, global_step ", global_step_));
  return finish(TrainResult::End::kFinished);
}

std::vector<data::Batch> Trainer::next_batches() {
  std::vector<data::Batch> batches;
  while (static_cast<int64_t>(batches.size()) < options_.accumulate) {
    auto batch = parts_.loader->next();
    if (!batch) break;
    batches.push_back(std::move(*batch));
  }
  return batches;
}

// Forward and backward of all parts; the loss, averaged over them.
double Trainer::backward(const std::vector<data::Batch>& batches, Metrics& parts) {
  const int rank = parts_.communicator ? parts_.communicator->rank() : 0;
  const int ranks = parts_.communicator ? parts_.communicator->size() : 1;
  const auto n = static_cast<double>(batches.size());
  const double scale = (parts_.scaler ? parts_.scaler->scale() : 1) / n;
  double total = 0;
  for (size_t i = 0; i < batches.size(); ++i) {
    const auto random =
        data::sample_random(options_.seed, global_step_, static_cast<int64_t>(i) * ranks + rank);
    Tape tape(eager_, /*record=*/true, uint64_t{random.bits(1)} << 32 | random.bits(0));
    tape.set_autocast(parts_.autocast);
    Metrics these;
    const Variable loss = parts_.task->loss(tape, batches[i], these);
    for (size_t m = 0; m < these.size(); ++m)
      if (i == 0)
        parts.emplace_back(these[m].first, these[m].second / n);
      else if (m < parts.size())
        parts[m].second += these[m].second / n;
    if (reducer_ && i + 1 == batches.size()) reducer_->attach(tape);
    const Tensor seed = Tensor::from<float>(loss.shape(), {static_cast<float>(scale)});
    tape.backward(loss, seed);
    total += double{loss.value().data<float>()[0]} / n;
  }
  if (!reducer_) return total;
  reducer_->finish();
  reduce_seconds_ += reducer_->take_seconds();
  // What the log shows is the mean over ranks.
  std::vector<double> shown{total};
  for (const auto& [name, value] : parts) shown.push_back(value);
  parts_.communicator->all_reduce(std::span<double>(shown));
  for (size_t m = 0; m < parts.size(); ++m) parts[m].second = shown[m + 1] / ranks;
  return shown[0] / ranks;
}

bool Trainer::gradients_finite() {
  if (parts_.scaler) {
    const bool finite = parts_.scaler->unscale(parameters_);
    parts_.scaler->update(finite);
    return finite;
  }
  return optim::gradient_norm(parameters_).non_finite == 0;
}

void Trainer::clip() {
  if (options_.clip_value > 0) optim::clip_by_value(parameters_, options_.clip_value);
  if (options_.clip_norm > 0) optim::clip_by_norm(parameters_, options_.clip_norm);
  if (options_.clip_norm_global > 0)
    optim::clip_by_global_norm(parameters_, options_.clip_norm_global);
}

void Trainer::update(const std::vector<data::Batch>& batches, Window& window) {
  nn::Module& model = parts_.task->model();
  model.train(true);
  // A forward pass with NaN spoils running statistics too: they go back with a left-out update.
  std::vector<nn::Buffer> buffers = model.buffers();
  std::vector<Tensor> before;
  for (const nn::Buffer& b : buffers) before.push_back(b.variable.value().clone());
  const double rate = parts_.schedule->at(global_step_);
  parts_.optimizer->learning_rate = rate;
  parts_.optimizer->clear_grad();
  Metrics parts;
  const double loss = backward(batches, parts);
  ++global_step_;
  ++done_here_;
  batch_ = batches.back().number + 1;
  const bool finite = gradients_finite();
  if (finite && (reducer_ || std::isfinite(loss))) {
    clip();
    parts_.optimizer->step();
    if (parts_.ema) parts_.ema->update();
    in_row_ = 0;
    Metrics shown{{"lr", rate}, {"loss", loss}};
    shown.insert(shown.end(), parts.begin(), parts.end());
    smoothed_.add(shown);
    watch_loss(loss);
  } else {
    for (size_t i = 0; i < buffers.size(); ++i)
      std::memcpy(buffers[i].variable.writable().raw(), before[i].raw(), before[i].bytes());
    left_out(batches, loss);
  }
  ++window.updates;
  for (const data::Batch& b : batches) window.samples += b.size();
}

void Trainer::left_out(const std::vector<data::Batch>& batches, double loss) {
  ++skipped_;
  std::string names;
  int64_t count = 0;
  for (const data::Batch& b : batches)
    for (const int64_t index : b.indices)
      if (++count <= 8)
        names += (count > 1 ? ", " : "") +
                 (parts_.dataset ? parts_.dataset->name(index) : std::to_string(index));
  if (count > 8) names += cat(" and ", count - 8, " more");
  const std::string what =
      cat(std::isfinite(loss) ? "NaN or Inf in the gradients" : "the loss is NaN or Inf",
          " at global_step ", global_step_);
  log_.line(what + ": update left out; its samples: " + names);
  if (++in_row_ > options_.max_non_finite)
    roll_back(cat(what, ", ", in_row_, " updates in a row; the last one's samples: ", names));
}

void Trainer::roll_back(const std::string& why) {
  const std::string path = checkpoint_file(options_.folder + "/latest");
  double there = leads() && !options_.folder.empty() && ::access(path.c_str(), F_OK) == 0;
  if (has_ranks()) there = parts_.communicator->sum(there);
  const bool possible = there > 0;
  if (rollbacks_ >= options_.max_rollbacks || !possible)
    throw DivergedError(why + ". Lower the learning rate, or look at these samples");
  const int64_t epoch = epoch_, batch = batch_, step = global_step_, skipped = skipped_,
                done = rollbacks_ + 1;
  read_checkpoint(path, false);
  epoch_ = epoch, batch_ = batch, global_step_ = step, skipped_ = skipped, rollbacks_ = done;
  in_row_ = 0;
  log_.line(cat(why, ": back to the weights of ", path, " (", rollbacks_, " of ",
                options_.max_rollbacks, ")"));
}

// A net whose outputs have died shows itself by a loss that does not move at all.
void Trainer::watch_loss(double loss) {
  same_loss_ = loss == last_loss_ ? same_loss_ + 1 : 0;
  last_loss_ = loss;
  if (same_loss_ == kStandingLoss)
    log_.line(cat("warning: the loss has been exactly ", loss, " for ", kStandingLoss,
                  " updates: the outputs may be dead; lower the learning rate or start again"));
}

void Trainer::report(Window& window) {
  const double seconds = now() - window.begin;
  const auto updates = static_cast<double>(window.updates);
  seconds_ += seconds;
  timed_steps_ += updates;
  const int64_t per_epoch =
      (parts_.loader->batches() + options_.accumulate - 1) / options_.accumulate;
  const int64_t left = (options_.epochs - epoch_) * per_epoch -
                       (batch_ + options_.accumulate - 1) / options_.accumulate;
  log_.progress({.epoch = epoch_ + 1,
                 .epochs = options_.epochs,
                 .global_step = global_step_,
                 .metrics = smoothed_.medians(),
                 .reader_cost = parts_.loader->take_wait_seconds() / updates,
                 .batch_cost = seconds / updates,
                 .samples = static_cast<double>(window.samples) / updates,
                 .eta_seconds = static_cast<double>(left) * seconds_ / timed_steps_,
                 .memory_bytes = peak_memory()});
  window = Window();
}

void Trainer::end_profile() {
  if (!profiler_) return;
  if (leads() && options_.on_profile) options_.on_profile(*profiler_);
  profiler_.reset();
}

void Trainer::after_update() {
  const TrainerOptions& o = options_;
  if (done_here_ >= o.profile_updates) end_profile();
  if (o.eval_every > 0 && global_step_ > o.eval_from &&
      (global_step_ - o.eval_from) % o.eval_every == 0)
    evaluate();
  if (o.save_every > 0 && global_step_ % o.save_every == 0) save("latest");
}

void Trainer::end_epoch() {
  ++epoch_;
  batch_ = 0;
  if (options_.eval_every == 0 || epoch_ == options_.epochs) evaluate();
  save("latest");
  if (options_.save_every_epochs > 0 && epoch_ % options_.save_every_epochs == 0)
    save(cat("iter_epoch_", epoch_));
}

void Trainer::evaluate() {
  if (evaluated_step_ == global_step_) return;
  evaluated_step_ = global_step_;
  nn::Module& model = parts_.task->model();
  model.train(false);
  Metrics metrics;
  {
    const optim::EmaScope averages(parts_.ema);
    // Running statistics are each rank's own unless batch norm is synchronised: rank 0's count.
    if (has_ranks()) dist::broadcast_state(*parts_.communicator, model);
    metrics = parts_.task->evaluate(eager_);
  }
  model.train(true);
  if (metrics.empty()) return;
  const bool better = best_step_ < 0 || metrics[0].second > best_;
  if (better) {
    best_ = metrics[0].second;
    best_step_ = global_step_;
  }
  std::string text = "eval:";
  for (const auto& [name, value] : metrics) text += cat(" ", name, ": ", value, ",");
  log_.line(cat(text, " best ", metrics[0].first, ": ", best_, " at global_step ", best_step_));
  log_.metrics("eval", epoch_, global_step_, metrics);
  if (better) save("best_accuracy");
}

bool Trainer::stop_wanted() {
  const bool here = SignalWatch::received() != 0 ||
                    (options_.stop_after > 0 && done_here_ >= options_.stop_after);
  if (!reducer_) return here;
  return parts_.communicator->sum(here) > 0;  // all ranks stop at the same update
}

}  // namespace train
