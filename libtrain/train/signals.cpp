#include "libtrain/train/signals.h"

#include <signal.h>

#include <atomic>

namespace train {
namespace {

constexpr int kSignals[] = {SIGTERM, SIGINT, SIGUSR1};
std::atomic<int> last_signal = 0;
struct sigaction previous[3];

void note(int signal) {
  if (last_signal.exchange(signal) != 0 && signal != SIGUSR1) {  // the second time: at once
    ::signal(signal, SIG_DFL);
    ::raise(signal);
  }
}

}  // namespace

SignalWatch::SignalWatch() {
  last_signal = 0;
  struct sigaction action = {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  for (int i = 0; i < 3; ++i) ::sigaction(kSignals[i], &action, &previous[i]);
}

SignalWatch::~SignalWatch() {
  for (int i = 0; i < 3; ++i) ::sigaction(kSignals[i], &previous[i], nullptr);
}

int SignalWatch::received() { return last_signal; }

}  // namespace train
