#include <map>
#include <mutex>

#include "libtrain/graph/instance.h"

namespace train {
namespace {

class NodePacks final : public PackCache {
 public:
  size_t size() const {
    const std::lock_guard lock(mutex_);
    return objects_.size();
  }

 protected:
  // Holds the lock while packing: a second caller wants the same object and has to wait anyway.
  std::shared_ptr<const void> get_any(int slot,
                                      FunctionRef<std::shared_ptr<const void>()> make) override {
    const std::lock_guard lock(mutex_);
    auto& object = objects_[slot];
    if (!object) object = make();
    return object;
  }

 private:
  mutable std::mutex mutex_;
  std::map<int, std::shared_ptr<const void>> objects_;
};

}  // namespace

struct PackStore::Impl {
  explicit Impl(size_t n) : nodes(n) {}
  std::vector<NodePacks> nodes;
};

PackStore::PackStore(size_t nodes) : impl_(std::make_unique<Impl>(nodes)) {}
PackStore::~PackStore() = default;
PackCache& PackStore::of(size_t node) { return impl_->nodes[node]; }
size_t PackStore::objects() const {
  size_t n = 0;
  for (const auto& node : impl_->nodes) n += node.size();
  return n;
}

}  // namespace train
