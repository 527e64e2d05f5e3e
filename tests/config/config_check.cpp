// Reads training configurations and prints what is wrong with each: `config_check [--strict]
// FILE...`
#include <cstdio>
#include <cstring>

#include "libtrain/config/training.h"
#include "libtrain/config/yaml.h"
#include "libtrain/core/error.h"

int main(int argc, char** argv) {
  train::config::TrainingReadOptions options;
  int read = 0, refused = 0;
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--strict")) {
      options.strict = true;
      continue;
    }
    try {
      const auto config = train::config::load_training_config(argv[i], options);
      for (const std::string& w : config.warnings) std::printf("warning: %s\n", w.c_str());
      // What is written out reads back as the same.
      const std::string text = train::config::to_yaml(config.root);
      const auto again = train::config::parse_training_config(text, argv[i], options);
      if (train::config::to_yaml(again.root) != text) std::printf("%s: round trip\n", argv[i]);
      ++read;
    } catch (const train::Error& e) {
      std::printf("refused: %s\n", e.what());
      ++refused;
    }
  }
  std::printf("%d read, %d refused\n", read, refused);
  return refused > 0;
}
