#include "libtrain/train/run_log.h"

#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>

#include "libtrain/core/error.h"

namespace train {
namespace {

template <class... A>
std::string format(const char* pattern, A... args) {
  char buffer[256];
  std::snprintf(buffer, sizeof buffer, pattern, args...);
  return buffer;
}

std::FILE* open_to_append(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "ab");
  if (!file) throw DeviceError(path + ": cannot open it: " + std::strerror(errno));
  return file;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 32)
      out += format("\\u%04x", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out + '"';
}

}  // namespace

void SmoothedMetrics::add(const Metrics& values) {
  for (const auto& [name, value] : values) {
    auto found = std::ranges::find_if(values_, [&](const auto& v) { return v.first == name; });
    if (found == values_.end()) found = values_.insert(values_.end(), {name, {}});
    if (found->second.size() == window_) found->second.erase(found->second.begin());
    found->second.push_back(value);
  }
}

Metrics SmoothedMetrics::medians() const {
  Metrics result;
  for (const auto& [name, values] : values_) {
    std::vector<double> sorted = values;
    std::ranges::sort(sorted);
    const size_t n = sorted.size();
    result.emplace_back(name, (sorted[(n - 1) / 2] + sorted[n / 2]) / 2);
  }
  return result;
}

std::string duration_text(int64_t seconds) {
  const int64_t days = seconds / 86400, rest = seconds % 86400;
  std::string text;
  if (days) text = cat(days, days == 1 ? " day, " : " days, ");
  return text + format("%d:%02d:%02d", static_cast<int>(rest / 3600),
                       static_cast<int>(rest / 60 % 60), static_cast<int>(rest % 60));
}

std::string progress_line(const Progress& p) {
  std::string line = cat("epoch: [", p.epoch, "/", p.epochs, "], global_step: ", p.global_step);
  for (const auto& [name, value] : p.metrics) line += cat(", ", name, ": ") + format("%f", value);
  line += format(
      ", avg_reader_cost: %.5f s, avg_batch_cost: %.5f s, avg_samples: %.1f, ips: %.5f samples/s",
      p.reader_cost, p.batch_cost, p.samples, p.batch_cost > 0 ? p.samples / p.batch_cost : 0);
  line += ", eta: " + duration_text(static_cast<int64_t>(p.eta_seconds));
  return line + format(", max_mem_reserved: %lld MB", static_cast<long long>(p.memory_bytes >> 20));
}

std::string json_line(const std::vector<std::pair<std::string, std::string>>& texts,
                      const Metrics& numbers) {
  std::string line = "{";
  const auto key = [&](const std::string& name) {
    if (line.size() > 1) line += ", ";
    line += quoted(name) + ": ";
  };
  for (const auto& [name, text] : texts) {
    key(name);
    line += quoted(text);
  }
  for (const auto& [name, value] : numbers) {
    key(name);
    line += std::isfinite(value) ? format("%.9g", value) : "null";
  }
  return line + "}";
}

RunLog::RunLog(const std::string& folder, std::function<void(const std::string&)> sink)
    : sink_(std::move(sink)) {
  if (folder.empty()) return;
  log_ = open_to_append(folder + "/train.log");
  // Held while the process lives: how others see that the run goes on. Where a file system has no
  // locks they do not see it.
  (void)::flock(::fileno(log_), LOCK_SH | LOCK_NB);
  json_ = open_to_append(folder + "/metrics.jsonl");
  events_ = std::make_unique<EventWriter>(folder);
}

RunLog::~RunLog() {
  if (log_) std::fclose(log_);
  if (json_) std::fclose(json_);
}

void RunLog::append(std::FILE* file, const std::string& text) {
  if (!file) return;
  std::fwrite((text + "\n").data(), 1, text.size() + 1, file);
  std::fflush(file);
}

void RunLog::line(const std::string& text) {
  const std::time_t now = std::time(nullptr);
  std::tm local = {};
  localtime_r(&now, &local);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "[%Y/%m/%d %H:%M:%S] ", &local);
  append(log_, stamp + ("ocr INFO: " + text));
  if (sink_) sink_(text);
}

void RunLog::progress(const Progress& p) {
  line(progress_line(p));
  Metrics all = p.metrics;
  const double ips = p.batch_cost > 0 ? p.samples / p.batch_cost : 0;
  all.insert(all.end(),
             {{"reader_cost", p.reader_cost}, {"batch_cost", p.batch_cost}, {"ips", ips}});
  metrics("train", p.epoch, p.global_step, all);
}

void RunLog::metrics(const std::string& kind, int64_t epoch, int64_t global_step,
                     const Metrics& values) {
  Metrics all{{"epoch", static_cast<double>(epoch)},
              {"global_step", static_cast<double>(global_step)}};
  all.insert(all.end(), values.begin(), values.end());
  append(json_, json_line({{"kind", kind}}, all));
  if (!events_) return;
  for (const auto& [name, value] : values) events_->scalar(global_step, kind + "/" + name, value);
  events_->flush();
}

}  // namespace train
