// Small helpers that the op files share.
#pragma once
#include "libtrain/ops/op.h"

namespace train {

/// The pixel stride of a channels-last value.
inline int64_t pixel_stride(const ValueInfo& v) { return v.ld ? v.ld : v.shape[1]; }

/// Throws ShapeError unless the input is f32.
inline void require_f32(const ValueInfo& v) {
  if (v.dtype != DType::kF32) throw ShapeError(cat("expected f32, got ", name_of(v.dtype)));
}

inline void require_rank(const ValueInfo& v, int rank) {
  if (v.shape.rank() != rank)
    throw ShapeError(cat("expected rank ", rank, ", got shape ", v.shape.str()));
}

/// The constant input `i` as f32, or null when absent; throws ShapeError naming `what` when it is
/// computed.
const float* constant_f32(Infos inputs, size_t i, const char* what);

/// Input 0 and output 0 channels-last, everything else linear; `extra` (if >= 0) is one more
/// channels-last input.
LayoutChoice image_layouts(Infos inputs, Infos outputs, int extra = -1);

}  // namespace train
