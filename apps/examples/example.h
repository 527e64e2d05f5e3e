// What the examples share: their options, and a clock.
#pragma once
#include <chrono>
#include <cstdlib>
#include <string_view>

#include "libtrain/core/error.h"
#include "libtrain/core/thread_pool.h"

namespace train::examples {

/// --device cpu (the only one so far), --threads N.
struct Options {
  int threads = usable_cpus();
  Options(int argc, char** argv) {
    for (int i = 1; i < argc; i += 2) {
      const std::string_view name = argv[i], value = i + 1 < argc ? argv[i + 1] : "";
      if (name == "--threads" && std::atoi(argv[i + 1] ? argv[i + 1] : "0") > 0)
        threads = std::atoi(argv[i + 1]);
      else if (name != "--device" || value != "cpu")
        throw Error("usage: [--device cpu] [--threads N]");
    }
  }
};

class Clock {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace train::examples
