// The training kernels of one instruction set that grad_map.cpp's table names from other files.
#pragma once
#include "libtrain/cpu/kernels/grad_kernels.h"

namespace train::cpu::OCR_ISA_NS {

void depthwise_weight_row(const DepthwiseRowArgs& g, const float* x, const float* dy, float* acc);
void depthwise_input_row(const DepthwiseRowArgs& g, const float* taps, const float* dy, float* dx);

}  // namespace train::cpu::OCR_ISA_NS
