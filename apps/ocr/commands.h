// The subcommands of `ocr`; each returns the exit code of the program.
#pragma once
#include <string>
#include <vector>

namespace app {

constexpr int kExitOk = 0, kExitFailed = 1, kExitUsage = 2, kExitSome = 3, kExitInterrupted = 130;

int run_infer(const std::vector<std::string>& args);
int run_bench(const std::vector<std::string>& args);

/// The build in a few words: "0.1.0 (avx2, Release, GCC 12.2.0)".
std::string version_text();

}  // namespace app
