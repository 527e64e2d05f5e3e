#include "apps/ocr/config_options.h"

#include "apps/ocr/command.h"
#include "libtrain/core/error.h"

namespace app {

using train::cat;

Override parse_override(const std::string& text, const std::string& where) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw train::ConfigError(
        "", 0, 0,
        cat(where, " takes Section.key=value, e.g. Global.epoch_num=10, not '", text, "'"));
  const std::string key = text.substr(0, equals);
  if (key.front() == '.' || key.back() == '.' || key.find("..") != std::string::npos)
    throw train::ConfigError("", 0, 0, cat(where, ": '", key, "' has an empty part between dots"));
  return {key, text.substr(equals + 1)};
}

void add_config_options(Command& command, ConfigOptions& options) {
  command.heading("Configuration");
  command.option("config,c", "FILE", "the configuration, a YAML file",
                 [&options](const Given& g) { options.config = g.text; });
  command.values(
      "opt,o", "KEY=VALUE...",
      "changes of it, e.g. -o Global.epoch_num=10 Train.loader.num_workers=2",
      [&options](const Given& g) { options.overrides.push_back(parse_override(g.text, g.spelt)); });
}

void require_config(const ConfigOptions& options, const std::string& command) {
  if (options.config.empty())
    throw train::ConfigError("", 0, 0,
                             cat("name a configuration: ocr ", command, " -c config.yml"));
}

}  // namespace app
