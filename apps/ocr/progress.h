// A progress bar on standard error, with pages (or what is counted) per second and the time left;
// silent when piped.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace app {

/// Not thread-safe: called under the batch's lock.
class Progress {
 public:
  /// `unit`: what is counted, e.g. "samples".
  Progress(bool wanted, int64_t documents, const char* unit = "pages");
  ~Progress() { clear(); }
  /// A document turned out to have so many pages (1 was assumed).
  void add_pages(int64_t more) { total_ += more; }
  void step(int64_t pages = 1);
  /// Takes the bar away so that a line can be printed; the next step draws it again.
  void clear();

 private:
  void draw();
  const char* unit_;
  bool shown_ = false, on_;
  int64_t done_ = 0, total_;
  std::chrono::steady_clock::time_point start_, drawn_;
};

/// "1:05", "2:03:10".
std::string clock_text(double seconds);

}  // namespace app
