#include "libtrain/autograd/kernels.h"

#include "libtrain/core/error.h"
#include "libtrain/cpu/isa.h"

namespace train {

const cpu::GradTable& grad_kernels() {
  switch (cpu::isa()) {
    case cpu::Isa::kAvx512:
      return cpu::avx512::kGradTable;
    case cpu::Isa::kAvx2:
      return cpu::avx2::kGradTable;
    default:
      return cpu::sse4::kGradTable;
  }
}

const cpu::GradTable& grad_kernels(cpu::Precision precision) {
  if (precision == cpu::Precision::kF32) return grad_kernels();
  if (!cpu::has_bf16())
    throw Error(cat("bf16 products need AVX512-BF16; this is ", cpu::isa_name()));
  static const cpu::GradTable bf16 = [] {
    cpu::GradTable t = cpu::avx512::kGradTable;
    t.pack_product = cpu::avx512bf16::pack_product;
    t.product_tile = cpu::avx512bf16::product_tile;
    return t;
  }();
  return bf16;
}

void add_blocks(const float* partial, int64_t blocks, int64_t cols, float* y) {
  parallel_for(cols, std::max<int64_t>(64, kElementGrain / std::max<int64_t>(blocks, 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t c = begin; c < end; ++c) {
                   double sum = 0;
                   for (int64_t b = 0; b < blocks; ++b) sum += partial[b * cols + c];
                   y[c] = static_cast<float>(sum);
                 }
               });
}

}  // namespace train

namespace train::cpu {

bool act_grad_reads_output(Act kind) {
  switch (kind) {
    case Act::kRelu:
    case Act::kClip:
    case Act::kSigmoid:
    case Act::kHardSigmoid:
    case Act::kTanh:
    case Act::kExp:
    case Act::kSqrt:
      return true;
    default:
      return false;
  }
}

}  // namespace train::cpu
