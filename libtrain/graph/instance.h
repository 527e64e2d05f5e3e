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
  std::unique_ptr<Plan> image_plan;  // the same for one image, until steps are grouped
  std::vector<ValueInfo> infos;      // of the inputs, then of the outputs
  std::vector<Location> places;      // likewise
  size_t inputs = 0;
  size_t workspace = 0;  // offset in the arena
  double flops = 0;
  // Of a step that runs image by image (see by_image.h): where its group ends, and the bytes from
  // one image to the next at each place. Its infos and its plan are those of one image.
  size_t group_end = 0;  // 0: a group of its own
  int64_t images = 1;
  std::vector<size_t> strides;
};

/// Immutable once built; shared by all contexts.
class Instance {
 public:
  /// Plans `net` for feeds of these shapes, types and layouts; `whole`: no step may run image by
  /// image. Throws ShapeError naming the node.
  Instance(const Net& net, std::span<const Feed> feeds, class PackStore& packs, bool whole);

  void run(Context& context, std::span<const Feed> feeds, std::vector<Tensor>& outputs) const;
  size_t arena_bytes() const { return arena_bytes_; }
  /// Where feed `i`, one with in_arena, lies in the arena.
  size_t feed_offset(size_t i) const { return buffer_offsets_[feed_places_[i].index]; }

 private:
  friend class InstanceBuilder;
  void run_step(size_t index, int64_t image, Context& context, std::span<const Feed> feeds,
                char* arena) const;
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
