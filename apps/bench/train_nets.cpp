// Times training steps of whole nets on made-up data, and writes weights and data for a peer that
// is to do the same steps (scripts/bench/train.py).
// usage: train_nets NET [--batch N] [--steps N] [--threads N] [--write FILE] [--ops] [--bf16]
//   NET: kNets below, mlp, cnn, text_classifier, ctc_6625 or ctc_97; "probe" measures the machine.
// Nothing is dropped at random and no weight decays, so that a peer's losses must be the same.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/ocr/probe.h"
#include "libocr/models/model.h"
#include "libtrain/amp/autocast.h"
#include "libtrain/autograd/ctc.h"
#include "libtrain/autograd/map_loss.h"
#include "libtrain/config/training.h"
#include "libtrain/core/philox.h"
#include "libtrain/optim/adam.h"
#include "libtrain/optim/sgd.h"
#include "libtrain/train/archive.h"

namespace {

using namespace train;

struct Options {
  std::string net, write;
  int64_t batch = 0;  // 0: the net's own
  int steps = 5, threads = 1;
  bool ops = false, bf16 = false;
};

// A net with its loss, and its batch by name.
struct Job {
  std::unique_ptr<nn::Module> model;
  std::vector<std::pair<std::string, Tensor>> batch;
  std::function<Variable(Tape&, const std::vector<Variable>&)> loss;
  bool sgd = false;
  double sgd_rate = .01;
};

Tensor noise(const Shape& shape, const char* name, bool bits = false) {
  Tensor t(shape);
  const RandomStream random(1, stream_of(name));
  for (int64_t i = 0; i < t.numel(); ++i) {
    const float v = random.uniform(static_cast<uint64_t>(i), -1, 1);
    t.data<float>()[i] = bits ? (v > .6f ? 1.f : 0.f) : v;
  }
  return t;
}

Tensor integers(const Shape& shape, const char* name, int64_t from, int64_t to) {
  Tensor t(shape, DType::kI64);
  const RandomStream random(2, stream_of(name));
  for (int64_t i = 0; i < t.numel(); ++i)
    t.data<int64_t>()[i] =
        from + random.below(static_cast<uint64_t>(i), static_cast<uint32_t>(to - from));
  return t;
}

Tensor lengths(int64_t batch, int64_t length) {
  const std::vector<int64_t> all(static_cast<size_t>(batch), length);
  return Tensor::from<int64_t>({batch}, std::span(all));
}

// ---- Nets of PaddleOCR's configurations.

struct Net {
  const char *name, *architecture;
  int64_t batch, height, width, classes;  // classes 0: a detector
};

constexpr int64_t kLabel = 8;
#define SVTR_HEAD                                                                      \
  "Head: {name: MultiHead, head_list: [{CTCHead: {Neck: {name: svtr, dims: 120, "      \
  "depth: 2, hidden_dims: 120, kernel_size: [1, 3], use_guide: true, drop_rate: 0.0, " \
  "attn_drop_rate: 0.0}, Head: {fc_decay: 0.0}}}]}}"
constexpr Net kNets[] = {
    {"svtr_lcnet_1",
     "{model_type: rec, algorithm: SVTR_LCNet, Backbone: {name: PPLCNetV3, scale: 0.95, "
     "conv_kxk_num: 1}, " SVTR_HEAD,
     32, 48, 320, 6625},
    {"svtr_lcnet_4",
     "{model_type: rec, algorithm: SVTR_LCNet, Backbone: {name: PPLCNetV3, scale: "
     "0.95}, " SVTR_HEAD,
     32, 48, 320, 6625},
    {"db_lcnet_1",
     "{model_type: det, algorithm: DB, Backbone: {name: PPLCNetV3, scale: 0.75, det: true, "
     "conv_kxk_num: 1}, Neck: {name: RSEFPN, out_channels: 96, shortcut: true}, Head: {name: "
     "DBHead, k: 50}}",
     4, 640, 640, 0},
    {"db_lcnet_4",
     "{model_type: det, algorithm: DB, Backbone: {name: PPLCNetV3, scale: 0.75, det: true}, Neck: "
     "{name: RSEFPN, out_channels: 96, shortcut: true}, Head: {name: DBHead, k: 50}}",
     4, 640, 640, 0},
    {"svtr_tiny",
     "{model_type: rec, algorithm: SVTR, Backbone: {name: SVTRNet, img_size: [32, 320], "
     "out_char_num: 40, out_channels: 192, patch_merging: Conv, embed_dim: [64, 128, 256], depth: "
     "[3, 6, 3], num_heads: [2, 4, 8], mixer: [Local, Local, Local, Local, Local, Local, Global, "
     "Global, Global, Global, Global, Global], local_mixer: [[7, 11], [7, 11], [7, 11]], "
     "last_stage: true, prenorm: false, drop_path_rate: 0.0, last_drop: 0.0}, Neck: {name: "
     "SequenceEncoder, "
     "encoder_type: reshape}, Head: {name: CTCHead, fc_decay: 0.0}}",
     16, 32, 320, 97},
    {"crnn_mv3",
     "{model_type: rec, algorithm: CRNN, Backbone: {name: MobileNetV3, scale: 0.5, model_name: "
     "small, small_stride: [1, 2, 2, 2]}, Neck: {name: SequenceEncoder, encoder_type: rnn, "
     "hidden_size: 48}, Head: {name: CTCHead, fc_decay: 0.0}}",
     32, 32, 320, 97},
    {"crnn_r34",
     "{model_type: rec, algorithm: CRNN, Backbone: {name: ResNet, layers: 34}, Neck: {name: "
     "SequenceEncoder, encoder_type: rnn, hidden_size: 256}, Head: {name: CTCHead, fc_decay: 0.0}}",
     16, 32, 100, 97},
};

Job net_job(const config::ArchitectureConfig& architecture, const Net& net, int64_t batch) {
  config::ReadContext context;
  auto model = ocr::models::build_model(architecture, net.classes, context);
  const ocr::models::Model* m = model.get();
  Job job;
  job.batch.emplace_back("image", noise({batch, 3, net.height, net.width}, "image"));
  if (net.classes == 0) {
    const Shape map{batch, 1, net.height, net.width};
    job.batch.emplace_back("map", noise(map, "map", true));
    job.batch.emplace_back("mask", noise(map, "mask", true));
    job.loss = [m](Tape& tape, const std::vector<Variable>& in) {
      return db_loss(tape, (*m)(tape, in[0]).at("maps"), in[1], in[2], in[1], in[2]).total;
    };
  } else {
    job.batch.emplace_back("labels", integers({batch, kLabel}, "labels", 1, net.classes));
    job.batch.emplace_back("lengths", lengths(batch, kLabel));
    job.loss = [m](Tape& tape, const std::vector<Variable>& in) {
      return ctc_loss(tape, (*m)(tape, in[0]).at("ctc"), in[1], in[2]).loss;
    };
  }
  job.model = std::move(model);
  // The branches' gradients differ in their rounding, which Adam's first step divides by itself.
  job.sgd = std::string_view(net.name).ends_with("_4");
  job.sgd_rate = 1e-3;
  return job;
}

// ---- The small examples, and the loss of CTC alone.

struct Mlp final : nn::Module {
  nn::Linear hidden{784, 512}, out{512, 10};
  Mlp() {
    add_module("hidden", hidden);
    add_module("out", out);
  }
};

struct Classifier final : nn::Module {
  nn::Embedding embedding{5000, 128};
  nn::Linear out{128, 4};
  Classifier() {
    add_module("embedding", embedding);
    add_module("out", out);
  }
};

struct Cnn final : nn::Module {
  nn::Conv2d conv{1, 16, 3};
  nn::MaxPool2d pool{2};
  nn::Linear fc{16 * 8 * 8, 10};
  Cnn() {
    add_module("conv", conv);
    add_module("fc", fc);
  }
};

// The logits are the parameter, so a step is the loss, its gradient and their update.
struct Logits final : nn::Module {
  Variable logits;
  explicit Logits(const Shape& shape)
      : logits(add_parameter("logits", shape, {nn::Init::Kind::kNormal, 1})) {}
};

Job small_job(const std::string& name, int64_t batch) {
  Job job;
  const auto loss_of = std::make_shared<nn::SoftmaxCrossEntropy>();
  if (name == "mlp") {
    auto model = std::make_unique<Mlp>();
    job.batch = {{"x", noise({batch, 784}, "x")}, {"labels", integers({batch}, "labels", 0, 10)}};
    job.loss = [m = model.get(), loss_of](Tape& tape, const std::vector<Variable>& in) {
      return (*loss_of)(tape, m->out(tape, relu(tape, m->hidden(tape, in[0]))), in[1]);
    };
    job.sgd = true;
    job.model = std::move(model);
  } else if (name == "text_classifier") {
    auto model = std::make_unique<Classifier>();
    job.batch = {{"words", integers({batch, 20}, "words", 0, 5000)},
                 {"labels", integers({batch}, "labels", 0, 4)}};
    job.loss = [m = model.get(), loss_of](Tape& tape, const std::vector<Variable>& in) {
      return (*loss_of)(tape, m->out(tape, mean(tape, m->embedding(tape, in[0]), {1})), in[1]);
    };
    job.model = std::move(model);
  } else if (name == "cnn") {
    auto model = std::make_unique<Cnn>();
    job.batch = {{"image", noise({batch, 1, 16, 16}, "image")},
                 {"labels", integers({batch}, "labels", 0, 10)}};
    job.loss = [m = model.get(), loss_of](Tape& tape, const std::vector<Variable>& in) {
      const Variable y = m->pool(tape, relu(tape, m->conv(tape, in[0])));
      return (*loss_of)(tape, m->fc(tape, flatten(tape, y)), in[1]);
    };
    job.sgd = true;
    job.model = std::move(model);
  } else {
    const bool large = name == "ctc_6625";
    const int64_t steps = large ? 80 : 26, classes = large ? 6625 : 97;
    auto model = std::make_unique<Logits>(Shape{batch, steps, classes});
    job.batch = {{"labels", integers({batch, kLabel}, "labels", 1, classes)},
                 {"lengths", lengths(batch, kLabel)}};
    job.loss = [m = model.get()](Tape& tape, const std::vector<Variable>& in) {
      return ctc_loss(tape, m->logits, in[0], in[1]).loss;
    };
    job.model = std::move(model);
  }
  return job;
}

Job make_job(const Options& o) {
  for (const Net& net : kNets)
    if (o.net == net.name)
      return net_job(
          config::parse_training_config(cat("Architecture: ", net.architecture, "\n"), net.name)
              .architecture,
          net, o.batch ? o.batch : net.batch);
  for (const char* name : {"mlp", "cnn", "ctc_6625", "ctc_97"})
    if (o.net == name) return small_job(name, o.batch ? o.batch : 64);
  if (o.net == "text_classifier") return small_job(o.net, o.batch ? o.batch : 50);
  throw Error(cat("no net '", o.net, "' to time"));
}

void write(const std::string& path, const Job& job) {
  ArchiveWriter file;
  for (const nn::StateEntry& e : job.model->state_dict()) {
    Tensor t = e.variable.value();
    file.tensor("model." + e.name, t);
  }
  for (const auto& [name, tensor] : job.batch) {
    Tensor t = tensor;
    file.tensor("batch." + name, t);
  }
  file.write(path);
}

void print_ops(const Eager& eager, double seconds, int steps) {
  std::vector<std::pair<double, std::string>> rows;
  double counted = 0;
  for (const auto& [name, t] : eager.profile()) {
    rows.emplace_back(t.seconds, name);
    counted += t.seconds;
  }
  std::ranges::sort(rows, std::greater());
  rows.emplace_back(seconds - counted, "the rest");
  for (const auto& [s, name] : rows)
    std::fprintf(stderr, "%9.2f ms %5.1f %%  %s\n", s / steps * 1e3, s / seconds * 100,
                 name.c_str());
}

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    const auto next = [&] {
      if (++i >= argc) throw Error(a + " needs a value");
      return std::string(argv[i]);
    };
    if (a == "--batch")
      o.batch = std::atoi(next().c_str());
    else if (a == "--steps")
      o.steps = std::atoi(next().c_str());
    else if (a == "--threads")
      o.threads = std::atoi(next().c_str());
    else if (a == "--write")
      o.write = next();
    else if (a == "--bf16")
      o.bf16 = true;
    else if (a == "--ops")
      o.ops = true;
    else if (a[0] == '-')
      throw Error("unknown option " + a);
    else
      o.net = a;
  }
  if (o.net.empty()) throw Error("usage: train_nets NET [--batch N] [--steps N] [--threads N]");
  return o;
}

// One line of JSON: the loss and the milliseconds of every step, the peak of the process in KiB.
void run(const Options& o) {
  ThreadPool pool(o.threads);
  const PoolScope scope(&pool);
  const Job job = make_job(o);
  job.model->initialize(1);
  if (!o.write.empty()) write(o.write, job);
  std::unique_ptr<optim::Optimizer> optimizer;
  if (job.sgd)
    optimizer = std::make_unique<optim::Sgd>(job.model->parameters(),
                                             optim::SgdOptions{.learning_rate = job.sgd_rate});
  else
    optimizer = std::make_unique<optim::Adam>(job.model->parameters(),
                                              optim::AdamOptions{.learning_rate = 1e-3});
  const amp::Autocast autocast({.dtype = DType::kBF16});
  Eager eager(size_t{1} << 30);
  std::string losses, times, cpu_times;
  double profiled = 0;
  constexpr int kWarm = 1;
  for (int step = 0; step < o.steps; ++step) {
    if (step == kWarm && o.ops) eager.set_profiling(true);
    std::vector<Variable> batch;
    for (const auto& [name, tensor] : job.batch) batch.push_back(Variable::input(tensor));
    const auto start = std::chrono::steady_clock::now();
    const std::clock_t cpu_start = std::clock();
    Tape tape(eager, true, static_cast<uint64_t>(step));
    if (o.bf16) tape.set_autocast(&autocast);
    const Variable loss = job.loss(tape, batch);
    optimizer->clear_grad();
    tape.backward(loss);
    optimizer->step();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    const double cpu_seconds = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC;
    char text[64];
    std::snprintf(text, sizeof text, "%s%.9g", step ? ", " : "",
                  static_cast<double>(*loss.value().data<float>()));
    losses += text;
    std::snprintf(text, sizeof text, "%s%.4f", step ? ", " : "", took.count() * 1e3);
    times += text;
    std::snprintf(text, sizeof text, "%s%.4f", step ? ", " : "", cpu_seconds * 1e3);
    cpu_times += text;
    if (step >= kWarm) profiled += took.count();
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  std::printf(
      "{\"loss\": [%s], \"ms\": [%s], \"cpu_ms\": [%s], \"peak_kib\": %ld, \"tensors_peak\": "
      "%zu}\n",
      losses.c_str(), times.c_str(), cpu_times.c_str(), usage.ru_maxrss,
      eager.memory().stats().peak);
  if (o.ops) print_ops(eager, profiled, std::max(1, o.steps - kWarm));
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options = parse(argc, argv);
  if (options.net != "probe") return run(options), 0;
  const app::Peak peak = app::probe_peak(options.threads);
  std::printf("{\"gflops\": %.1f, \"gbytes\": %.1f}\n", peak.flops * 1e-9, peak.bandwidth * 1e-9);
  return 0;
} catch (const Error& e) {
  std::fprintf(stderr, "train_nets: %s\n", e.what());
  return 2;
}
