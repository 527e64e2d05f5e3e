// Copies between strided arrays: what transposes, slices, concatenations and paddings come down to.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "libtrain/ops/op.h"

namespace train {

/// Strides in elements of a value's logical axes, by its layout.
std::array<int64_t, Shape::kMaxRank> strides_of(const ValueInfo& v);
/// Strides in elements of a dense row-major array.
std::vector<int64_t> dense_strides(std::span<const int64_t> shape);

/// One axis of a strided copy: `size` elements, strides in elements (0 repeats, negative reverses).
struct CopyAxis {
  int64_t size, src, dst;
};

/// dst[sum i_k dst_k] = src[sum i_k src_k] for all indices i; prepared once, split over threads.
class StridedCopy {
 public:
  StridedCopy() = default;
  StridedCopy(std::vector<CopyAxis> axes, size_t element_size);
  void run(const void* src, void* dst) const;

 private:
  template <class T>
  void run_typed(const T* src, T* dst) const;
  template <class T>
  void run_tiled(const T* src, T* dst) const;

  std::vector<CopyAxis> axes_;  // merged; the last is the innermost of dst
  size_t element_ = 1;
  bool tiled_ = false;  // the last axis but one is contiguous in src, the last one only in dst
  bool empty_ = true;
};

/// The copy of one value into another of the same shape, whatever their layouts.
StridedCopy copy_between(const ValueInfo& from, const ValueInfo& to);

/// Layouts of an op with one rank-4 image input that works in either layout: `outputs` follow input
/// 0; the other inputs are linear.
LayoutChoice follow_input(Infos inputs, Infos outputs);

}  // namespace train
