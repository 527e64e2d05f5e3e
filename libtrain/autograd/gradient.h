// Gradient: the backward function of one op. Adding one = a file grad_x.cpp and a row in
// gradient.cpp.
#pragma once
#include <memory>

#include "libtrain/autograd/tape.h"

namespace train {

/// What a gradient sees of its node while the backward pass stands there.
class GradContext {
 public:
  /// Runs the ops that the gradient is made of.
  Eager& eager() { return tape_.eager_; }
  /// d loss / d output i, in the output's layout. Throws Error when nothing flowed there.
  const Array& grad(size_t i = 0) const;
  /// Input or output `i` as declared in Gradient::saves: with contents, or its shape alone. Throws
  /// Error when the contents were changed in place since.
  const Array& input(size_t i) const { return checked(node_.inputs[i], "input", i); }
  const Array& output(size_t i) const { return checked(node_.outputs[i], "output", i); }
  size_t inputs() const { return node_.inputs.size(); }
  size_t outputs() const { return node_.outputs.size(); }
  bool has_grad(size_t i) const { return node_.outputs[i].slot->grad.present; }
  /// True when input `i` is there and a gradient must flow to it.
  bool needs(size_t i) const;
  /// Hands over d loss / d input i, of the input's shape, in any layout.
  void set(size_t i, Array grad);

 private:
  friend class Tape;
  GradContext(Tape& tape, Tape::Node& node) : tape_(tape), node_(node) {}
  const Array& checked(const Tape::Saved& s, const char* what, size_t i) const;
  Tape& tape_;
  Tape::Node& node_;
};

/// Immutable; made once per op object and kept beside its plans, so that it can own the ops it
/// runs.
class Gradient {
 public:
  /// Bit i set: the contents of input (output) i are read by run().
  struct Saves {
    uint32_t inputs = 0, outputs = 0;
  };
  explicit Gradient(Saves saves) : saves(saves) {}
  virtual ~Gradient() = default;
  /// Sets the gradient of every input that needs one, and computes no other.
  virtual void run(GradContext& context) const = 0;

  const Saves saves;
};

/// The gradient of `op`. Throws Error when it has none.
std::shared_ptr<const Gradient> make_gradient(const Op& op);

// One maker per grad_x.cpp; gradient.cpp has the table from operator names to these.
std::shared_ptr<const Gradient> conv_gradient(const Op& op);
std::shared_ptr<const Gradient> conv_transpose_gradient(const Op& op);
std::shared_ptr<const Gradient> matmul_gradient(const Op& op);
std::shared_ptr<const Gradient> add_gradient(const Op& op);
std::shared_ptr<const Gradient> sub_gradient(const Op& op);
std::shared_ptr<const Gradient> mul_gradient(const Op& op);
std::shared_ptr<const Gradient> div_gradient(const Op& op);
std::shared_ptr<const Gradient> max_pool_gradient(const Op& op);
std::shared_ptr<const Gradient> average_pool_gradient(const Op& op);
std::shared_ptr<const Gradient> global_average_pool_gradient(const Op& op);
std::shared_ptr<const Gradient> global_max_pool_gradient(const Op& op);
std::shared_ptr<const Gradient> reshape_gradient(const Op& op);
std::shared_ptr<const Gradient> transpose_gradient(const Op& op);
std::shared_ptr<const Gradient> concat_gradient(const Op& op);
std::shared_ptr<const Gradient> split_gradient(const Op& op);
std::shared_ptr<const Gradient> slice_gradient(const Op& op);
std::shared_ptr<const Gradient> pad_gradient(const Op& op);
std::shared_ptr<const Gradient> embedding_gradient(const Op& op);
std::shared_ptr<const Gradient> reduce_gradient(const Op& op);
std::shared_ptr<const Gradient> softmax_gradient(const Op& op);
std::shared_ptr<const Gradient> layer_norm_gradient(const Op& op);
std::shared_ptr<const Gradient> batch_norm_gradient(const Op& op);
std::shared_ptr<const Gradient> batch_norm_train_gradient(const Op& op);
std::shared_ptr<const Gradient> affine_act_gradient(const Op& op);
std::shared_ptr<const Gradient> pointwise_branches_gradient(const Op& op);
std::shared_ptr<const Gradient> group_norm_gradient(const Op& op);
std::shared_ptr<const Gradient> attention_gradient(const Op& op);
std::shared_ptr<const Gradient> lstm_gradient(const Op& op);
std::shared_ptr<const Gradient> resize_gradient(const Op& op);
std::shared_ptr<const Gradient> grid_sample_gradient(const Op& op);
std::shared_ptr<const Gradient> dropout_gradient(const Op& op);
std::shared_ptr<const Gradient> ctc_gradient(const Op& op);
std::shared_ptr<const Gradient> linear_ctc_gradient(const Op& op);
std::shared_ptr<const Gradient> map_loss_gradient(const Op& op);
std::shared_ptr<const Gradient> softmax_cross_entropy_gradient(const Op& op);
std::shared_ptr<const Gradient> round16_gradient(const Op& op);  // amp/autocast.cpp
/// Null where the function has no derivative here.
std::shared_ptr<const Gradient> unary_gradient(const Op& op);

}  // namespace train
