// Cache: keeps what was costly to decode, up to a limit in bytes.
#pragma once
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace train::data {

/// Keeps values by key until the limit is reached, and those from then on: an epoch reads every
/// sample once in random order, where any rule of replacement would throw out what comes next and
/// a full cache that stays serves its share of every epoch. Thread-safe; two threads that miss the
/// same key at once both make the value, and one is kept.
template <class Key, class Value>
class Cache {
 public:
  /// 0 bytes: keeps nothing.
  explicit Cache(size_t max_bytes) : max_bytes_(max_bytes) {}

  /// The value of `key`: the one kept, else what make() gives. `bytes_of(value)` is its size.
  template <class Make, class BytesOf>
  std::shared_ptr<const Value> get(const Key& key, Make&& make, BytesOf&& bytes_of) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto found = values_.find(key); found != values_.end()) {
        ++stats_.hits;
        return found->second;
      }
      ++stats_.misses;
    }
    auto value = std::make_shared<const Value>(make());
    const size_t bytes = bytes_of(*value) + kOverhead;
    const std::lock_guard lock(mutex_);
    if (stats_.bytes + bytes <= max_bytes_ && values_.emplace(key, value).second) {
      stats_.bytes += bytes;
      ++stats_.values;
    }
    return value;
  }

  struct Stats {
    size_t hits = 0, misses = 0, values = 0, bytes = 0;
  };
  Stats stats() const {
    const std::lock_guard lock(mutex_);
    return stats_;
  }

 private:
  static constexpr size_t kOverhead = 128;  // of a map's node and the counted pointer
  const size_t max_bytes_;
  mutable std::mutex mutex_;
  std::unordered_map<Key, std::shared_ptr<const Value>> values_;
  Stats stats_;
};

}  // namespace train::data
