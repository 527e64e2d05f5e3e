// `ocr bench`: how long a model takes on this machine, and where the time goes.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "apps/ocr/command.h"
#include "apps/ocr/commands.h"
#include "apps/ocr/log.h"
#include "apps/ocr/probe.h"
#include "libocr/onnx/import.h"
#include "libtrain/core/error.h"
#include "libtrain/core/thread_pool.h"
#include "libtrain/cpu/isa.h"
#include "libtrain/graph/net.h"

namespace app {
namespace {

using train::cat;
using Json = nlohmann::ordered_json;

constexpr const char* kExamples =
    R"(Examples:
  ocr bench --model det.onnx --shape 1x3x960x960
  ocr bench --model rec.onnx --shape 6x3x48x320 --threads 2 --layers
  ocr bench --model rec.onnx --json
)";

constexpr const char* kClosing =
    R"(The roofline of a layer is the longer of its operations at the probed peak and its bytes at the probed
bandwidth. `floor` is the sum of these over the layers: what no kernel could beat.
)";

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double cpu_now() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

struct Request {
  std::string model, shape;
  int threads = 1, runs = 0;
  bool layers = false, json = false;
};

void add_options(Command& command, Request& r) {
  command.describe("Measures a model on this machine.");
  command.examples(kExamples);
  command.closing(kClosing);
  command.arguments("MODEL", 1, [&r](const Given& g) { r.model = g.text; });
  command.option("model", "FILE", "the model", [&r](const Given& g) { r.model = g.text; });
  command.option(
      "shape", "NxCxHxW", "its input", [&r](const Given& g) { r.shape = g.text; },
      "free sides: batch 1, height 48 or 960, width 320 or 960");
  command.option(
      "threads", "N", "threads of one run", [&r](const Given& g) { r.threads = g.whole(1, 1024); },
      "1");
  command.option(
      "runs", "N", "runs that are timed; the median counts",
      [&r](const Given& g) { r.runs = g.whole(1); }, "enough for 2 seconds");
  command.flag("layers", "best time, GFLOP/s and share of the roofline of each layer",
               [&r](const Given& g) { r.layers = g.truth(); });
  command.flag("json", "the same as JSON", [&r](const Given& g) { r.json = g.truth(); });
  add_log_options(command);
}

// The shape that was asked for, or one that suits the declared input.
train::Shape input_shape(const std::string& text, const train::GraphInput& input) {
  train::Shape shape;
  if (!text.empty()) {
    for (size_t at = 0; at <= text.size();) {
      const size_t x = std::min(text.find('x', at), text.size());
      const long n = std::strtol(text.substr(at, x - at).c_str(), nullptr, 10);
      if (n < 1 || n > 100'000 || shape.rank() >= 4)
        throw train::ConfigError("", 0, 0, cat("--shape is like 1x3x960x960, not ", text));
      shape.push_back(n);
      at = x + 1;
    }
    return shape;
  }
  const bool lines = input.dims.size() == 4 && input.dims[2] == 48;
  for (size_t i = 0; i < input.dims.size(); ++i) {
    const int64_t free = i == 0 ? 1 : i == 1 ? 3 : lines ? 320 : 960;
    shape.push_back(input.dims[i] > 0 ? input.dims[i] : free);
  }
  return shape;
}

train::Feed make_input(const train::Shape& shape) {
  train::Feed feed{train::Tensor(shape),
                   shape.rank() == 4 ? train::Layout::kChannelsLast : train::Layout::kLinear};
  uint32_t r = 1;
  for (float& v : feed.tensor.span<float>()) {
    r = r * 1664525 + 1013904223;
    v = static_cast<float>(static_cast<int32_t>(r)) * 4.6e-10f;  // -1 .. 1
  }
  return feed;
}

struct Measured {
  train::Shape shape;
  std::vector<double> seconds, cpu;  // of each run, sorted
  std::vector<train::StepProfile> layers;
  double flops = 0, floor = 0, first = 0;
  double median() const { return seconds[seconds.size() / 2]; }
};

// The least time a step could take by what the machine was seen to do.
double roofline(const train::StepProfile& s, const Peak& peak) {
  const double runs = static_cast<double>(std::max<int64_t>(s.runs, 1));
  return std::max(s.flops / runs / peak.flops, s.bytes / runs / peak.bandwidth);
}

Measured measure(const Request& r, const train::Net& net, const Peak& peak) {
  Measured m;
  train::ThreadPool pool(r.threads);
  const train::PoolScope scope(&pool);
  m.shape = input_shape(r.shape, net.graph().inputs.at(0));
  const train::Feed feed = make_input(m.shape);
  train::Context context;
  std::vector<train::Tensor> outputs;
  const double begin = seconds_now();
  net.run(context, std::span(&feed, 1), outputs);
  m.first = seconds_now() - begin;
  for (double spent = 0;
       r.runs ? static_cast<int>(m.seconds.size()) < r.runs : spent < 2 || m.seconds.size() < 5;) {
    const double t = seconds_now(), c = cpu_now();
    net.run(context, std::span(&feed, 1), outputs);
    m.cpu.push_back(cpu_now() - c);
    m.seconds.push_back(seconds_now() - t);
    spent += m.seconds.back();
  }
  std::sort(m.seconds.begin(), m.seconds.end());
  std::sort(m.cpu.begin(), m.cpu.end());
  context.profile = &m.layers;
  const int profiled = std::clamp(static_cast<int>(1 / m.median()), 3, 50);
  for (int i = 0; i < profiled; ++i) net.run(context, std::span(&feed, 1), outputs);
  for (const train::StepProfile& s : m.layers) {
    m.flops += s.flops / static_cast<double>(std::max<int64_t>(s.runs, 1));
    m.floor += roofline(s, peak);
  }
  return m;
}

void print_table(const Request& r, const Measured& m, const Peak& peak) {
  std::printf("%s  input %s  %s  %d thread%s\n", r.model.c_str(), m.shape.str().c_str(),
              train::cpu::isa_name(), r.threads, r.threads == 1 ? "" : "s");
  std::printf("probed: %.1f GFLOP/s, %.1f GB/s\n", peak.flops * 1e-9, peak.bandwidth * 1e-9);
  if (r.layers) {
    std::printf("\n%9s %6s %9s %6s  %-14s %s\n", "ms", "%", "GFLOP/s", "roof %", "op", "layer");
    double total = 0;
    for (const train::StepProfile& s : m.layers) total += s.best;
    for (const train::StepProfile& s : m.layers) {
      const double runs = static_cast<double>(std::max<int64_t>(s.runs, 1)), t = s.best;
      std::printf("%9.4f %6.2f %9.1f %6.1f  %-14s %s %s\n", t * 1e3, 100 * t / total,
                  t > 0 ? s.flops / runs / t * 1e-9 : 0, t > 0 ? 100 * roofline(s, peak) / t : 0,
                  s.op.c_str(), s.node.c_str(), s.shape.c_str());
    }
    std::printf("%9.4f sum\n\n", total * 1e3);
  }
  std::printf(
      "first run %.2f ms; median %.2f ms of %zu runs (%.2f best); %.2f GFLOP, %.1f GFLOP/s\n",
      m.first * 1e3, m.median() * 1e3, m.seconds.size(), m.seconds[0] * 1e3, m.flops * 1e-9,
      m.flops / m.median() * 1e-9);
  std::printf("floor %.2f ms: the run takes %.0f %% of what the machine could do\n", m.floor * 1e3,
              100 * m.floor / m.median());
}

void print_json(const Request& r, const Measured& m, const Peak& peak) {
  Json j{{"model", r.model}, {"shape", Json::array()}, {"isa", train::cpu::isa_name()}};
  for (const int64_t d : m.shape) j["shape"].push_back(d);
  j["threads"] = r.threads;
  j["peak_gflops"] = peak.flops * 1e-9;
  j["bandwidth_gbs"] = peak.bandwidth * 1e-9;
  j["first_ms"] = m.first * 1e3;
  j["median_ms"] = m.median() * 1e3;
  j["cpu_ms"] = m.cpu[m.cpu.size() / 2] * 1e3;
  j["best_ms"] = m.seconds[0] * 1e3;
  j["gflop"] = m.flops * 1e-9;
  j["floor_ms"] = m.floor * 1e3;
  if (r.layers) {
    j["layers"] = Json::array();
    for (const train::StepProfile& s : m.layers) {
      const double runs = static_cast<double>(std::max<int64_t>(s.runs, 1));
      j["layers"].push_back(Json{{"node", s.node},
                                 {"op", s.op},
                                 {"shape", s.shape},
                                 {"ms", s.seconds / runs * 1e3},
                                 {"best_ms", s.best * 1e3},
                                 {"gflop", s.flops / runs * 1e-9},
                                 {"mbytes", s.bytes / runs * 1e-6},
                                 {"floor_ms", roofline(s, peak) * 1e3}});
    }
  }
  std::printf("%s\n", j.dump(1).c_str());
}

int bench(const Request& r) {
  if (r.model.empty())
    throw train::ConfigError("", 0, 0, "name a model: ocr bench --model FILE.onnx");
  const auto net = train::Net::compile(ocr::import_onnx(r.model));
  if (net->graph().inputs.size() != 1)
    throw train::ConfigError("", 0, 0, cat(r.model, ": only models with one input are measured"));
  const Peak peak = probe_peak(r.threads);
  const Measured m = measure(r, *net, peak);
  if (r.json)
    print_json(r, m, peak);
  else
    print_table(r, m, peak);
  return kExitOk;
}

}  // namespace

void declare_bench(Command& command) {
  const auto request = std::make_shared<Request>();
  add_options(command, *request);
  command.run([request] { return bench(*request); });
}

}  // namespace app
