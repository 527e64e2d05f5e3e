// Which arithmetic a run uses: what `--precision` asks for and what this CPU has.
#pragma once
#include <string>
#include <string_view>

#include "libtrain/cpu/activation.h"

namespace ocr {

struct PrecisionChoice {
  train::cpu::Precision precision = train::cpu::Precision::kF32;
  const char* name = "fp32";
  std::string note;  // one line where it is not what was asked for
};

/// `asked`: fp32, bf16, auto, or PaddleOCR's fp16 and int8, for which there are no kernels. What is
/// not to be had is computed in fp32, with a note. auto is bf16 where the CPU has it and the model
/// with this hash reads the same text with it (docs/numerics.md, "bf16"), else fp32.
/// Throws train::ConfigError on anything else.
PrecisionChoice choose_precision(std::string_view asked, std::string_view sha256 = {});

}  // namespace ocr
