// Fuzzer: any bytes as a training configuration, and as an override of a good one, are a
// configuration within its ranges or a train::Error; what was read can be written and read again.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "libtrain/config/training.h"
#include "libtrain/config/yaml.h"
#include "libtrain/core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace train::config;
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const bool strict : {false, true}) {
    try {
      const TrainingConfig config = parse_training_config(text, "fuzz", {{}, strict});
      if (config.train.loader.batch_size_per_card < 1) std::abort();
    } catch (const train::Error&) {
    }
  }
  try {
    const std::string written = to_yaml(parse_yaml(text, "fuzz"));
    if (to_yaml(parse_yaml(written, "again")) != written) std::abort();
  } catch (const train::FormatError&) {
  } catch (const train::ConfigError&) {
  }
  try {
    parse_training_config("Global: {a: [1, {b: 2}]}\nArchitecture: {algorithm: DB}\n", "base",
                          {{text}, false});
  } catch (const train::Error&) {
  }
  return 0;
}
