#include "apps/ocr/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "libtrain/config/training.h"
#include "libtrain/core/error.h"

namespace app {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;  // the first metric of an evaluation decides: order counts
using train::cat;

// RunLog holds a shared lock on train.log for as long as its process lives.
bool is_held(const std::string& log) {
  const int fd = ::open(log.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool held = ::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(fd);
  return held;
}

// The evaluation behind the last epoch; of runs whose log says no more.
bool evaluated_at_the_end(const RunRecord& run) {
  return run.epochs > 0 && run.evaluated_epoch >= run.epochs;
}

bool ended_well(const std::string& log) {
  std::ifstream in(log);
  std::string last;
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) last = std::move(line);
  return last.find("INFO: finished: ") != std::string::npos;
}

void take(RunRecord& run, const Json& j) {
  if (!j.is_object() || !j.contains("global_step") || !j.contains("kind")) return;
  const std::string kind = j.value("kind", "");
  run.step = j.value("global_step", int64_t{0});
  run.epoch = j.value("epoch", int64_t{0});
  if (kind == "eval") run.evaluated_epoch = run.epoch;
  auto& curves = kind == "eval" ? run.eval : run.train;
  bool first = true;
  for (const auto& [name, value] : j.items()) {
    if (name == "kind" || name == "epoch" || name == "global_step") continue;
    if (kind == "eval" && first) run.decides = name;
    first = false;
    if (value.is_number()) curves[name][run.step] = value.get<double>();
  }
}

void read_config(RunRecord& run) try {
  const auto c = train::config::load_training_config(run.folder + "/config.yml");
  const train::config::ArchitectureConfig& a = c.architecture;
  run.epochs = c.global.epoch_num;
  run.net = cat(a.model_type, " ", a.algorithm, ", ", a.backbone.name);
} catch (const train::Error&) {
}

}  // namespace

bool RunRecord::best(double& value, int64_t& at) const {
  const auto it = eval.find(decides);
  if (it == eval.end() || it->second.empty()) return false;
  const auto top = std::ranges::max_element(
      it->second, [](const auto& a, const auto& b) { return a.second < b.second; });
  at = top->first, value = top->second;
  return true;
}

const char* state_name(RunRecord::State state) {
  constexpr const char* names[] = {"running", "finished", "stopped"};
  return names[static_cast<size_t>(state)];
}

RunRecord read_run(const std::string& folder) {
  RunRecord run;
  run.folder = folder;
  const std::string file = folder + "/metrics.jsonl";
  std::ifstream in(file);
  struct stat info = {};
  if (!in || ::stat(file.c_str(), &info) != 0)
    throw train::DataError(file, 0, "there is none: this is no folder of a training");
  run.written = info.st_mtime;
  for (std::string line; std::getline(in, line);)
    take(run, Json::parse(line, nullptr, /*allow_exceptions=*/false));
  read_config(run);
  const std::string log = folder + "/train.log";
  run.state = is_held(log)                                   ? RunRecord::State::kRunning
              : ended_well(log) || evaluated_at_the_end(run) ? RunRecord::State::kFinished
                                                             : RunRecord::State::kStopped;
  return run;
}

std::vector<std::string> find_runs(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  if (fs::is_regular_file(folder + "/metrics.jsonl", error)) found.push_back(folder);
  const auto options = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator it(folder, options, error), end; !error && it != end;
       it.increment(error))
    if (it->path().filename() == "metrics.jsonl" && it->path().parent_path() != folder)
      found.push_back(it->path().parent_path().string());
  if (error) throw train::DataError(folder, 0, error.message());
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace app
