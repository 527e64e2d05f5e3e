// `ocr runs`: the trainings below a folder, one line each.
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "apps/ocr/command.h"
#include "apps/ocr/commands.h"
#include "apps/ocr/log.h"
#include "apps/ocr/run_folder.h"
#include "libtrain/core/error.h"

namespace app {
namespace {

using Json = nlohmann::ordered_json;
using train::cat;

constexpr const char* kExamples = R"(Examples:
  ocr runs                      trainings below this folder
  ocr runs output --json        the same for programs
  ocr plot output/rec output/rec2   and how two of them went
)";

constexpr const char* kClosing =
    R"(A run is a save_model_dir of `ocr train`. running: its process is alive on this machine; finished: it came to its last
epoch; stopped: neither, `ocr train --resume` goes on. best: of the metric that decides on best_accuracy.
)";

std::string time_text(int64_t seconds) {
  const std::time_t t = seconds;
  std::tm local = {};
  localtime_r(&t, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &local);
  return text;
}

std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", v);
  return text;
}

Json as_json(const RunRecord& run) {
  Json j{{"folder", run.folder}, {"net", run.net},       {"state", state_name(run.state)},
         {"epoch", run.epoch},   {"epochs", run.epochs}, {"global_step", run.step}};
  double value = 0;
  int64_t step = 0;
  j["best"] = run.best(value, step)
                  ? Json{{"metric", run.decides}, {"value", value}, {"global_step", step}}
                  : Json();
  const auto loss = run.train.find("loss");
  j["loss"] = loss == run.train.end() || loss->second.empty() ? Json()
                                                              : Json(loss->second.rbegin()->second);
  j["written"] = run.written;
  return j;
}

void print_table(const std::vector<RunRecord>& runs) {
  std::vector<std::vector<std::string>> rows{
      {"run", "net", "state", "epoch", "step", "best", "loss", "last record"}};
  for (const RunRecord& r : runs) {
    double value = 0;
    int64_t step = 0;
    const std::string best =
        r.best(value, step) ? cat(r.decides, " ", number(value), " at ", step) : "-";
    const auto loss = r.train.find("loss");
    rows.push_back({r.folder, r.net.empty() ? "?" : r.net, state_name(r.state),
                    cat(r.epoch, r.epochs ? cat("/", r.epochs) : ""), cat(r.step), best,
                    loss == r.train.end() || loss->second.empty()
                        ? "-"
                        : number(loss->second.rbegin()->second),
                    time_text(r.written)});
  }
  std::vector<size_t> widths(rows[0].size());
  for (const auto& row : rows)
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c)
      line += row[c] + std::string(c + 1 < row.size() ? widths[c] - row[c].size() + 2 : 0, ' ');
    std::puts(line.c_str());
  }
}

int list(const std::string& folder, bool json) {
  std::vector<RunRecord> runs;
  for (const std::string& f : find_runs(folder)) runs.push_back(read_run(f));
  if (json) {
    Json all = Json::array();
    for (const RunRecord& r : runs) all.push_back(as_json(r));
    std::puts(all.dump(1, ' ', false, Json::error_handler_t::replace).c_str());
  } else if (runs.empty()) {
    log_note(cat("no training left anything below ", folder));
  } else {
    print_table(runs);
  }
  return kExitOk;
}

}  // namespace

void declare_runs(Command& command) {
  struct Request {
    std::string folder = ".";
    bool json = false;
  };
  auto r = std::make_shared<Request>();
  command.describe("Lists the trainings below a folder: net, state, epoch, best metric, loss.");
  command.examples(kExamples);
  command.closing(kClosing);
  command.arguments("[FOLDER]", 1, [r](const Given& g) { r->folder = g.text; });
  command.flag("json", "as JSON", [r](const Given& g) { r->json = g.truth(); });
  add_log_options(command);
  command.run([r] { return list(r->folder, r->json); });
}

}  // namespace app
