// Fuzzer: any bytes as a dictionary file are a dictionary whose classes are consistent, or a
// train::Error.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "libocr/text/dictionary.h"
#include "libtrain/core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const ocr::SpaceClass space : {ocr::SpaceClass::kNone, ocr::SpaceClass::kAppend}) {
    try {
      const ocr::Dictionary dictionary = ocr::Dictionary::from_text(text, space, "fuzz");
      for (int64_t i = 1; i < dictionary.classes(); ++i) {
        const int64_t found = dictionary.index_of(dictionary.text(i));
        if (found < i || dictionary.text(found) != dictionary.text(i)) std::abort();
      }
      if (space == ocr::SpaceClass::kAppend && dictionary.space() < 1) std::abort();
    } catch (const train::Error&) {
    }
  }
  return 0;
}
