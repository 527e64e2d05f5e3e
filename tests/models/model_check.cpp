// Builds the net of every given configuration, in the way `ocr train` would: a line each.
#include <cstdio>

#include "libocr/models/model.h"
#include "libtrain/core/error.h"

int main(int argc, char** argv) {
  int failed = 0;
  for (int i = 1; i < argc; ++i) {
    try {
      const auto config = train::config::load_training_config(argv[i]);
      train::config::ReadContext context;
      const auto model = ocr::models::build_model(config.architecture, 97, context);
      int64_t n = 0;
      for (const auto& p : model->parameters()) n += p.variable.shape().numel();
      std::printf("%s: %lld parameters\n", argv[i], static_cast<long long>(n));
      for (const std::string& w : context.warnings) std::printf("  %s\n", w.c_str());
    } catch (const train::Error& e) {
      std::printf("%s\n", e.what());
      ++failed;
    }
  }
  return failed ? 1 : 0;
}
