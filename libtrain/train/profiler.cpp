#include "libtrain/train/profiler.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>

#include "libtrain/train/run_log.h"

namespace train {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

template <class... A>
std::string format(const char* pattern, A... args) {
  char buffer[256];
  std::snprintf(buffer, sizeof buffer, pattern, args...);
  return buffer;
}

}  // namespace

Profiler::Profiler(Eager& eager, size_t max_events) : eager_(eager), start_(now()) {
  eager_.set_profiling(true, max_events);
}

Profiler::~Profiler() { eager_.set_profiling(false); }

std::vector<Profiler::Row> Profiler::rows() const {
  std::map<std::string, Row> by_type;
  for (const auto& [description, time] : eager_.profile()) {
    Row& row = by_type[time.type];
    row.op = time.type;
    row.calls += static_cast<int64_t>(time.calls);
    row.seconds += time.seconds;
    row.flops += time.flops;
    row.bytes += time.bytes;
  }
  std::vector<Row> rows;
  for (auto& [type, row] : by_type) rows.push_back(std::move(row));
  std::ranges::sort(rows, [](const Row& a, const Row& b) { return a.seconds > b.seconds; });
  return rows;
}

std::string Profiler::table() const {
  const double passed = now() - start_;
  const std::vector<Row> all = rows();
  double total = 0;
  for (const Row& r : all) total += r.seconds;
  std::string text = "op                            time ms   share    calls  GFLOP/s     GB/s\n";
  for (const Row& r : all) {
    const double per_second = r.seconds > 0 ? 1e-9 / r.seconds : 0;
    text += format("%-28.28s %8.2f %6.1f %% %8lld %8.2f %8.2f\n", r.op.c_str(), 1e3 * r.seconds,
                   total > 0 ? 100 * r.seconds / total : 0, static_cast<long long>(r.calls),
                   r.flops * per_second, r.bytes * per_second);
  }
  text += format("ops took %.2f of %.2f ms; their results at most %.2f MiB at once\n", 1e3 * total,
                 1e3 * passed, static_cast<double>(eager_.memory().stats().peak) / 1048576);
  return text;
}

std::string Profiler::chrome_trace() const {
  std::string text = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [";
  const char* separator = "\n";
  for (const Eager::OpEvent& e : eager_.events()) {
    text += separator;
    text += json_line({{"name", *e.type}, {"ph", "X"}, {"cat", *e.op}, {"shape", e.shape.str()}},
                      {{"pid", 1}, {"tid", 1}, {"ts", 1e6 * e.begin}, {"dur", 1e6 * e.seconds}});
    separator = ",\n";
  }
  return text + "\n]}\n";
}

}  // namespace train
