// SignalWatch: SIGTERM, SIGINT and SIGUSR1 as a wish to save and stop, which the trainer grants.
#pragma once

namespace train {

/// During its life these signals only set a flag; a second SIGINT or SIGTERM ends the process as
/// usual. Ranks that are threads of one process may each have one.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;
  /// The signal that came, 0 if none.
  static int received();
};

}  // namespace train
