// Variable and Tape: a recorded forward pass, and the backward pass over it.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "libtrain/autograd/eager.h"

namespace train {

namespace amp {
class Autocast;
}

/// A value that a gradient may flow to. A handle: copies share value and gradient.
class Variable {
 public:
  Variable() = default;  // an absent optional input
  /// Data: no gradient.
  static Variable input(Tensor value, Layout layout = Layout::kLinear);
  /// Data that ops need at planning time (the shape of a reshape): no gradient.
  static Variable constant(Tensor value);
  /// A trainable leaf in linear order. Between in-place updates its contents count as constant.
  static Variable parameter(Tensor value);

  bool defined() const { return slot_ != nullptr; }
  const Array& array() const { return array_; }
  const Tensor& value() const { return array_.tensor; }
  /// The same for all copies of this variable, and for no other one while a copy is held.
  const void* identity() const { return slot_.get(); }
  const Shape& shape() const { return array_.shape; }
  Layout layout() const { return array_.layout; }
  /// The value for a change in place: counts its storage's version up, so that packed copies are
  /// made anew and a gradient that saved the old contents is refused.
  Tensor& writable();

  bool requires_grad() const { return slot_ && slot_->requires_grad; }
  /// Freezes or unfreezes a leaf.
  void set_requires_grad(bool on) { slot_->requires_grad = on; }
  /// The gradient, in the value's shape and layout; undefined before a backward pass reached it.
  /// Only leaves keep theirs; backward passes add to it until clear_grad().
  const Tensor& grad() const { return slot_->grad.tensor; }
  void clear_grad() { slot_->grad = Array(); }
  /// The gradient for a change in place; a copy where another value shares its memory.
  Tensor& writable_grad();
  void set_grad(Tensor grad) { slot_->grad = Array(std::move(grad), slot_->layout); }

 private:
  friend class Tape;
  // Apart from the value, so that the tape does not keep values alive that no gradient reads.
  struct Slot {
    Array grad;
    Shape shape;
    DType dtype = DType::kF32;
    Layout layout = Layout::kLinear;
    bool requires_grad = false;
  };
  Variable(Array array, bool requires_grad);

  Array array_;
  std::shared_ptr<Slot> slot_;
};

/// One op as it ran.
struct AppliedOp {
  std::shared_ptr<const Op> op;
  std::vector<Variable> inputs, outputs;
};

/// Records the ops of one forward pass. backward() walks them in reverse order of recording, which
/// fixes the order in which gradients are added, and empties the tape.
class Tape {
 public:
  /// With `record` false the tape only computes (evaluation). `seed` is all that dropout and the
  /// like draw from: give every step (and every rank) its own.
  explicit Tape(Eager& eager, bool record = true, uint64_t seed = 0)
      : eager_(eager), record_(record), seed_(seed) {}
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  Eager& eager() { return eager_; }
  /// Mixed precision for the ops applied from now on; null ends it. Outlives the tape.
  void set_autocast(const amp::Autocast* autocast) { autocast_ = autocast; }
  bool autocasts() const { return autocast_ != nullptr; }
  /// Called with every op applied from now on, once it has run.
  void on_step(std::function<void(AppliedOp)> tell) { on_step_ = std::move(tell); }
  /// i64 [2], the seed and a stream that no other call on this tape got: an op's random numbers.
  Variable random_key();
  /// Runs the op; records it when an input requires a gradient. Throws ShapeError naming the op,
  /// and Error when a gradient is required and the op has none.
  Variable apply(const std::shared_ptr<const Op>& op, std::initializer_list<Variable> inputs);
  std::vector<Variable> apply(const std::shared_ptr<const Op>& op, std::span<const Variable> inputs,
                              size_t outputs);

  /// Adds d loss / d leaf to every leaf that requires it; `loss` has one f32 element. Throws Error
  /// when the loss is not on the tape, and, naming the op, when a saved tensor was changed in
  /// place.
  void backward(const Variable& loss);
  /// The same from any value: adds the gradient of sum(seed * y); `seed` has y's shape and
  /// `layout`.
  void backward(const Variable& y, const Tensor& seed, Layout layout = Layout::kLinear);
  size_t size() const { return nodes_.size(); }

  /// Calls `after(i)` during backward as soon as the gradient of leaves[i] is final, and after(-1)
  /// after every op: where communication is started and moved on.
  void watch(std::vector<Variable> leaves, std::function<void(int64_t)> after);

 private:
  friend class GradContext;
  // What a gradient will read of an input or output: its contents if declared, else its shape.
  struct Saved {
    Array array;
    uint64_t version = 0;
    std::shared_ptr<Variable::Slot> slot;  // null for an absent input
  };
  struct Node {
    std::shared_ptr<const Op> op;
    std::shared_ptr<const Gradient> gradient;
    std::vector<Saved> inputs, outputs;
  };
  static Saved save(const Variable& v, bool contents);
  void count_uses();
  void tell_watcher(const Node& node);
  std::vector<Variable> apply_as_is(const std::shared_ptr<const Op>& op,
                                    std::span<const Variable> inputs, size_t outputs);
  std::vector<Variable> apply_lowered(const std::shared_ptr<const Op>& op,
                                      std::span<const Variable> inputs, size_t outputs);
  void accumulate(Variable::Slot& slot, Array grad);

  Eager& eager_;
  bool record_;
  uint64_t seed_ = 0, next_stream_ = 0;
  std::vector<Node> nodes_;
  const amp::Autocast* autocast_ = nullptr;
  std::function<void(AppliedOp)> on_step_;
  struct Lowered {
    Variable weight, rounded;  // the weight, so that its slot's address stays its own
  };
  std::unordered_map<const Variable::Slot*, Lowered> lowered_;  // weights, rounded once per tape
  struct Uses {
    int64_t leaf = 0, left = 0;
  };
  std::vector<Variable> watched_;
  std::function<void(int64_t)> after_;
  std::unordered_map<const Variable::Slot*, Uses> uses_;  // by the nodes that are left
};

}  // namespace train
