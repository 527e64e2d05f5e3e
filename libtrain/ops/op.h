// Op: what a graph node computes; it infers shapes and makes plans, and never touches data itself.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libtrain/core/error.h"
#include "libtrain/core/tensor.h"
#include "libtrain/core/thread_pool.h"

namespace train {

/// What is known of a value before it is computed. `shape` is logical; `ld` is the pixel stride in
/// elements of a channels-last value (C when dense). `constant` is set when the contents are known,
/// e.g. weights and shape arithmetic. An absent optional input has `present == false`.
struct ValueInfo {
  Shape shape;
  DType dtype = DType::kF32;
  Layout layout = Layout::kLinear;
  int64_t ld = 0;
  const Tensor* constant = nullptr;
  bool present = true;

  ValueInfo() = default;
  ValueInfo(const Shape& shape, DType dtype) : shape(shape), dtype(dtype) {}
  static ValueInfo absent() {
    ValueInfo v;
    v.present = false;
    return v;
  }
  bool channels_last() const { return layout == Layout::kChannelsLast; }
};

/// A value while a plan runs: where it lies and what it is. `data` is null for an absent input.
struct View {
  void* data = nullptr;
  const ValueInfo* info = nullptr;

  const Shape& shape() const { return info->shape; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

using Views = std::span<const View>;
using Infos = std::span<const ValueInfo>;

/// A computation made ready for one set of shapes, dtypes and layouts. Immutable: run() is safe
/// from many threads, each with its own workspace of `workspace_bytes` (64-byte aligned, contents
/// undefined).
class Plan {
 public:
  virtual ~Plan() = default;
  virtual void run(Views inputs, Views outputs, void* workspace) const = 0;
  size_t workspace_bytes = 0;
};

/// Wraps a callable (Views inputs, Views outputs, void* workspace) as a plan.
template <class F>
std::unique_ptr<Plan> make_plan(F run_fn, size_t workspace_bytes = 0) {
  struct Fn final : Plan {
    explicit Fn(F f) : fn(std::move(f)) {}
    void run(Views in, Views out, void* ws) const override { fn(in, out, ws); }
    F fn;
  };
  auto plan = std::make_unique<Fn>(std::move(run_fn));
  plan->workspace_bytes = workspace_bytes;
  return plan;
}

/// Where a node keeps what it derived from its weights (packed panels), shared by all its plans.
class PackCache {
 public:
  virtual ~PackCache() = default;
  /// The node's object number `slot`, made by `make()` (a shared_ptr<T>) on first use. Thread-safe.
  template <class T, class Make>
  std::shared_ptr<const T> get(int slot, Make&& make) {
    return std::static_pointer_cast<const T>(
        get_any(slot, [&]() -> std::shared_ptr<const void> { return make(); }));
  }

 protected:
  virtual std::shared_ptr<const void> get_any(int slot,
                                              FunctionRef<std::shared_ptr<const void>()> make) = 0;
};

/// How an op wants its values laid out, given what its inputs have now.
struct LayoutChoice {
  std::vector<Layout> inputs, outputs;
};

class Op {
 public:
  virtual ~Op() = default;
  /// ONNX's operator name, or the project's own for a fused one.
  virtual std::string_view type() const = 0;
  /// The attributes in one line, for messages and dumps.
  virtual std::string describe() const { return std::string(type()); }
  /// Fills shape and dtype of every output (one entry per output of the node, used or not).
  /// `inputs[i].constant` may be null even where the op needs it: then throws ShapeError.
  virtual void infer(Infos inputs, std::span<ValueInfo> outputs) const = 0;
  /// Default: everything linear.
  virtual LayoutChoice layouts(Infos inputs, Infos outputs) const;
  /// False for ops that need only the shapes of their inputs (Shape, Size): their results are
  /// constants once shapes are known.
  virtual bool reads_data() const { return true; }
  /// True when output 0 is input 0's bytes under another shape (linear layouts only): nothing is
  /// copied.
  virtual bool is_view() const { return false; }
  /// True when output 0 may overwrite input `i` (equal bytes, each place read before it is
  /// written).
  virtual bool may_overwrite(int i) const {
    (void)i;
    return false;
  }
  /// True when a channels-last output 0 may have ld > C: it can be written into a wider buffer.
  virtual bool strided_output() const { return false; }
  /// True when channels-last inputs may have ld > C.
  virtual bool strided_input() const { return false; }
  /// True when image n of the outputs depends on image n of the inputs and on constants that all
  /// images share, and bits do not depend on the batch: the op may run image by image.
  virtual bool by_image(Infos inputs) const {
    (void)inputs;
    return false;
  }
  /// Floating point operations (2 per multiply-add), for profiles.
  virtual double flops(Infos inputs, Infos outputs) const;
  virtual std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const = 0;
  /// The op with its factors rounded to bf16 as its kernels read them, and sums in f32; its plans
  /// want cpu::has_bf16(). Null where no such kernels exist.
  virtual std::shared_ptr<const Op> in_bf16() const { return nullptr; }
};

/// Throws ShapeError unless the condition holds; the executor adds the node's name.
inline void require(bool ok, const char* message) {
  if (!ok) throw ShapeError(message);
}

/// True when the node has input `i`.
inline bool has_input(Infos inputs, size_t i) { return i < inputs.size() && inputs[i].present; }
/// True when no input from `first` on is a constant with an image for each of the batch: one of
/// input 0's rank, its first extent above 1.
bool shares_constants(Infos inputs, size_t first = 0);
/// The contents of input `i` as integers; throws ShapeError naming `what` when they are not known
/// yet.
std::vector<int64_t> constant_ints(Infos inputs, size_t i, const char* what);

}  // namespace train
