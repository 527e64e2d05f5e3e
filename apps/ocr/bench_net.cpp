// `ocr bench MODEL.onnx`: one net, layer by layer.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "apps/ocr/bench.h"
#include "apps/ocr/log.h"
#include "apps/ocr/probe.h"
#include "libocr/onnx/import.h"
#include "libocr/pipeline/precision.h"
#include "libtrain/core/error.h"
#include "libtrain/core/thread_pool.h"
#include "libtrain/cpu/isa.h"
#include "libtrain/graph/net.h"

namespace app {
namespace {

using train::cat;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double cpu_now() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

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

Measured measure(const BenchRequest& r, int threads, const train::Net& net, const Peak& peak) {
  Measured m;
  train::ThreadPool pool(threads);
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

Json layer_json(const train::StepProfile& s, const Peak& peak) {
  const double runs = static_cast<double>(std::max<int64_t>(s.runs, 1));
  return Json{{"node", s.node},
              {"op", s.op},
              {"shape", s.shape},
              {"ms", s.seconds / runs * 1e3},
              {"best_ms", s.best * 1e3},
              {"gflop", s.flops / runs * 1e-9},
              {"mbytes", s.bytes / runs * 1e-6},
              {"floor_ms", roofline(s, peak) * 1e3}};
}

double number(const Json& j, const char* key) { return j.at(key).get<double>(); }

// One row per layer: the share of the roofline is the floor's share of the best time.
void print_layers(const Json& m) {
  const bool compared = m.contains("ratio");
  std::printf("\n%9s %6s %9s %8s %6s %s %-14s %s\n", "ms", "%", "GFLOP/s", "MB", "roof %",
              compared ? " ratio" : "", "op", "layer");
  double total = 0;
  for (const Json& s : m.at("layers")) total += number(s, "best_ms");
  for (const Json& s : m.at("layers")) {
    const double ms = std::max(number(s, "best_ms"), 1e-9);
    char ratio[16] = "";
    if (s.contains("ratio"))
      std::snprintf(ratio, sizeof ratio, "%6.2f", number(s, "ratio"));
    else if (compared)
      std::snprintf(ratio, sizeof ratio, "%6s", "new");
    std::printf("%9.4f %6.2f %9.1f %8.2f %6.1f %s %-14s %s %s\n", ms, 100 * ms / total,
                number(s, "gflop") / ms * 1e3, number(s, "mbytes"),
                100 * number(s, "floor_ms") / ms, ratio, s.at("op").get<std::string>().c_str(),
                s.at("node").get<std::string>().c_str(), s.at("shape").get<std::string>().c_str());
  }
  std::printf("%9.4f sum of the best times\n\n", total);
}

}  // namespace

Json measure_net(const BenchRequest& r) {
  const ocr::PrecisionChoice precision = ocr::choose_precision(r.options.precision.value);
  if (!precision.note.empty()) log_note(precision.note);
  const auto net =
      train::Net::compile(ocr::import_onnx(r.model), {.precision = precision.precision});
  if (net->graph().inputs.size() != 1)
    throw train::ConfigError("", 0, 0, cat(r.model, ": only models with one input are measured"));
  const int threads = std::max<int>(r.options.threads, 1);
  const Peak peak = probe_peak(threads);
  const Measured m = measure(r, threads, *net, peak);
  Json j{{"model", r.model}, {"shape", Json::array()}, {"isa", train::cpu::isa_name()}};
  j["precision"] = precision.name;
  for (const int64_t d : m.shape) j["shape"].push_back(d);
  j["threads"] = threads;
  j["peak_gflops"] = peak.flops * 1e-9;
  j["bandwidth_gbs"] = peak.bandwidth * 1e-9;
  j["first_ms"] = m.first * 1e3;
  j["median_ms"] = m.median() * 1e3;
  j["cpu_ms"] = m.cpu[m.cpu.size() / 2] * 1e3;
  j["best_ms"] = m.seconds[0] * 1e3;
  j["runs"] = m.seconds.size();
  j["gflop"] = m.flops * 1e-9;
  j["floor_ms"] = m.floor * 1e3;
  if (r.layers) {
    j["layers"] = Json::array();
    for (const train::StepProfile& s : m.layers) j["layers"].push_back(layer_json(s, peak));
  }
  return j;
}

void print_net(const Json& m) {
  std::string shape;
  for (const Json& d : m.at("shape")) shape += cat(shape.empty() ? "" : "x", d.get<int64_t>());
  const int threads = m.at("threads").get<int>();
  std::printf("%s  input %s  %s  %d thread%s\n", m.at("model").get<std::string>().c_str(),
              shape.c_str(), m.at("isa").get<std::string>().c_str(), threads,
              threads == 1 ? "" : "s");
  std::printf("probed: %.1f GFLOP/s, %.1f GB/s\n", number(m, "peak_gflops"),
              number(m, "bandwidth_gbs"));
  if (m.contains("layers")) print_layers(m);
  const double ms = number(m, "median_ms");
  std::printf(
      "first run %.2f ms; median %.2f ms of %d runs (%.2f best); %.2f GFLOP, %.1f GFLOP/s\n",
      number(m, "first_ms"), ms, m.at("runs").get<int>(), number(m, "best_ms"), number(m, "gflop"),
      number(m, "gflop") / ms * 1e3);
  std::printf("floor %.2f ms: the run does %.0f %% of what the machine could\n",
              number(m, "floor_ms"), 100 * number(m, "floor_ms") / ms);
}

}  // namespace app
