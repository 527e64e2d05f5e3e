// Fuzzer: any bytes as a settings file or an inference.yml set options or are a train::Error, and
// the options stay within their ranges.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "libocr/pipeline/options.h"
#include "libtrain/core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  ocr::Options options;
  std::vector<std::string> warnings;
  for (const bool strict : {false, true}) {
    try {
      ocr::load_config_text(options, text, "fuzz", strict, warnings);
    } catch (const train::Error&) {
    }
  }
  for (const char* kind : {"det", "rec", "cls", "doc"}) {
    try {
      ocr::load_inference_text(options, text, "fuzz", kind);
    } catch (const train::Error&) {
    }
  }
  if (!(options.det_db_thresh >= 0.0 && options.det_db_thresh <= 1.0)) std::abort();
  if (options.rec_batch_num < 1 || options.det_mean.value.size() != 3) std::abort();
  return 0;
}
