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
    if (auto& blocks = free_[size]; !blocks.empty()) {
      block = std::move(blocks.back());  // the last one freed: its lines may still be in the cache
      blocks.pop_back();
      stats_.kept -= size;
    }
    stats_.used += size;
    stats_.peak = std::max(stats_.peak, stats_.used);
  }
  if (!block) block = std::make_unique<Storage>(size);
  return {block.release(), [pool = shared_from_this()](Storage* s) { pool->give_back(s); }};
}

void MemoryPool::give_back(Storage* storage) {
  std::unique_ptr<Storage> block(storage);
  const size_t size = block->bytes();
  const std::lock_guard lock(mutex_);
  free_[size].push_back(std::move(block));
  stats_.used -= size;
  stats_.kept += size;
}

void MemoryPool::trim() {
  std::map<size_t, std::vector<std::unique_ptr<Storage>>> all;
  const std::lock_guard lock(mutex_);
  all.swap(free_);
  stats_.kept = 0;
}

MemoryPool::Stats MemoryPool::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace train
