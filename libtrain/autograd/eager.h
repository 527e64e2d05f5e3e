// Eager: runs ops at once on tensors, through the same plans as inference, out of a bounded cache.
#pragma once
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "libtrain/core/memory_pool.h"
#include "libtrain/ops/op.h"

namespace train {

class Gradient;

/// A tensor with its layout: what eager ops take and give. Channels-last arrays are dense (ld ==
/// C).
struct Array {
  Tensor tensor;  // undefined where only the shape counts, or where an optional input is absent
  Shape shape;
  DType dtype = DType::kF32;
  Layout layout = Layout::kLinear;
  bool constant = false;  // changes rarely (weights): plans may keep a packed copy
  bool present = false;

  Array() = default;  // an absent optional input
  explicit Array(Tensor t, Layout layout = Layout::kLinear, bool constant = false)
      : tensor(std::move(t)),
        shape(tensor.shape()),
        dtype(tensor.dtype()),
        layout(layout),
        constant(constant),
        present(true) {}

  /// The same without its contents: an operand of which only the shape is read.
  Array without_data() const {
    Array a = *this;
    a.tensor = Tensor();
    a.constant = false;
    return a;
  }
  ValueInfo info() const;
};

/// Runs ops. Not thread-safe: one caller's (ops split their own work over the caller's pool).
///
/// What an op object needs again and again (its plans by shapes, layouts and thread count, its
/// packed weights, its gradient) is kept with the object's identity, so layers own their ops.
/// Packed weights remember the storage and the version of the constants they were made from: one
/// in-place update (an optimiser step) makes the next run pack anew, and between two updates any
/// number of runs share the pack. The least recently used ops are forgotten when the cache's bytes
/// (packed weights counted as large as the weights) pass the limit.
class Eager {
 public:
  struct Stats {
    size_t plans_made = 0, packs_made = 0;
    size_t ops_cached = 0, bytes_cached = 0;
  };

  explicit Eager(size_t max_cache_bytes = size_t{256} << 20);
  ~Eager();
  Eager(const Eager&) = delete;
  Eager& operator=(const Eager&) = delete;

  /// Runs `op`; the outputs are new, except that a view op shares its input's storage. Inputs in
  /// another layout than the op wants are reordered. Throws ShapeError naming the op.
  std::vector<Array> run(const std::shared_ptr<const Op>& op, std::span<const Array> inputs,
                         size_t outputs = 1);
  /// The same for an op with one output.
  Array run(const std::shared_ptr<const Op>& op, std::initializer_list<Array> inputs);

  /// `a` in the wanted layout: itself where both read alike, else a reordered copy.
  Array to_layout(const Array& a, Layout layout);

  /// The op's bf16 form (Op::in_bf16), made once; null where it has none.
  std::shared_ptr<const Op> in_bf16(const std::shared_ptr<const Op>& op);

  /// The op's gradient, made once. Throws Error when the op has none.
  std::shared_ptr<const Gradient> gradient(const std::shared_ptr<const Op>& op);

  /// An object that calls without an owner share, e.g. a reshape's op with its shape: made by
  /// `make()` (a shared_ptr<const T>) for a key not seen before, and kept.
  template <class T, class Make>
  std::shared_ptr<const T> shared(const std::string& key, Make&& make) {
    std::shared_ptr<const void>& object = shared_[key];
    if (!object) object = make();
    return std::static_pointer_cast<const T>(object);
  }

  Stats stats() const;

  /// Where the results of ops lie: memory is kept for the next step's.
  MemoryPool& memory() { return *memory_; }

  /// What the ops of one description took (those that make up gradients count as themselves).
  struct OpTime {
    size_t calls = 0;
    double seconds = 0;
    double flops = 0, bytes = 0;  // bytes: of operands and results, as if each were touched once
    std::string type;             // of the op
  };
  /// One run of an op: when it began, in seconds since profiling did, and how long it took.
  struct OpEvent {
    const std::string *op, *type;  // its description and its type, in profile()
    Shape shape;                   // of the first result
    double begin, seconds;
  };
  /// Starts (or ends) timing every op, keeping the first `max_events` runs one by one; what was
  /// counted is forgotten.
  void set_profiling(bool on, size_t max_events = 0);
  const std::map<std::string, OpTime>& profile() const { return profile_; }
  const std::vector<OpEvent>& events() const { return events_; }

 private:
  struct OpState;
  struct Prepared;
  OpState& state_of(const std::shared_ptr<const Op>& op);
  const Prepared& prepare(OpState& state, std::span<const Array> inputs, size_t outputs);
  void account(OpState& state);
  void* workspace(size_t bytes);
  void count(const Op& op, std::span<const Array> inputs, std::span<const Array> outputs,
             double begin, double seconds);
  std::vector<Array> run_now(const std::shared_ptr<const Op>& op, std::span<const Array> inputs,
                             size_t outputs);

  size_t max_bytes_, bytes_ = 0;
  std::list<OpState> states_;  // most recently used first
  std::unordered_map<const Op*, std::list<OpState>::iterator> index_;
  std::shared_ptr<Storage> workspace_;
  std::shared_ptr<MemoryPool> memory_ = MemoryPool::create();
  bool profiling_ = false;
  double profiling_since_ = 0;
  size_t max_events_ = 0;
  std::map<std::string, OpTime> profile_;
  std::vector<OpEvent> events_;
  std::unordered_map<std::string, std::shared_ptr<const void>> shared_;
  Stats made_;
};

}  // namespace train
