// Command line arguments: flags in any of the usual spellings, checked against a list of known
// ones.
#pragma once
#include <string>
#include <vector>

namespace app {

/// A flag of one subcommand.
struct Flag {
  std::string name;      // canonical: lower case, underscores
  bool boolean = false;  // may stand without a value
};

struct Argument {
  std::string name;   // canonical, as asked for by find()
  std::string spelt;  // as typed, e.g. "--det-db-thresh"
  std::string value;
};

struct Arguments {
  std::vector<Argument> flags;  // in order
  std::vector<std::string> positional;
};

/// Understands `--flag value`, `--flag=value`, `-c value`, `--no-flag` for booleans, dashes for
/// underscores and any case; after `--` all is positional. `ignored` names flags that take a value
/// and are reported to the caller like the others. Throws train::ConfigError on an unknown flag
/// (with the nearest known one) and a missing value.
Arguments parse_arguments(const std::vector<std::string>& args, const std::vector<Flag>& known);

}  // namespace app
