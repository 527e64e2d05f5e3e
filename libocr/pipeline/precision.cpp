#include "libocr/pipeline/precision.h"

#include <algorithm>

#include "libtrain/core/error.h"
#include "libtrain/cpu/isa.h"

namespace ocr {
namespace {

// Recognisers whose text was compared. Detectors gain little, and their boxes move by a pixel.
constexpr std::string_view kReadAlike[] = {
    // PP-OCRv6 tiny, small
    "9ef676d6ed3c88256a2d92c640c44f25b0c40947e111b14b8be8f594091563e6",
    "5435fd747c9e0efe15a96d0b378d5bd157e9492ed8fd80edf08f30d02fa24634",
};

}  // namespace

PrecisionChoice choose_precision(std::string_view asked, std::string_view sha256) {
  using train::cpu::Precision;
  if (asked == "fp32") return {};
  if (asked == "auto") {
    const bool alike = std::ranges::find(kReadAlike, sha256) != std::end(kReadAlike);
    if (alike && train::cpu::has_bf16()) return {Precision::kBf16, "bf16", ""};
    return {};
  }
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
