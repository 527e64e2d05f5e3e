// Rounding to pairs of bf16: what packing needs besides the dense kernels.
#include "libtrain/cpu/kernels/kernels.h"
#include "libtrain/cpu/kernels/words.h"

namespace train::cpu::OCR_ISA_NS {

void round_words(const float* x, int64_t n, void* words) {
  const int64_t even = n / 2 * 2;
  write_words(x, even, static_cast<float*>(words));
  if (even == n) return;
  float word[W];
  store(word, pair(set1(x[even]), zero()));
  std::memcpy(static_cast<char*>(words) + even * 2, word, 2);
}

void pair_rows(const float* first, const float* second, int64_t n, float* words) {
  for (int64_t i = 0; i < n; i += W) {
    const int64_t left = min_i(n - i, W);
    store_n(words + i, pair(load_n(first + i, left), second ? load_n(second + i, left) : zero()),
            left);
  }
}

}  // namespace train::cpu::OCR_ISA_NS
