#include "libtrain/cpu/isa.h"

#include <atomic>
#include <cstdlib>
#include <string_view>

#include "libtrain/core/error.h"
#include "libtrain/cpu/packed.h"

namespace train::cpu {
namespace {

bool has(Isa isa) {
  __builtin_cpu_init();
  switch (isa) {
    case Isa::kSse4:
      return true;  // the baseline of the whole program
    case Isa::kAvx2:
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    case Isa::kAvx512:
#ifdef OCR_EMULATE_AVX512
      return has(Isa::kAvx2);
#endif
      return has(Isa::kAvx2) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl");
  }
  return false;
}

Isa choose() {
  const std::vector<Isa> all = available_isas();
  const char* wanted = std::getenv("OCR_ISA");
  if (!wanted || !*wanted) return all.back();
  for (const Isa isa : {Isa::kSse4, Isa::kAvx2, Isa::kAvx512})
    if (std::string_view(wanted) == isa_name(isa)) {
      if (!has(isa))
        throw Error(cat("OCR_ISA=", wanted, ": this CPU has no ", wanted, "; unset it"));
      return isa;
    }
  throw Error(cat("OCR_ISA=", wanted, ": unknown; use sse4, avx2 or avx512, or unset it"));
}

std::atomic<int> current{-1};

}  // namespace

bool has_bf16() {
#ifdef OCR_EMULATE_AVX512
  return isa() == Isa::kAvx512;
#endif
  __builtin_cpu_init();
  return isa() == Isa::kAvx512 && __builtin_cpu_supports("avx512bf16");
}

std::vector<Isa> available_isas() {
  std::vector<Isa> r;
  for (const Isa isa : {Isa::kSse4, Isa::kAvx2, Isa::kAvx512})
    if (has(isa)) r.push_back(isa);
  return r;
}

Isa isa() {
  int i = current.load(std::memory_order_relaxed);
  if (i < 0) current.store(i = static_cast<int>(choose()), std::memory_order_relaxed);
  return static_cast<Isa>(i);
}

void set_isa(Isa isa) {
  if (!has(isa)) throw Error(cat("this CPU has no ", isa_name(isa)));
  current.store(static_cast<int>(isa), std::memory_order_relaxed);
}

const char* isa_name(Isa isa) { return table_of(isa).name; }
const char* isa_name() { return isa_name(isa()); }

const KernelTable& table_of(Isa isa) {
  return isa == Isa::kAvx512 ? avx512::kTable : isa == Isa::kAvx2 ? avx2::kTable : sse4::kTable;
}
const KernelTable& kernels() { return table_of(isa()); }
const KernelTable& kernels(Precision precision) {
  if (precision == Precision::kF32) return kernels();
  if (!has_bf16()) throw Error(cat("bf16 products need AVX512-BF16; this is ", isa_name()));
  static const KernelTable bf16 = [] {
    KernelTable t = avx512::kTable;
    t.precision = Precision::kBf16;
    t.gemm = avx512bf16::gemm;
    t.gemm_scratch = avx512bf16::gemm_scratch;
    t.conv = avx512bf16::conv;
    t.conv_scratch = avx512bf16::conv_scratch;
    t.round_words = avx512bf16::round_words;
    t.pair_rows = avx512bf16::pair_rows;
    return t;
  }();
  return bf16;
}

}  // namespace train::cpu
