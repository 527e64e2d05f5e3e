// Broadcasting two operands over an output in memory order: dimensions that run together are
// merged.
#pragma once
#include <array>

#include "libtrain/ops/op.h"

namespace train {

/// Loop nest of a broadcast: `rank` dimensions, outermost first, with the elements' strides of two
/// operands (0 = repeated). The output is dense in this order.
struct BroadcastNest {
  int rank = 0;
  std::array<int64_t, Shape::kMaxRank> dims{}, stride_a{}, stride_b{};
};

/// The nest for out = f(a, b). All of rank 4 with layout channels-last run in N, H, W, C order; an
/// operand in linear layout whose shape reads alike in both (see same_in_both_layouts) may stand
/// beside them.
BroadcastNest broadcast_nest(const ValueInfo& a, const ValueInfo& b, const ValueInfo& out);

/// True when a dense tensor of this shape has the same bytes in linear and channels-last order.
bool same_in_both_layouts(const Shape& s);

/// Calls body(ia, ib, io, n, sa, sb) for every innermost run of n elements: element offsets and
/// strides.
template <class Body>
void for_each_run(const BroadcastNest& nest, Body&& body) {
  if (nest.rank == 0) return body(0, 0, 0, 1, 0, 0);
  const int inner = nest.rank - 1;
  std::array<int64_t, Shape::kMaxRank> index{};
  int64_t ia = 0, ib = 0, io = 0;
  for (;;) {
    body(ia, ib, io, nest.dims[inner], nest.stride_a[inner], nest.stride_b[inner]);
    io += nest.dims[inner];
    int d = inner - 1;
    for (; d >= 0; --d) {
      ia += nest.stride_a[d];
      ib += nest.stride_b[d];
      if (++index[d] < nest.dims[d]) break;
      ia -= nest.stride_a[d] * nest.dims[d];
      ib -= nest.stride_b[d] * nest.dims[d];
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

}  // namespace train
