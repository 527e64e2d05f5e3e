#include "libtrain/ops/broadcast.h"

namespace train {
namespace {

// Strides of `v` in its own memory for the dimensions of `out` (right-aligned), 0 where it is
// repeated.
std::array<int64_t, Shape::kMaxRank> strides_over(const ValueInfo& v, const Shape& out) {
  std::array<int64_t, Shape::kMaxRank> own{}, result{};
  const Shape& s = v.shape;
  if (v.channels_last()) {
    const int64_t ld = v.ld ? v.ld : s[1];
    own = {s[2] * s[3] * ld, 1, s[3] * ld, ld};
  } else {
    int64_t step = 1;
    for (int i = s.rank() - 1; i >= 0; --i) {
      own[i] = step;
      step *= s[i];
    }
  }
  const int shift = out.rank() - s.rank();
  for (int i = 0; i < s.rank(); ++i) result[i + shift] = s[i] == 1 ? 0 : own[i];
  return result;
}

}  // namespace

bool same_in_both_layouts(const Shape& s) {
  return s.rank() == 4 && (s[1] == 1 || (s[2] == 1 && s[3] == 1));
}

BroadcastNest broadcast_nest(const ValueInfo& a, const ValueInfo& b, const ValueInfo& out) {
  const auto sa = strides_over(a, out.shape), sb = strides_over(b, out.shape);
  const int rank = out.shape.rank();
  constexpr int image_order[] = {0, 2, 3, 1};
  BroadcastNest nest;
  for (int i = 0; i < rank; ++i) {
    const int d = out.channels_last() ? image_order[i] : i;
    const int64_t n = out.shape[d];
    if (n == 1) continue;
    const int last = nest.rank - 1;
    if (last >= 0 && nest.stride_a[last] == sa[d] * n && nest.stride_b[last] == sb[d] * n) {
      nest.dims[last] *= n;  // runs on without a gap in both operands (or is repeated in one)
      nest.stride_a[last] = sa[d];
      nest.stride_b[last] = sb[d];
      continue;
    }
    nest.dims[nest.rank] = n;
    nest.stride_a[nest.rank] = sa[d];
    nest.stride_b[nest.rank] = sb[d];
    ++nest.rank;
  }
  return nest;
}

}  // namespace train
