#include "libocr/pipeline/precision.h"

#include "libtrain/core/error.h"
#include "libtrain/cpu/isa.h"

namespace ocr {

PrecisionChoice choose_precision(std::string_view asked) {
  using train::cpu::Precision;
  if (asked == "fp32" || asked == "auto") return {};
  if (asked == "fp16" || asked == "int8")
    return {Precision::kF32, "fp32",
            train::cat("precision ", asked, ": there are no such kernels here; computing in fp32")};
  if (asked != "bf16")
    throw train::ConfigError("", 0, 0,
                             train::cat("precision is auto, fp32 or bf16, not '", asked, "'"));
  if (train::cpu::has_bf16()) return {Precision::kBf16, "bf16", ""};
  return {Precision::kF32, "fp32",
          "precision bf16: this CPU has no AVX512-BF16; computing in fp32"};
}

}  // namespace ocr
