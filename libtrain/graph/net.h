// Net: a graph made ready to run, immutable and shared. Context: one caller's memory to run nets
// in.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "libtrain/cpu/activation.h"
#include "libtrain/graph/graph.h"

namespace train {

class Instance;

/// A tensor given to a net. For Layout::kChannelsLast the shape is logical [N, C, H, W] and the
/// memory dense N, H, W, C.
struct Feed {
  Tensor tensor;
  Layout layout = Layout::kLinear;
  bool in_arena = false;  // made by Net::input(): its memory serves later steps once it was read
};

struct NetOptions {
  bool fuse = true;                                 // run the optimising passes
  cpu::Precision precision = cpu::Precision::kF32;  // kBf16 wants cpu::has_bf16(); see passes.h
  size_t instance_cache = 64;  // plans kept, by input shapes; the least recently used goes
  int64_t max_arena_bytes = int64_t{1} << 36;  // a shape whose plan needs more is refused
};

/// What one step took, summed over runs; `best`: its fastest run, which other load disturbs least.
/// Processor time where one thread computes, else wall time.
struct StepProfile {
  std::string node, op, shape;
  double seconds = 0, best = 0, flops = 0, bytes = 0;
  int64_t runs = 0;
};

/// One caller's arena. Not thread-safe: each thread that runs nets has its own. The results of a
/// run stay valid until the next run in the same context.
class Context {
 public:
  /// The arena, at least `bytes` large, 64-byte aligned, contents undefined; growing it ends
  /// earlier pointers.
  char* arena(size_t bytes);
  size_t arena_bytes() const { return arena_ ? arena_->bytes() : 0; }
  /// The largest arena that was asked for since the last call of this.
  size_t take_peak() { return std::exchange(peak_, 0); }
  /// Gives the arena back when it is larger than `most`; tensors of earlier results that are still
  /// held keep their memory.
  void shrink(size_t most) {
    if (arena_bytes() > most) arena_.reset();
  }
  const std::shared_ptr<Storage>& storage() const { return arena_; }
  /// Filled with one entry per step when set.
  std::vector<StepProfile>* profile = nullptr;
  /// Called with every value that a run computes, in linear order: (node, value, tensor). Slow.
  std::function<void(const std::string&, const std::string&, const Tensor&)> inspect;

 private:
  friend class Instance;
  std::shared_ptr<Storage> arena_;
  size_t peak_ = 0;
  friend class Net;
  // Scratch, so that a run allocates nothing.
  std::vector<View> views_;
  std::vector<int64_t> key_;
};

/// A graph after the passes, with its packed weights and a bounded cache of plans per input shapes.
class Net {
 public:
  /// Throws ShapeError or FormatError naming the node when the graph is inconsistent.
  static std::shared_ptr<Net> compile(Graph graph, const NetOptions& options = {});
  ~Net();

  const Graph& graph() const { return graph_; }

  /// Room in the context's arena for the one f32 input of this net, contents undefined: to be
  /// filled and given to the next run in the context, which must be of this net. Ends earlier
  /// results.
  Feed input(Context& context, const Shape& shape, Layout layout) const;

  /// Runs the net. `outputs` are linear and live in the context's arena until its next run.
  /// Thread-safe.
  void run(Context& context, std::span<const Feed> inputs, std::vector<Tensor>& outputs) const;

  /// Plans for these input shapes without running; returns the bytes of arena that a run will need.
  size_t plan(std::span<const Feed> inputs) const;

  struct Stats {
    size_t instances_made = 0, packed_objects = 0;
  };
  Stats stats() const;

 private:
  friend class Instance;
  struct Cache;
  Net();
  std::shared_ptr<const Instance> instance(std::span<const Feed> inputs, std::vector<int64_t>& key,
                                           bool whole = false) const;

  Graph graph_;
  NetOptions options_;
  std::unique_ptr<Cache> cache_;
};

}  // namespace train
