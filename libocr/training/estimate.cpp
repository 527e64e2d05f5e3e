#include "libocr/training/estimate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <opencv2/core.hpp>

#include "libocr/image/encode.h"
#include "libocr/training/export.h"
#include "libocr/training/optimizer.h"
#include "libocr/training/own_widths.h"
#include "libtrain/core/child.h"
#include "libtrain/train/profiler.h"

namespace ocr {
namespace {

using train::Tape;
using train::Variable;
using train::data::Batch;
using train::data::BatchPlan;
using train::data::SampleRequest;

constexpr size_t kSizes = 6;                        // of batches that a trial has
constexpr double kTwoPasses = 2.2;                  // the first also makes plans
constexpr int kMostPasses = 5;                      // timed, over the sizes
constexpr int64_t kEvaluated = 8;                   // samples
constexpr double kEvaluating = 2;                   // seconds, where a sample takes long
constexpr int64_t kWorkerBytes = int64_t{6} << 20;  // what a thread that reads keeps for itself

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A batch and how much of an epoch is like it.
struct Kind {
  BatchPlan plan;
  double weight = 0;

  double samples() const { return static_cast<double>(plan.indices.size()); }
  // Where the sampler says no size all have one.
  double pixels() const { return samples() * std::max(1, plan.height) * std::max(1, plan.width); }
};

double sum_of_pixels(const std::vector<Kind>& kinds) {
  double sum = 0;
  for (const Kind& k : kinds) sum += k.pixels();
  return sum;
}

// Batches that stand for those of an epoch.
std::vector<Kind> kinds_of(std::vector<BatchPlan> epoch) {
  const auto size = [](const BatchPlan& p) { return Kind{p, 0}.pixels(); };
  std::ranges::stable_sort(epoch, [&](const auto& a, const auto& b) { return size(a) < size(b); });
  std::map<std::pair<int, int>, Kind> by_size;  // the largest of each size is the last one
  for (const BatchPlan& p : epoch) {
    Kind& kind = by_size[{p.height, p.width}];
    kind = {p, kind.weight + 1};
  }
  std::vector<Kind> kinds;
  if (by_size.size() <= kSizes) {
    for (const auto& [hw, kind] : by_size) kinds.push_back(kind);
  } else {
    for (size_t i = 0; i + 1 < kSizes; ++i)  // the middles of equal parts
      kinds.push_back({epoch[(2 * i + 1) * epoch.size() / (2 * (kSizes - 1))], 1});
    kinds.push_back({epoch.back(), 0});  // for the memory alone
  }
  // Largest first: what the largest leaves behind serves the others.
  std::ranges::stable_sort(kinds, std::greater(), &Kind::pixels);
  return kinds;
}

bool all_alike(const std::vector<BatchPlan>& epoch) {
  return std::ranges::all_of(epoch, [&](const BatchPlan& p) {
    return p.height == epoch[0].height && p.width == epoch[0].width &&
           p.indices.size() == epoch[0].indices.size();
  });
}

// 2^-halvings of each batch, but a sample at least.
std::vector<Kind> part_of(std::vector<Kind> kinds, int halvings) {
  for (Kind& k : kinds)
    k.plan.indices.resize(std::max<size_t>(1, k.plan.indices.size() >> halvings));
  return kinds;
}

// Samples as a data set would have them, where there is none: pictures with dark lines, and labels
// of usual lengths.
class MadeUp {
 public:
  MadeUp(const OcrDataset& data, const train::config::TrainingConfig& config) : data_(data) {
    const std::string& type = config.architecture.model_type;
    if (type == "det")
      make_page();
    else if (data.encoder())
      make_lines(*data.encoder());
    else
      make_classes(config.global.label_list);
  }
  train::data::Sample get(const SampleRequest& request) const {
    Sample raw;
    raw.file = raw.image_name = "a made-up sample";
    raw.encoded = picture_;
    raw.label = labels_[static_cast<size_t>(request.index) % labels_.size()];
    return data_.fields_of(data_.load(std::move(raw), request));
  }

 private:
  // Grey noise with the dark rectangles given: neither quicker to decode nor to learn than pages.
  void draw(int width, int height, const std::vector<cv::Rect>& dark) {
    cv::Mat page(height, width, CV_8UC3);
    cv::RNG random(1);
    random.fill(page, cv::RNG::UNIFORM, 200, 256);
    for (const cv::Rect& r : dark) {
      cv::Mat line = page(r);
      random.fill(line, cv::RNG::UNIFORM, 0, 200);
    }
    const std::vector<uint8_t> png =
        encode_png({page.data, width, height, static_cast<ptrdiff_t>(page.step)});
    picture_.assign(png.begin(), png.end());
  }
  void make_page() {
    constexpr int kWidth = 960, kHeight = 1280;
    std::vector<cv::Rect> lines;
    std::string label = "[";
    for (int y = 40; y + 40 < kHeight; y += 60) {
      const cv::Rect r(60 + y % 7 * 20, y, 300 + y % 11 * 40, 28);
      lines.push_back(r);
      label += train::cat(label.size() > 1 ? ", " : "", R"({"transcription": "line", "points": [[)",
                          r.x, ",", r.y, "],[", r.x + r.width, ",", r.y, "],[", r.x + r.width, ",",
                          r.y + r.height, "],[", r.x, ",", r.y + r.height, "]]}");
    }
    labels_ = {label + "]"};
    draw(kWidth, kHeight, lines);
  }
  void make_lines(const TextEncoder& encoder) {
    const auto& entries = encoder.dictionary().entries();
    const size_t length = static_cast<size_t>(std::clamp(encoder.max_text_length() / 2, 1, 20));
    for (size_t i = 0; i < 64; ++i) {
      std::string text;
      for (size_t c = 0; c < length; ++c) {
        const std::string& entry = entries[(i * 131 + c * 17) % entries.size()];
        text += entry.empty() || entry == " " ? entries[0] : entry;
      }
      labels_.push_back(text);
    }
    draw(320, 48, {{10, 10, 300, 28}});
  }
  void make_classes(const std::vector<std::string>& classes) {
    labels_ = classes.empty() ? std::vector<std::string>{"0"} : classes;
    draw(320, 48, {{10, 10, 300, 28}});
  }

  const OcrDataset& data_;
  std::string picture_;
  std::vector<std::string> labels_;
};

class TrialData final : public train::data::Dataset {
 public:
  TrialData(const OcrDataset& data, const train::config::TrainingConfig& config) : data_(data) {
    if (data.size() == 0) made_up_ = std::make_unique<MadeUp>(data, config);
  }
  int64_t size() const override { return data_.size(); }
  train::data::Sample get(const SampleRequest& request) const override {
    return made_up_ ? made_up_->get(request) : data_.get(request);
  }
  std::string name(int64_t index) const override {
    return made_up_ ? "a made-up sample" : data_.name(index);
  }

 private:
  const OcrDataset& data_;
  std::unique_ptr<MadeUp> made_up_;
};

class TrialSampler final : public train::data::BatchSampler {
 public:
  TrialSampler(const std::vector<Kind>& kinds, int passes) {
    for (int p = 0; p < passes; ++p)
      for (const Kind& k : kinds) plans_.push_back(k.plan);
  }
  std::vector<BatchPlan> epoch(int64_t) const override { return plans_; }

 private:
  std::vector<BatchPlan> plans_;
};

// What a trial found. Means over the kinds of batches, as an epoch has them.
struct Trial {
  double samples = 0, pixels = 0;       // of a batch
  double seconds = 0;                   // of a batch without reading it
  double flops = 0;                     // of a batch
  double read_seconds = 0;              // of a sample
  double batch_bytes = 0;               // of the largest
  double evaluate_seconds = 0;          // of a sample
  double memory = 0;                    // at most, without the evaluation
  double pool_peak = 0, pool_size = 0;  // of it, of the memory pool: in tensors at most; in all
  double evaluate_memory = 0;           // what the evaluation and a checkpoint add to it
  double pass_seconds = 0;              // of a batch of each kind, and of reading them
};

// The task with a watch in its hand.
class WatchedTask final : public train::Task {
 public:
  struct Step {
    int64_t number;
    double begin, wait, bytes;
    int64_t samples;
  };

  WatchedTask(const EstimateParts& parts, Trial& trial) : parts_(parts), trial_(trial) {}
  void set_loader(train::data::DataLoader* loader) { loader_ = loader; }

  train::nn::Module& model() override { return parts_.task->model(); }
  Variable loss(Tape& tape, const Batch& batch, train::Metrics& parts) override {
    double bytes = 0;
    for (const train::Tensor& t : batch.fields) bytes += static_cast<double>(t.bytes());
    steps.push_back({batch.number, now(), loader_->take_wait_seconds(), bytes, batch.size()});
    return parts_.task->loss(tape, batch, parts);
  }
  train::Metrics evaluate(train::Eager& eager) override {
    end = now();
    trial_.memory = static_cast<double>(train::peak_memory());
    const train::MemoryPool::Stats pool = eager.memory().stats();
    trial_.pool_peak = static_cast<double>(pool.peak);
    trial_.pool_size = static_cast<double>(pool.used + pool.kept);
    double more = 0;
    if (parts_.eval && parts_.eval->size() > 0) more = evaluate_some(eager);
    write_checkpoint();
    trial_.evaluate_memory = static_cast<double>(train::peak_memory()) - trial_.memory + more;
    return {};
  }

  std::vector<Step> steps;
  double end = 0;

 private:
  // Samples from all of the set. Returns what a whole evaluation will hold beyond these.
  double evaluate_some(train::Eager& eager) {
    const OcrDataset& data = *parts_.eval;
    const int64_t n = std::min(data.size(), kEvaluated);
    const double begin = now();
    double more = 0;
    if (const auto resize =
            own_width_resize(parts_.config, input_size(parts_.config, parts_.model))) {
      double bytes = 0;
      int64_t lines = 0;
      const auto stride = static_cast<int>(std::min<int64_t>(data.size() / n, 1 << 30));
      read_at_own_widths(parts_.model, eager, data, *resize, data.encoder()->dictionary(), 0,
                         stride, [&](const Sample& s, const CtcLine&) {
                           bytes += static_cast<double>(s.image.total() * s.image.elemSize());
                           ++lines;
                         });
      if (lines == 0) return 0;
      trial_.evaluate_seconds = (now() - begin) / static_cast<double>(lines);
      more = bytes / static_cast<double>(lines) *
             static_cast<double>(std::min(kOwnWidthWindow, data.size()));
    } else {
      int64_t read = 0;
      for (int64_t i = 0; i < n && (read == 0 || now() - begin < kEvaluating); ++i) {
        Sample sample;
        try {
          sample = data.load({.index = i * data.size() / n});
        } catch (const train::Error&) {
          continue;  // the check of the data says it
        }
        const train::Tensor image = field_of(sample, "image");
        const train::Shape s = image.shape();
        Tape tape(eager, /*record=*/false);
        parts_.model(tape, Variable::input(image.reshaped({1, s[0], s[1], s[2]})));
        ++read;
      }
      if (read > 0) trial_.evaluate_seconds = (now() - begin) / static_cast<double>(read);
    }
    return more;
  }
  void write_checkpoint() {
    train::ArchiveWriter writer;
    for (train::nn::StateEntry& e : model().state_dict()) {
      train::Tensor saved = e.variable.value();
      writer.tensor(e.name, saved);
    }
    const auto part = [&](const char* name, auto* object) {
      const train::StateVisitor::Scope scope(writer, name);
      if (object) object->visit_state(writer);
    };
    part("optimizer", parts_.optimizer);
    part("ema", parts_.ema);
    writer.bytes();
  }

  const EstimateParts& parts_;
  Trial& trial_;
  train::data::DataLoader* loader_ = nullptr;
};

double median(std::vector<double> v) {
  std::ranges::sort(v);
  return v.size() % 2 ? v[v.size() / 2] : (v[v.size() / 2 - 1] + v[v.size() / 2]) / 2;
}

// Means of what the steps took, over the kinds of batches.
void read_off(const WatchedTask& task, const std::vector<Kind>& kinds, Trial& trial) {
  if (task.steps.empty()) throw train::Error("none of the samples that were tried can be used");
  std::vector<std::vector<double>> seconds(kinds.size());
  double waits = 0, samples = 0;
  for (size_t i = 0; i < task.steps.size(); ++i) {
    const WatchedTask::Step& s = task.steps[i];
    const bool last = i + 1 == task.steps.size();
    const double end = last ? task.end : task.steps[i + 1].begin - task.steps[i + 1].wait;
    const auto number = static_cast<size_t>(s.number);
    // Plans and packs are made in the first pass, and operations counted.
    if (number >= kinds.size()) seconds[number % kinds.size()].push_back(end - s.begin);
    if (i > 0 || last) waits += s.wait, samples += static_cast<double>(s.samples);
    trial.batch_bytes = std::max(trial.batch_bytes, s.bytes);
  }
  trial.read_seconds = samples > 0 ? waits / samples : 0;
  double weights = 0, all_pixels = 0;
  for (size_t k = 0; k < kinds.size(); ++k) {
    all_pixels += kinds[k].pixels();
    if (seconds[k].empty()) continue;
    const double t = median(seconds[k]), w = kinds[k].weight;
    trial.pass_seconds += t + trial.read_seconds * kinds[k].samples();
    trial.seconds += w * t;
    trial.samples += w * kinds[k].samples();
    trial.pixels += w * kinds[k].pixels();
    weights += w;
  }
  if (weights == 0) throw train::Error("none of the samples that were tried can be used");
  trial.seconds /= weights;
  trial.samples /= weights;
  trial.pixels /= weights;
  trial.flops *= trial.pixels / all_pixels;  // was: of one batch of each kind
}

// One pass over the kinds to warm up, and for the memory, then some with a watch.
Trial run_trial(const EstimateParts& parts, const std::vector<Kind>& kinds, int passes) {
  cv::setNumThreads(1);
  train::ThreadPool pool(parts.threads);
  const train::PoolScope scope(&pool);
  const TrialData data(*parts.train, parts.config);
  const TrialSampler sampler(kinds, 1 + passes);
  train::data::DataLoader loader(
      data, sampler,
      {.seed = static_cast<uint64_t>(parts.config.global.seed), .max_bad = int64_t{1} << 40});
  Trial trial;
  WatchedTask task(parts, trial);
  task.set_loader(&loader);
  train::TrainerOptions options = trainer_options(parts.config);
  options.folder = options.config = "";
  options.epochs = 1;
  options.accumulate = 1;
  options.print_every = 1 << 30;
  options.eval_every = options.save_every = options.save_every_epochs = 0;
  options.profile_updates = static_cast<int64_t>(kinds.size());
  options.on_profile = [&](const train::Profiler& profiler) {
    for (const auto& row : profiler.rows()) trial.flops += row.flops;
  };
  train::Trainer trainer({.task = &task,
                          .dataset = &data,
                          .loader = &loader,
                          .optimizer = parts.optimizer,
                          .schedule = parts.schedule,
                          .ema = parts.ema,
                          .autocast = parts.autocast,
                          .scaler = parts.scaler},
                         options);
  trainer.run();
  read_off(task, kinds, trial);
  return trial;
}

Trial try_in_copy(const EstimateParts& parts, const std::vector<Kind>& kinds, int passes) {
  const std::string bytes = train::call_in_copy([&] {
    const Trial trial = run_trial(parts, kinds, passes);
    return std::string(reinterpret_cast<const char*>(&trial), sizeof trial);
  });
  Trial trial;
  if (bytes.size() != sizeof trial) throw train::Error("a trial's answer was cut off");
  std::memcpy(&trial, bytes.data(), sizeof trial);
  return trial;
}

// The line through two trials at `pixels` a batch.
double at(const Trial& a, const Trial& b, double Trial::*what, double pixels) {
  if (a.pixels == b.pixels) return b.*what;
  return b.*what + (b.*what - a.*what) / (b.pixels - a.pixels) * (pixels - b.pixels);
}

// Reading beside the computation: bound by the computation, by the readers, or by the CPUs.
double seconds_of_batch(double compute, double read, int threads, int workers) {
  if (workers == 0) return compute + read;
  const int cpus = train::usable_cpus();
  return std::max({compute, read / workers, (compute * threads + read) / cpus});
}

}  // namespace

Estimate estimate_training(const EstimateParts& parts, const EstimateOptions& options) {
  const std::vector<BatchPlan> epoch = parts.sampler->epoch(0);
  if (epoch.empty()) throw train::Error("an epoch has no batches");
  const std::vector<Kind> kinds = kinds_of(epoch);
  size_t largest = 0;
  for (const Kind& k : kinds) largest = std::max(largest, k.plan.indices.size());
  // A backbone takes more memory of the batch with most pixels, a head over many characters of that
  // with most samples.
  std::vector<Kind> large{kinds[0]};
  const Kind& longest = *std::ranges::max_element(kinds, {}, &Kind::samples);
  if (longest.samples() > kinds[0].samples()) large.push_back(longest);
  for (Kind& k : large) k.weight = 1;

  Estimate e;
  for (const train::nn::Parameter& p : parts.model.parameters())
    (p.variable.requires_grad() ? e.trained : e.frozen) += p.variable.shape().numel();
  for (const train::nn::Buffer& b : parts.model.buffers()) e.buffers += b.variable.shape().numel();

  int reached = 0;  // halvings of the batches tried
  while (largest >> reached > 2) ++reached;
  const double begin = now();
  Trial smaller, larger = try_in_copy(parts, part_of(kinds, reached), 1);
  smaller = larger;
  // Memory that does not grow with the batch: weights, gradients and Adam's two means at least.
  const double fixed = std::min(larger.memory, static_cast<double>(train::peak_memory()) +
                                                   16. * static_cast<double>(e.trained));
  while (reached > 0) {
    const double left = options.seconds - (now() - begin);
    // Of one pass over batches of 2^-halvings of their size.
    const auto seconds = [&](const std::vector<Kind>& some, int halvings) {
      return std::ldexp(larger.pass_seconds, reached - halvings) * sum_of_pixels(some) /
             sum_of_pixels(kinds);
    };
    const auto fits = [&](const std::vector<Kind>& some, int halvings) {
      const double memory = fixed + std::ldexp(larger.memory - fixed, reached - halvings);
      return kTwoPasses * seconds(some, halvings) < left &&
             (options.memory == 0 || memory < .8 * static_cast<double>(options.memory));
    };
    const std::vector<Kind>& some = !fits(kinds, 0) && fits(large, 0) ? large : kinds;
    int next = 0;
    while (next < reached && !fits(some, next)) ++next;
    if (next == reached && smaller.pixels != larger.pixels) break;
    next = std::min(next, reached - 1);  // one step up there must be: two points make a line
    const double passes = left / 2 / std::max(seconds(some, next), 1e-6) - 1;
    smaller = larger;
    larger = try_in_copy(parts, part_of(some, next),
                         static_cast<int>(std::clamp(passes, 1., double{kMostPasses})));
    reached = next;
  }

  double weights = 0, pixels = 0;
  for (const Kind& k : kinds) {
    e.samples += k.weight * k.samples();
    pixels += k.weight * k.pixels();
    weights += k.weight;
  }
  e.samples /= weights;
  pixels /= weights;
  // Whole batches were tried, or the line through two smaller ones is drawn on.
  const auto of_whole = [&](double Trial::*what) {
    return reached == 0 ? larger.*what : std::max(larger.*what, at(smaller, larger, what, pixels));
  };
  e.tried = reached == 0 ? 1 : larger.pixels / pixels;
  e.flops = at(smaller, larger, &Trial::flops, pixels);
  e.compute_seconds = at(smaller, larger, &Trial::seconds, pixels);
  e.read_seconds = larger.read_seconds * e.samples;
  e.batch_seconds =
      seconds_of_batch(e.compute_seconds, e.read_seconds, parts.threads, parts.workers);
  if (parts.train->size() > 0) e.batches = static_cast<int64_t>(epoch.size());
  if (parts.eval)
    e.evaluation_seconds = larger.evaluate_seconds * static_cast<double>(parts.eval->size());
  double memory = of_whole(&Trial::memory) + larger.evaluate_memory;
  // Batches of other sizes leave blocks behind, until the pool gives some back.
  if (!all_alike(epoch))
    memory += std::max(0., train::MemoryPool::kMostKept * of_whole(&Trial::pool_peak) -
                               of_whole(&Trial::pool_size));
  if (parts.workers > 0)  // two batches wait, the next is being made
    memory += 2.5 * larger.batch_bytes / larger.samples * e.samples +
              static_cast<double>(parts.workers * kWorkerBytes);
  e.memory = static_cast<int64_t>(memory);
  return e;
}

}  // namespace ocr
