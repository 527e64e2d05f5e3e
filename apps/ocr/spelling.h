// The spellings of flags that people bring along, made into the one that the parser knows.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace app {

/// What follows a flag.
enum class Takes { kNothing, kBool, kValue, kValues };

struct Flag {
  std::string name;  // canonical: lower case, underscores; a single letter for -x
  Takes takes = Takes::kValue;
};

/// A command line in the canonical spelling.
struct Canonical {
  std::vector<std::string> args;             // up to `--`
  std::vector<std::string> rest;             // after it: no flags
  std::map<std::string, std::string> spelt;  // canonical name -> what was typed, the last time
};

/// Rewrites `--flag=value`, `--Some-Flag value`, `-flag value`, `--no-flag`, and booleans with or
/// without a value (`--use_dilation True`), to `--flag value` in the canonical spelling. Throws
/// train::ConfigError on an unknown flag (with the nearest known one) and a missing value.
Canonical canonical_arguments(const std::vector<std::string>& args, const std::vector<Flag>& known);

}  // namespace app
