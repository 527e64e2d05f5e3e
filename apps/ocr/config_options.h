// The options that every command with a configuration file shares: `-c config.yml -o A.b=v C.d=w`.
#pragma once
#include <string>
#include <vector>

namespace app {

class Command;

/// `-o Optimizer.lr.learning_rate=0.001`: the key's parts, and its value as YAML text.
struct Override {
  std::string key, value;
};

struct ConfigOptions {
  std::string config;               // -c; "" when none was given
  std::vector<Override> overrides;  // -o, in order: a later one wins
};

/// Declares -c/--config and -o/--opt (repeated, several at a time, as PaddleOCR's tools have it).
/// They fill `options`, which must live as long as `command`.
void add_config_options(Command& command, ConfigOptions& options);

/// Splits at the first `=`, so that a value may hold more of them. Throws train::ConfigError when
/// there is none, or no key before it; `where` opens the message.
Override parse_override(const std::string& text, const std::string& where);

/// Throws train::ConfigError, which names the command, unless there was a -c.
void require_config(const ConfigOptions& options, const std::string& command);

}  // namespace app
