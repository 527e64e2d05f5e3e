// RunLog: what a training run leaves for people and tools to read: train.log, metrics.jsonl, event
// files.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libtrain/train/events.h"

namespace train {

using Metrics = std::vector<std::pair<std::string, double>>;

/// The median of the last `window` values of each name, as PaddleOCR's log shows them.
class SmoothedMetrics {
 public:
  explicit SmoothedMetrics(int window) : window_(static_cast<size_t>(window)) {}
  void add(const Metrics& values);
  Metrics medians() const;  // in order of first appearance

 private:
  size_t window_;
  std::vector<std::pair<std::string, std::vector<double>>> values_;
};

/// Numbers of one progress line.
struct Progress {
  int64_t epoch = 0, epochs = 0, global_step = 0;
  Metrics metrics;                                      // lr, loss, its parts
  double reader_cost = 0, batch_cost = 0, samples = 0;  // per step: seconds, seconds, samples
  double eta_seconds = 0;
  int64_t memory_bytes = 0;  // largest so far
};

/// "epoch: [1/20], global_step: 10, lr: 0.001000, loss: 2.301234, avg_reader_cost: 0.00012 s,
/// avg_batch_cost: 0.01000 s, avg_samples: 64.0, ips: 6400.00000 samples/s, eta: 0:01:40,
/// max_mem_reserved: 120 MB": PaddleOCR's line.
std::string progress_line(const Progress& p);
/// Seconds as Python's timedelta prints them: "1 day, 0:00:05".
std::string duration_text(int64_t seconds);
/// One JSON object in one line; NaN and Inf, which JSON does not have, become null.
std::string json_line(const std::vector<std::pair<std::string, std::string>>& texts,
                      const Metrics& numbers);

/// Appends to the files in `folder`; with an empty folder only calls `sink`.
class RunLog {
 public:
  /// `sink` gets every line of train.log without its time.
  RunLog(const std::string& folder, std::function<void(const std::string&)> sink);
  ~RunLog();
  void line(const std::string& text);
  void progress(const Progress& p);
  /// `kind`: "eval", "best", ...
  void metrics(const std::string& kind, int64_t epoch, int64_t global_step, const Metrics& values);

 private:
  void append(std::FILE* file, const std::string& text);
  std::function<void(const std::string&)> sink_;
  std::FILE* log_ = nullptr;
  std::FILE* json_ = nullptr;
  std::unique_ptr<EventWriter> events_;
};

}  // namespace train
