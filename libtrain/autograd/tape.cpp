#include "libtrain/autograd/tape.h"

#include <algorithm>
#include <utility>

#include "libtrain/amp/autocast.h"
#include "libtrain/autograd/gradient.h"
#include "libtrain/cpu/elementwise.h"

namespace train {

Variable::Variable(Array array, bool requires_grad)
    : array_(std::move(array)), slot_(std::make_shared<Slot>()) {
  slot_->shape = array_.shape;
  slot_->dtype = array_.dtype;
  slot_->layout = array_.layout;
  slot_->requires_grad = requires_grad;
}

Variable Variable::input(Tensor value, Layout layout) {
  return Variable(Array(std::move(value), layout), false);
}

Variable Variable::constant(Tensor value) {
  return Variable(Array(std::move(value), Layout::kLinear, /*constant=*/true), false);
}

Variable Variable::parameter(Tensor value) {
  return Variable(Array(std::move(value), Layout::kLinear, /*constant=*/true), true);
}

Tensor& Variable::writable() {
  ++array_.tensor.storage()->version;
  return array_.tensor;
}

Tensor& Variable::writable_grad() {
  Tensor& grad = slot_->grad.tensor;
  if (grad.storage().use_count() > 1) grad = grad.clone();
  return grad;
}

Tape::~Tape() = default;

Variable Tape::random_key() {
  return Variable::input(Tensor::from<int64_t>(
      {2}, {static_cast<int64_t>(seed_), static_cast<int64_t>(next_stream_++)}));
}

Variable Tape::apply(const std::shared_ptr<const Op>& op, std::initializer_list<Variable> inputs) {
  return apply(op, std::span(inputs.begin(), inputs.size()), 1)[0];
}

Tape::Saved Tape::save(const Variable& v, bool contents) {
  if (!v.defined()) return {};
  if (!contents) return {v.array().without_data(), 0, v.slot_};
  return {v.array(), v.value().storage()->version, v.slot_};
}

std::vector<Variable> Tape::apply(const std::shared_ptr<const Op>& op,
                                  std::span<const Variable> inputs, size_t outputs) {
  if (!autocast_ || !autocast_->lowers(op->type())) return apply_as_is(op, inputs, outputs);
  if (!autocast_->multiplies_bf16()) return apply_lowered(op, inputs, outputs);
  if (const auto bf16 = eager_.in_bf16(op)) return apply_as_is(bf16, inputs, outputs);
  return autocast_->named(op->type()) ? apply_lowered(op, inputs, outputs)
                                      : apply_as_is(op, inputs, outputs);
}

std::vector<Variable> Tape::apply_as_is(const std::shared_ptr<const Op>& op,
                                        std::span<const Variable> inputs, size_t outputs) {
  const bool record = record_ && std::ranges::any_of(inputs, &Variable::requires_grad);
  std::shared_ptr<const Gradient> gradient;
  if (record) gradient = eager_.gradient(op);
  std::vector<Array> arrays;
  for (const Variable& v : inputs) arrays.push_back(v.array());
  std::vector<Variable> results;
  for (Array& a : eager_.run(op, arrays, outputs))
    results.push_back(Variable(std::move(a), record));
  if (on_step_) on_step_({op, {inputs.begin(), inputs.end()}, results});
  if (!record) return results;

  Node node{op, gradient, {}, {}};
  for (size_t i = 0; i < inputs.size(); ++i)
    node.inputs.push_back(save(inputs[i], gradient->saves.inputs >> i & 1));
  for (size_t i = 0; i < results.size(); ++i)
    node.outputs.push_back(save(results[i], gradient->saves.outputs >> i & 1));
  nodes_.push_back(std::move(node));
  return results;
}

// Rounds the f32 inputs, runs the op in f32 and rounds what it gives.
std::vector<Variable> Tape::apply_lowered(const std::shared_ptr<const Op>& op,
                                          std::span<const Variable> inputs, size_t outputs) {
  struct Off {  // the rounding itself, and the op, run as they are
    const amp::Autocast*& slot;
    const amp::Autocast* const value = std::exchange(slot, nullptr);
    ~Off() { slot = value; }
  } const off{autocast_};
  const auto round = [&](const Variable& v) {
    if (!v.defined() || v.array().dtype != DType::kF32) return v;
    if (!v.array().constant) return apply(off.value->round(), {v});
    Lowered& l = lowered_[v.slot_.get()];
    if (!l.rounded.defined()) {
      l = {v, apply(off.value->round(), {v})};
      l.rounded.array_.constant = true;  // nobody can change it in place
    }
    return l.rounded;
  };
  std::vector<Variable> rounded, results;
  for (const Variable& v : inputs) rounded.push_back(round(v));
  for (const Variable& v : apply(op, rounded, outputs)) results.push_back(round(v));
  return results;
}

void Tape::backward(const Variable& loss) {
  require(loss.defined() && loss.value().numel() == 1 && loss.value().dtype() == DType::kF32,
          "backward starts from a loss of one f32 element");
  const float one = 1;
  backward(loss, Tensor::from<float>(loss.shape(), std::span(&one, 1)));
}

void Tape::backward(const Variable& y, const Tensor& seed, Layout layout) {
  const bool known = std::ranges::any_of(nodes_, [&](const Node& n) {
    return std::ranges::any_of(n.outputs, [&](const Saved& s) { return s.slot == y.slot_; });
  });
  if (!known)
    throw Error(
        "backward starts from a value that is not on the tape: nothing before it requires a "
        "gradient, or backward has run already");
  accumulate(*y.slot_, Array(seed, layout));
  count_uses();
  while (!nodes_.empty()) {
    Node node = std::move(nodes_.back());
    nodes_.pop_back();  // what it saved goes as soon as it is used
    const bool reached =
        std::ranges::any_of(node.outputs, [](const Saved& s) { return s.slot->grad.present; });
    if (reached) {
      GradContext context(*this, node);
      node.gradient->run(context);
      for (Saved& s : node.outputs) s.slot->grad = Array();
    }
    if (after_) tell_watcher(node);
  }
}

void Tape::watch(std::vector<Variable> leaves, std::function<void(int64_t)> after) {
  watched_ = std::move(leaves);
  after_ = std::move(after);
}

void Tape::count_uses() {
  uses_.clear();
  if (!after_) return;
  for (size_t i = 0; i < watched_.size(); ++i)
    uses_[watched_[i].slot_.get()] = {static_cast<int64_t>(i), 0};
  for (const Node& n : nodes_)
    for (const Saved& s : n.inputs)
      if (const auto found = uses_.find(s.slot.get()); found != uses_.end()) ++found->second.left;
}

void Tape::tell_watcher(const Node& node) {
  for (const Saved& s : node.inputs)
    if (const auto found = uses_.find(s.slot.get()); found != uses_.end())
      if (--found->second.left == 0) after_(found->second.leaf);
  after_(-1);
}

void Tape::accumulate(Variable::Slot& slot, Array grad) {
  if (grad.shape != slot.shape)
    throw ShapeError(
        cat("a gradient of shape ", grad.shape.str(), " for a value of shape ", slot.shape.str()));
  grad = eager_.to_layout(grad, slot.layout);
  if (!slot.grad.present) {
    slot.grad = std::move(grad);
    return;
  }
  // The sum goes into the old gradient's memory where nobody else holds it.
  const Tensor old = std::exchange(slot.grad.tensor, Tensor());
  const Tensor sum = old.storage().use_count() == 1 ? old : eager_.memory().tensor(slot.shape);
  cpu::binary(cpu::BinaryOp::kAdd, old.data<float>(), grad.tensor.data<float>(), sum.data<float>(),
              old.numel());
  slot.grad.tensor = sum;
}

}  // namespace train
