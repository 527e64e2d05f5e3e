// The subcommands of `ocr`, one file each: declare_x makes its options and says what it runs.
#pragma once
#include <string>

namespace app {

class Command;

/// Exit codes of the program.
constexpr int kExitOk = 0, kExitFailed = 1, kExitUsage = 2, kExitSome = 3, kExitInterrupted = 130;

void declare_infer(Command& command);
void declare_train(Command& command);
void declare_runs(Command& command);
void declare_plot(Command& command);
void declare_bench(Command& command);
void declare_data(Command& command);
void declare_eval(Command& command);
void declare_export(Command& command);

/// The build in a few words: "0.1.0 (avx2, release, GCC 12.2)".
std::string version_text();

}  // namespace app
