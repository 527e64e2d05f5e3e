// Placing buffers with known lifetimes in one block of memory.
#pragma once
#include <cstddef>
#include <vector>

namespace train {

/// A buffer in use from step `first` to step `last`, both included.
struct ArenaBuffer {
  size_t bytes = 0;
  int first = 0, last = 0;
};

struct ArenaLayout {
  std::vector<size_t> offsets;
  size_t bytes = 0;
};

/// Gives every buffer an offset (a multiple of `align`) such that buffers alive at the same time do
/// not overlap: largest first, each at the smallest gap that holds it (greedy by size, Pisarchyk &
/// Lee 2020, "Efficient Memory Management for Deep Neural Net Inference").
ArenaLayout pack_arena(const std::vector<ArenaBuffer>& buffers, size_t align);

}  // namespace train
