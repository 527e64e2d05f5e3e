#include "apps/ocr/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "libtrain/core/error.h"

namespace app {

namespace {
constexpr auto kInterval = std::chrono::milliseconds(100);
}

Progress::Progress(bool wanted, int64_t documents, const char* unit)
    : unit_(unit),
      on_(wanted && documents > 0 && isatty(STDERR_FILENO)),
      total_(documents),
      start_(std::chrono::steady_clock::now()) {
  const char* term = std::getenv("TERM");
  if (term && std::string(term) == "dumb") on_ = false;
}

void Progress::step(int64_t pages) {
  done_ += pages;
  const auto now = std::chrono::steady_clock::now();
  if (!on_ || (done_ < total_ && now - drawn_ < kInterval)) return;
  drawn_ = now;
  draw();
}

void Progress::draw() {
  const double seconds = std::chrono::duration<double>(drawn_ - start_).count();
  const double rate = seconds > 0 ? static_cast<double>(done_) / seconds : 0;
  const int64_t total = std::max(total_, done_);
  std::string text = train::cat(" ", done_, "/", total, " ", unit_);
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "  %.2f %s/s", rate, unit_);
  text += buffer;
  if (rate > 0 && done_ < total)
    text += "  " + clock_text(static_cast<double>(total - done_) / rate) + " left";
  winsize size{};
  const int columns =
      ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
  const int room = std::clamp(columns - static_cast<int>(text.size()) - 3, 0, 40);
  const auto filled = static_cast<int>(room * done_ / std::max<int64_t>(total, 1));
  std::string bar;
  if (room >= 8)
    bar = train::cat("[", std::string(filled, '#'), std::string(room - filled, '.'), "]");
  std::fprintf(stderr, "\r\033[K%s%s", bar.c_str(), text.c_str());
  std::fflush(stderr);
  shown_ = true;
}

void Progress::clear() {
  if (!shown_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  shown_ = false;
  drawn_ = {};
}

std::string clock_text(double seconds) {
  const auto s = static_cast<int64_t>(seconds + 0.5);
  char buffer[32];
  if (s >= 3600)
    std::snprintf(buffer, sizeof buffer, "%lld:%02lld:%02lld", static_cast<long long>(s / 3600),
                  static_cast<long long>(s / 60 % 60), static_cast<long long>(s % 60));
  else
    std::snprintf(buffer, sizeof buffer, "%lld:%02lld", static_cast<long long>(s / 60),
                  static_cast<long long>(s % 60));
  return buffer;
}

}  // namespace app
