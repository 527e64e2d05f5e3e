// Instance: a Net planned for one set of input shapes: its steps, and where every value lies in the
// arena.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "libtrain/graph/net.h"

namespace train {

/// Where a value lies: in a constant tensor, in a feed, or in the arena.
struct Location {
  enum Kind : uint8_t { kNone, kArena, kConstant, kFeed };
  Kind kind = kNone;
  int index = -1;     // buffer, constant or feed
  size_t offset = 0;  // bytes into the buffer
};

struct Step {
  const Node* node = nullptr;  // null for a reorder
  std::unique_ptr<Plan> plan;
  std::vector<ValueInfo> infos;  // of the inputs, then of the outputs
  std::vector<Location> places;  // likewise
  size_t inputs = 0;
  size_t workspace = 0;  // offset in the arena
  double flops = 0;
};

/// Immutable once built; shared by all contexts.
class Instance {
 public:
  /// Plans `net` for feeds of these shapes, types and layouts. Throws ShapeError naming the node.
  Instance(const Net& net, std::span<const Feed> feeds, class PackStore& packs);

  void run(Context& context, std::span<const Feed> feeds, std::vector<Tensor>& outputs) const;
  size_t arena_bytes() const { return arena_bytes_; }
  /// Where feed `i`, one with in_arena, lies in the arena.
  size_t feed_offset(size_t i) const { return buffer_offsets_[feed_places_[i].index]; }

 private:
  friend class InstanceBuilder;
  const Graph* graph_;
  std::vector<Step> steps_;
  std::deque<Tensor> constants_;  // a deque: plans are made while it grows
  std::vector<size_t> buffer_offsets_;
  std::vector<Location> feed_places_;
  std::vector<ValueInfo> output_infos_;
  std::vector<Location> output_places_;
  size_t arena_bytes_ = 0;
};

/// The packed weights of a net, by node; see PackCache.
class PackStore {
 public:
  explicit PackStore(size_t nodes);
  ~PackStore();
  PackCache& of(size_t node);
  size_t objects() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace train
