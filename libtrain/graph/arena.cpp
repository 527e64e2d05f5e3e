#include "libtrain/graph/arena.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace train {

ArenaLayout pack_arena(const std::vector<ArenaBuffer>& buffers, size_t align) {
  ArenaLayout layout;
  layout.offsets.assign(buffers.size(), 0);
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order,
                           [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  std::vector<size_t> placed;  // by offset
  for (size_t b : order) {
    const ArenaBuffer& buffer = buffers[b];
    const size_t need = (buffer.bytes + align - 1) / align * align;
    if (need == 0) continue;
    size_t best = std::numeric_limits<size_t>::max(), best_gap = best, end = 0;
    for (size_t p : placed) {
      const ArenaBuffer& other = buffers[p];
      if (other.last < buffer.first || other.first > buffer.last) continue;
      const size_t at = layout.offsets[p];
      if (at > end && at - end >= need && at - end < best_gap) {
        best = end;
        best_gap = at - end;
      }
      end = std::max(end, at + (other.bytes + align - 1) / align * align);
    }
    layout.offsets[b] = best_gap == std::numeric_limits<size_t>::max() ? end : best;
    layout.bytes = std::max(layout.bytes, layout.offsets[b] + need);
    placed.insert(std::ranges::upper_bound(placed, layout.offsets[b], {},
                                           [&](size_t p) { return layout.offsets[p]; }),
                  b);
  }
  return layout;
}

}  // namespace train
