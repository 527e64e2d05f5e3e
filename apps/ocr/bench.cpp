// `ocr bench`: how fast a net or whole pages are on this machine, and against an earlier time.
#include "apps/ocr/bench.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/ocr/command.h"
#include "apps/ocr/commands.h"
#include "apps/ocr/infer_options.h"
#include "apps/ocr/log.h"
#include "libtrain/core/error.h"

namespace app {
namespace {

using train::cat;

constexpr const char* kExamples =
    R"(MODEL: an .onnx file; INPUT: pages, as for `ocr infer`

Examples:
  ocr bench det.onnx --shape 1x3x960x960
  ocr bench rec.onnx --shape 6x3x48x320 --threads 2 --layers
  ocr bench rec.onnx --json > before.json; ...; ocr bench rec.onnx --compare before.json
  ocr bench scans/ --models accurate --jobs 2         whole pages, with decoding
)";

constexpr const char* kClosing =
    R"(The roofline of a layer is the longer of its operations at the probed peak and its bytes at the probed
bandwidth. `floor` is the sum of these over the layers: what no kernel could beat. --threads is 1 for a net.
)";

bool is_model(const std::string& path) {
  return std::filesystem::path(path).extension() == ".onnx";
}

void take_argument(BenchRequest& r, const std::string& path) {
  if (!is_model(path)) return r.pages.arguments.push_back(path);
  if (!r.model.empty())
    throw train::ConfigError("", 0, 0, cat("one model at a time: ", r.model, " or ", path, "?"));
  r.model = path;
}

void add_options(Command& command, BenchRequest& r) {
  command.describe("Measures a model, or the reading of whole pages, on this machine.");
  command.examples(kExamples);
  command.closing(kClosing);
  command.arguments("MODEL|INPUT", 0, [&r](const Given& g) { take_argument(r, g.text); });
  command.heading("Measuring");
  command.option("model", "FILE", "the model", [&r](const Given& g) { r.model = g.text; });
  command.option(
      "shape", "NxCxHxW", "its input", [&r](const Given& g) { r.shape = g.text; },
      "free sides: batch 1, height 48 or 960, width 320 or 960");
  command.option("list", "FILE", "pages, one path a line",
                 [&r](const Given& g) { r.pages.lists.push_back(g.text); });
  command.option(
      "runs", "N", "runs of a net, passes over pages; the median counts",
      [&r](const Given& g) { r.runs = g.whole(1); }, "enough for 2 seconds");
  command.flag("layers", "best time, GFLOP/s, bytes and share of the roofline of each layer",
               [&r](const Given& g) { r.layers = g.truth(); });
  command.option("compare", "FILE", "the ratio to an earlier run, written with --json",
                 [&r](const Given& g) { r.compare = g.text; });
  command.flag("json", "the same as JSON", [&r](const Given& g) { r.json = g.truth(); });
  add_pipeline_options(command, r.options);
  add_log_options(command);
}

std::string file_name(const Json& j) {
  return std::filesystem::path(j.value("model", "")).filename().string();
}

// What must be equal for two measurements to be comparable, in words.
std::string subject(const Json& j) {
  if (j.contains("pages_per_s")) return cat(j.value("pages", 0), " pages");
  return cat(file_name(j), " ", j.value("shape", Json()).dump());
}

int bench(const BenchRequest& r) {
  const bool pages = !r.pages.arguments.empty() || !r.pages.lists.empty();
  if (pages == !r.model.empty())
    throw train::ConfigError("", 0, 0,
                             "name one model or some pages: ocr bench FILE.onnx, ocr bench scans/");
  const Json earlier = r.compare.empty() ? Json() : read_earlier(r.compare);
  Json measured = pages ? measure_pages(r) : measure_net(r);
  if (!earlier.is_null()) compare_with(earlier, r.compare, measured);
  if (r.json) {
    std::printf("%s\n", measured.dump(1).c_str());
    return kExitOk;
  }
  pages ? print_pages(measured) : print_net(measured);
  if (!earlier.is_null())
    std::printf("%.3f times as fast as in %s\n", measured.at("ratio").get<double>(),
                r.compare.c_str());
  return kExitOk;
}

}  // namespace

Json read_earlier(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw train::DataError(path, 0, "cannot be read");
  const Json j = Json::parse(in, nullptr, false);
  const char* time = j.is_object() && j.contains("pages_per_s") ? "pages_per_s" : "median_ms";
  if (!j.is_object() || !j.contains(time) || !j[time].is_number() || j[time].get<double>() <= 0)
    throw train::DataError(path, 0, "not what `ocr bench --json` writes");
  return j;
}

void compare_with(const Json& earlier, const std::string& path, Json& measured) {
  if (subject(earlier) != subject(measured))
    throw train::ConfigError(
        "", 0, 0, cat(path, " has measured ", subject(earlier), ", not ", subject(measured)));
  for (const char* key : {"threads", "jobs", "isa"})
    if (earlier.value(key, Json()) != measured.value(key, Json()))
      log_note(cat(path, " was measured with ", key, " ", earlier.value(key, Json()).dump(),
                   ", this with ", measured.value(key, Json()).dump()));
  if (measured.contains("pages_per_s")) {
    measured["ratio"] =
        measured["pages_per_s"].get<double>() / earlier["pages_per_s"].get<double>();
    return;
  }
  measured["ratio"] = earlier["median_ms"].get<double>() / measured["median_ms"].get<double>();
  if (!earlier.contains("layers") || !measured.contains("layers")) return;
  std::map<std::string, double> before;
  for (const Json& s : earlier["layers"])
    before[s.value("node", "") + "\n" + s.value("op", "")] = s.value("best_ms", 0.);
  for (Json& s : measured["layers"]) {
    const auto it = before.find(s.value("node", "") + "\n" + s.value("op", ""));
    const double now = s.value("best_ms", 0.);
    if (it != before.end() && now > 0) s["ratio"] = it->second / now;
  }
}

void declare_bench(Command& command) {
  const auto request = std::make_shared<BenchRequest>();
  add_options(command, *request);
  command.run([request] { return bench(*request); });
}

}  // namespace app
