// 2-D transposed convolution, channels-last f32, as ONNX's ConvTranspose defines it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "libtrain/cpu/activation.h"

namespace train::cpu {

struct ConvTransposeDesc {
  int64_t cin = 0, cout = 0, groups = 1;
  int kh = 1, kw = 1, sh = 1, sw = 1, dh = 1, dw = 1;
  int pt = 0, pl = 0, pb = 0, pr = 0;
  int oph = 0, opw = 0;  // output_padding
  Epilogue epilogue;
  Precision precision = Precision::kF32;
};

/// Immutable and thread-safe; bits as deterministic as Conv's. A 2x2 kernel with stride 2 runs as
/// one GEMM per kernel row.
class ConvTranspose {
 public:
  /// `weights`: [cin, cout / groups, kh, kw]; `bias`: [cout] or null. Throws ShapeError on
  /// impossible attributes, Error for bf16 where has_bf16() is false.
  static std::unique_ptr<ConvTranspose> create(const ConvTransposeDesc& desc, const float* weights,
                                               const float* bias);
  virtual ~ConvTranspose() = default;

  const ConvTransposeDesc& desc() const { return desc_; }
  int64_t out_h(int64_t h) const;  // (h - 1) sh - pt - pb + dh (kh - 1) + 1 + oph
  int64_t out_w(int64_t w) const;
  virtual size_t workspace_bytes(int64_t n, int64_t h, int64_t w, int threads) const = 0;
  virtual size_t packed_bytes() const = 0;
  /// As Conv::run.
  virtual void run(const float* x, int64_t ldx, int64_t n, int64_t h, int64_t w, float* y,
                   int64_t ldy, const float* res, int64_t ldr, void* workspace) const = 0;

 protected:
  explicit ConvTranspose(const ConvTransposeDesc& desc) : desc_(desc) {}
  ConvTransposeDesc desc_;
};

}  // namespace train::cpu
