// Which instruction set the CPU kernels use: chosen once from cpuid, or from OCR_ISA, or by a test.
#pragma once
#include <vector>

namespace train::cpu {

enum class Isa { kSse4, kAvx2, kAvx512 };

/// The instruction set in use. The first call decides: OCR_ISA=sse4|avx2|avx512 if set (an Error
/// when this CPU lacks it or the name is unknown), else the best this CPU has.
Isa isa();
/// Uses `isa` from now on, for objects (packed weights) created from now on; those made before keep
/// theirs. For tests and tools; not thread-safe against running kernels. Throws Error when this CPU
/// lacks it.
void set_isa(Isa isa);
const char* isa_name(Isa isa);
const char* isa_name();
/// Whether isa() multiplies bf16 (AVX-512 with AVX512-BF16; every CPU with AMX has it, too).
bool has_bf16();
/// The instruction sets this CPU has, worst first.
std::vector<Isa> available_isas();

}  // namespace train::cpu
