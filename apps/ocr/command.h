// A subcommand as its own file declares it: options, examples, and what it runs. CLI11 is behind
// it.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "apps/ocr/spelling.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace app {

/// One value from the command line.
struct Given {
  std::string name;   // canonical, e.g. "det_db_thresh"
  std::string spelt;  // as typed, e.g. "--det-db-thresh"; opens error messages
  std::string text;

  /// The value as a boolean, a whole number or a number; throws train::ConfigError when it is none.
  bool truth() const;
  int whole(int least, int most = 1'000'000) const;
  double number(double least, double most) const;
};

/// Options are handed to their functions in the order in which they were typed.
class Command {
 public:
  using Take = std::function<void(const Given&)>;

  explicit Command(CLI::App& cli);
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  /// The first paragraph of --help.
  void describe(const std::string& text);
  /// What stands between the usage line and the options, usually "Examples:\n  ...".
  void examples(const std::string& text);
  /// The end of --help.
  void closing(const std::string& text);
  /// Opens a group of options in --help.
  void heading(const std::string& title) { heading_ = title; }

  /// An option with a value. `names`: "format,f" is --format and -f; further long names are
  /// aliases, which --help does not show. A `value` of "BOOL" may be left out on the command line.
  /// `shown` is the default as --help has it, "" for none.
  void option(const std::string& names, const std::string& value, const std::string& help,
              Take take, const std::string& shown = "");
  /// A boolean: --resume, --resume false, --no-resume.
  void flag(const std::string& names, const std::string& help, Take take);
  /// An option that may be given several times and takes one or more values each time.
  void values(const std::string& names, const std::string& value, const std::string& help,
              Take take);
  /// Accepted, but not in --help.
  void hidden(const std::string& name, bool boolean, Take take);
  /// What is not an option, e.g. ("INPUT", take); `most` 0: any number.
  void arguments(const std::string& value, size_t most, Take take);
  /// What the command does once its options were taken; the result is the exit code.
  void run(std::function<int()> work) { work_ = std::move(work); }

  /// What the program needs of it, see run_program.
  std::vector<std::string> canonical(const std::vector<std::string>& args);
  int execute() const;

 private:
  struct Help;
  CLI::Option& add(const std::string& names, Takes takes, Take take);

  CLI::App& cli_;
  std::shared_ptr<Help> help_;
  std::string heading_ = "Options";
  std::vector<Flag> known_;
  Canonical line_;
  std::function<void(const std::string&)> take_argument_;
  size_t most_arguments_ = 0;
  std::function<int()> work_;
};

/// One line of the table of subcommands.
struct Subcommand {
  const char* name;
  const char* summary;
  void (*declare)(Command&);
};

struct Program {
  const char* description;
  const char* examples;
  const char* closing;
  std::string version;
  std::vector<Subcommand> commands;
};

/// Runs `ocr ARGS...` and returns its exit code. Throws train::ConfigError on wrong usage.
int run_program(const Program& program, std::vector<std::string> args);

}  // namespace app
