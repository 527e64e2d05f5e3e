// Launch: whether mpirun, Slurm or the like started this process as one of several.
#pragma once
#include <functional>
#include <optional>
#include <string>

namespace train::dist {

/// What the launcher left in the environment.
struct Launch {
  std::string by;  // "Open MPI's mpirun", ...
  int rank = 0, size = 1;
  int local_size = 1;  // ranks on this machine, where the launcher says so
  bool bound = false;  // the launcher chose this rank's CPUs
};

/// Nothing when no launcher started this process. `get` is getenv, or a test's.
std::optional<Launch> find_launch(const std::function<const char*(const char*)>& get);
std::optional<Launch> find_launch();

}  // namespace train::dist
