// What a training left in its folder, read back: for `ocr runs` and `ocr plot`.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace app {

/// A curve: values by global_step. After a resumed crash steps repeat; the last value counts.
using Curve = std::map<int64_t, double>;

struct RunRecord {
  std::string folder;
  std::string net;               // "rec CRNN, MobileNetV3"; empty when config.yml tells nothing
  int64_t epochs = 0;            // planned; 0 unknown
  int64_t epoch = 0, step = 0;   // of the last record
  int64_t evaluated_epoch = -1;  // epochs done at the last evaluation
  std::map<std::string, Curve> train, eval;
  std::string decides;  // the evaluation metric that decides on the best checkpoint
  enum class State : uint8_t { kRunning, kFinished, kStopped };
  State state = State::kStopped;
  int64_t written = 0;  // when the last record was, seconds since 1970

  /// The largest value of `decides`, and its step; false without an evaluation.
  bool best(double& value, int64_t& step) const;
};

const char* state_name(RunRecord::State state);

/// Reads a run's folder. A run counts as running while a process of this machine holds its log.
/// Throws train::DataError without a metrics.jsonl; lines of it that are no JSON are left out (a
/// crash cuts the last one).
RunRecord read_run(const std::string& folder);

/// Folders with a metrics.jsonl at or below `folder`, by name.
std::vector<std::string> find_runs(const std::string& folder);

}  // namespace app
