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

/// Calls f with an unsigned integer of `element` bytes (1, 2, 4 or 8): moving data needs no more of
/// a dtype than its size.
template <class F>
void by_size(size_t element, F&& f) {
  switch (element) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    default:
      return f(uint64_t{});
  }
}

}  // namespace train
