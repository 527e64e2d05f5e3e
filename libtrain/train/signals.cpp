#include "libtrain/train/signals.h"

#include <signal.h>

#include <atomic>
#include <mutex>

namespace train {
namespace {

constexpr int kSignals[] = {SIGTERM, SIGINT, SIGUSR1};
std::atomic<int> last_signal = 0;
struct sigaction previous[3];
std::mutex mutex;
int watches = 0;  // ranks of one process each have one

void note(int signal) {
  if (last_signal.exchange(signal) != 0 && signal != SIGUSR1) {  // the second time: at once
    ::signal(signal, SIG_DFL);
    ::raise(signal);
  }
}

}  // namespace

SignalWatch::SignalWatch() {
  const std::lock_guard lock(mutex);
  if (watches++ > 0) return;
  last_signal = 0;
  struct sigaction action = {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  for (int i = 0; i < 3; ++i) ::sigaction(kSignals[i], &action, &previous[i]);
}

SignalWatch::~SignalWatch() {
  const std::lock_guard lock(mutex);
  if (--watches > 0) return;
  for (int i = 0; i < 3; ++i) ::sigaction(kSignals[i], &previous[i], nullptr);
}

int SignalWatch::received() { return last_signal; }

}  // namespace train
