// A small training with everything in it that a checkpoint must hold: batch norm, dropout, Adam,
// averaged weights, a loss scale, a warm-up, shuffled samples with random noise.
#pragma once
#include <cmath>
#include <memory>
#include <string>

#include "apps/examples/digits.h"
#include "libtrain/autograd/functional.h"
#include "libtrain/nn/layers.h"
#include "libtrain/optim/adam.h"
#include "libtrain/train/trainer.h"

namespace train::test {

class DigitData final : public data::Dataset {
 public:
  explicit DigitData(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  std::string name(int64_t i) const override { return "digits.txt:" + std::to_string(i + 1); }
  data::Sample get(const data::SampleRequest& r) const override {
    auto batch = examples::render_digits("trainer", static_cast<uint64_t>(r.index), 1);
    float* pixels = batch.images.data<float>();
    for (int64_t i = 0; i < batch.images.numel(); ++i)
      pixels[i] += .1f * r.random.uniform(static_cast<uint64_t>(i), -1, 1);
    if (r.index == poison) pixels[0] = std::nanf("");
    return {{batch.images.reshaped({1, examples::kDigitSize, examples::kDigitSize}),
             batch.labels.reshaped({})}};
  }
  int64_t poison = -1;  // a sample with NaN

 private:
  int64_t size_;
};

struct DigitNet : nn::Module {
  nn::Conv2d conv{1, 6, 3, 2};
  nn::BatchNorm2d norm{6};
  nn::Dropout dropout{.1f};
  nn::Linear fc{6 * 8 * 8, 10};
  DigitNet() {
    add_module("conv", conv);
    add_module("norm", norm);
    add_module("dropout", dropout);
    add_module("fc", fc);
  }
  Variable operator()(Tape& tape, const Variable& images) const {
    const Variable x = relu(tape, norm(tape, conv(tape, images)));
    return fc(tape, dropout(tape, flatten(tape, x)));
  }
};

class DigitTask final : public Task {
 public:
  nn::Module& model() override { return net; }
  Variable loss(Tape& tape, const data::Batch& batch, Metrics& parts) override {
    const Variable logits = net(tape, Variable::input(batch.fields[0]));
    const Variable loss = criterion(tape, logits, Variable::input(batch.fields[1]));
    parts.emplace_back("acc", examples::accuracy(logits.value(), batch.fields[1]));
    return loss;
  }
  Metrics evaluate(Eager& eager) override {
    const auto test = examples::render_digits("test", 0, 100);
    Tape tape(eager, /*record=*/false);
    return {
        {"acc", examples::accuracy(net(tape, Variable::input(test.images)).value(), test.labels)}};
  }
  DigitNet net;
  nn::SoftmaxCrossEntropy criterion;
};

struct DigitOptions {
  int64_t samples = 60, batch = 8, epochs = 3, accumulate = 1, stop_after = 0, save_every = 5;
  int64_t poison = -1, max_non_finite = 20, max_rollbacks = 0;
  int workers = 2;
  double rate = .003;
  int64_t profile_updates = 0;
  std::function<void(const Profiler&)> on_profile = {};
  std::string folder = {};
  dist::Communicator* communicator = nullptr;
};

/// All objects of one run.
struct DigitRun {
  DigitData data;
  DigitTask task;
  data::SimpleBatchSampler sampler;
  data::DataLoader loader;
  std::unique_ptr<optim::Adam> adam;
  optim::Schedule schedule;
  std::unique_ptr<optim::Ema> ema;
  amp::GradScaler scaler{{.init_scale = 256, .growth_interval = 7}};
  std::vector<std::string> log;
  std::unique_ptr<Trainer> trainer;

  explicit DigitRun(const DigitOptions& o)
      : data(o.samples),
        sampler(o.samples, {.batch_size = o.batch,
                            .shuffle = true,
                            .seed = 5,
                            .rank = o.communicator ? o.communicator->rank() : 0,
                            .ranks = o.communicator ? o.communicator->size() : 1}),
        loader(data, sampler, {.workers = o.workers, .seed = 6}),
        schedule({.kind = optim::ScheduleOptions::Kind::kCosine,
                  .learning_rate = o.rate,
                  .total_steps = 100,
                  .warmup_steps = 5}) {
    data.poison = o.poison;
    task.net.initialize(1);
    adam = std::make_unique<optim::Adam>(task.net.parameters(),
                                         optim::AdamOptions{.weight_decay = 1e-4});
    ema = std::make_unique<optim::Ema>(task.net, optim::EmaOptions{.decay = .95});
    TrainerOptions options{.epochs = o.epochs,
                           .accumulate = o.accumulate,
                           .folder = o.folder,
                           .config = "Global: {epoch_num: 3}\n",
                           .print_every = 4,
                           .save_every = o.save_every,
                           .clip_norm_global = 5,
                           .max_non_finite = o.max_non_finite,
                           .max_rollbacks = o.max_rollbacks,
                           .stop_after = o.stop_after};
    options.save_every_epochs = 2;
    options.profile_updates = o.profile_updates;
    options.on_profile = o.on_profile;
    trainer = std::make_unique<Trainer>(TrainerParts{.task = &task,
                                                     .dataset = &data,
                                                     .loader = &loader,
                                                     .optimizer = adam.get(),
                                                     .schedule = &schedule,
                                                     .ema = ema.get(),
                                                     .scaler = &scaler,
                                                     .communicator = o.communicator},
                                        options,
                                        [this](const std::string& line) { log.push_back(line); });
  }

  /// All parameters and buffers, one after another.
  std::vector<float> weights() {
    std::vector<float> all;
    for (const nn::StateEntry& e : task.net.state_dict()) {
      const auto v = e.variable.value().span<float>();
      all.insert(all.end(), v.begin(), v.end());
    }
    return all;
  }
};

}  // namespace train::test
