#include "libtrain/core/memory_pool.h"

#include <bit>

namespace train {
namespace {

constexpr size_t kSmallest = 256;

size_t class_of(size_t bytes) {
  if (bytes <= kSmallest) return kSmallest;
  const size_t step = std::bit_floor(bytes - 1) / 4;
  return (bytes + step - 1) / step * step;
}

}  // namespace

Tensor MemoryPool::tensor(const Shape& shape, DType dtype) {
  return Tensor(storage(static_cast<size_t>(shape.numel()) * size_of(dtype)), 0, shape, dtype);
}

std::shared_ptr<Storage> MemoryPool::storage(size_t bytes) {
  const size_t size = class_of(bytes);
  std::unique_ptr<Storage> block;
  {
    const std::lock_guard lock(mutex_);
    // The smallest that is large enough and not half empty.
    for (auto it = free_.lower_bound(size); it != free_.end() && it->first <= 2 * size; ++it)
      if (auto& blocks = it->second; !blocks.empty()) {
        block = std::move(blocks.back().storage);  // freed last: may still be in the cache
        blocks.pop_back();
        stats_.kept -= block->bytes();
        break;
      }
    stats_.used += block ? block->bytes() : size;
    stats_.peak = std::max(stats_.peak, stats_.used);
    if (!block) release_oldest(static_cast<size_t>(kMostKept * static_cast<double>(stats_.peak)));
  }
  if (!block) block = std::make_unique<Storage>(size);
  return {block.release(), [pool = shared_from_this()](Storage* s) { pool->give_back(s); }};
}

void MemoryPool::give_back(Storage* storage) {
  std::unique_ptr<Storage> block(storage);
  const size_t size = block->bytes();
  const std::lock_guard lock(mutex_);
  free_[size].push_back({std::move(block), ++clock_});
  stats_.used -= size;
  stats_.kept += size;
}

void MemoryPool::release_oldest(size_t most) {
  while (stats_.kept > 0 && stats_.used + stats_.kept > most) {
    auto oldest = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it)
      if (!it->second.empty() &&
          (oldest == free_.end() || it->second.front().freed < oldest->second.front().freed))
        oldest = it;
    auto& blocks = oldest->second;
    stats_.kept -= oldest->first;
    blocks.erase(blocks.begin());
  }
}

void MemoryPool::trim() {
  decltype(free_) all;
  const std::lock_guard lock(mutex_);
  all.swap(free_);
  stats_.kept = 0;
}

MemoryPool::Stats MemoryPool::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace train
