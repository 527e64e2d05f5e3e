#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <thread>

#include "libtrain/core/thread_pool.h"

namespace train {
namespace {

// The cgroup (v2) folder of this process, e.g. /sys/fs/cgroup/user.slice; limits may sit at any
// level above.
std::string cgroup_folder() {
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("0::")) return "/sys/fs/cgroup" + line.substr(3);
  return "/sys/fs/cgroup";
}

// Calls f(stream) for `file` at this process's cgroup and each level above it.
template <class F>
void each_cgroup(const char* file, F&& f) {
  constexpr std::string_view root = "/sys/fs/cgroup";
  for (std::string dir = cgroup_folder(); dir.size() >= root.size(); dir.resize(dir.rfind('/'))) {
    std::ifstream in(dir + "/" + file);
    if (in) f(in);
  }
}

}  // namespace

int usable_cpus() {
  int n = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) n = std::max(1, CPU_COUNT(&set));
  each_cgroup("cpu.max", [&](std::ifstream& in) {
    double quota, period;
    if (in >> quota >> period && period > 0)  // "max 100000" does not parse: no limit
      n = std::clamp(static_cast<int>(quota / period + 0.5), 1, n);
  });
  return n;
}

int64_t usable_memory() {
  int64_t available = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  std::ifstream info("/proc/meminfo");
  for (std::string key, unit; info >> key;) {
    int64_t kib;
    if (!(info >> kib)) break;
    std::getline(info, unit);
    if (key == "MemAvailable:") available = kib * 1024;
  }
  each_cgroup("memory.max", [&](std::ifstream& in) {
    int64_t limit;
    if (in >> limit) available = std::min(available, limit);
  });
  return available;
}

}  // namespace train
