#include "libtrain/autograd/eager.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "libtrain/autograd/gradient.h"
#include "libtrain/cpu/layout.h"

namespace train {
namespace {

// What a state and a plan take besides packed weights: a generous guess.
constexpr size_t kStateBytes = 1024, kPlanBytes = 1024;

struct Packs final : PackCache {
  std::map<int, std::shared_ptr<const void>> objects;

  std::shared_ptr<const void> get_any(int slot,
                                      FunctionRef<std::shared_ptr<const void>()> make) override {
    auto& object = objects[slot];
    if (!object) object = make();
    return object;
  }
};

// The contents of a constant at one time.
struct Pin {
  std::weak_ptr<Storage> storage;  // weak: an address may be used again
  const void* data;
  uint64_t version;

  explicit Pin(const Tensor& t)
      : storage(t.storage()), data(t.raw()), version(t.storage()->version) {}
  bool holds(const Tensor& t) const {
    return storage.lock() == t.storage() && data == t.raw() && version == t.storage()->version;
  }
};

// All that a plan may depend on besides the contents of constants.
struct Signature {
  Shape shape;
  DType dtype;
  Layout layout;
  bool constant, present, has_data;

  explicit Signature(const Array& a)
      : shape(a.shape),
        dtype(a.dtype),
        layout(a.layout),
        constant(a.constant),
        present(a.present),
        has_data(a.tensor.defined()) {}
  bool operator==(const Signature&) const = default;
};

// One of the dimensions being 1 can make both orders the same bytes.
bool reads_alike(const Shape& s) { return s.rank() != 4 || s[1] == 1 || s[2] * s[3] == 1; }

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Operands of which only the shape is read have no data.
double bytes_of(std::span<const Array> arrays) {
  double bytes = 0;
  for (const Array& a : arrays)
    if (a.tensor.defined())
      bytes += static_cast<double>(a.shape.numel()) * static_cast<double>(size_of(a.dtype));
  return bytes;
}

}  // namespace

ValueInfo Array::info() const {
  if (!present) return ValueInfo::absent();
  ValueInfo v(shape, dtype);
  v.layout = layout;
  if (layout == Layout::kChannelsLast) v.ld = shape[1];
  return v;
}

// An op made ready for one set of inputs.
struct Eager::Prepared {
  std::vector<Signature> key;
  int threads;
  LayoutChoice layouts;
  std::vector<ValueInfo> inputs, outputs;  // in the layouts that the op wants
  std::unique_ptr<Plan> plan;              // null for a view
};

struct Eager::OpState {
  std::shared_ptr<const Op> op;
  std::shared_ptr<const Gradient> gradient;
  std::shared_ptr<const Op> bf16;
  std::vector<Pin> pins;  // one per constant input, in order
  size_t constant_bytes = 0;
  Packs packs;
  std::list<Prepared> prepared;
  size_t bytes = 0;  // as counted in Eager::bytes_

  bool holds(std::span<const Array> inputs) const {
    size_t i = 0;
    for (const Array& a : inputs)
      if (a.constant && (i >= pins.size() || !pins[i++].holds(a.tensor))) return false;
    return i == pins.size();
  }
  void pin(std::span<const Array> inputs) {
    prepared.clear();
    packs.objects.clear();
    pins.clear();
    constant_bytes = 0;
    for (const Array& a : inputs)
      if (a.constant) {
        pins.emplace_back(a.tensor);
        constant_bytes += a.tensor.bytes();
      }
  }
};

Eager::Eager(size_t max_cache_bytes) : max_bytes_(max_cache_bytes) {}
Eager::~Eager() = default;

Eager::OpState& Eager::state_of(const std::shared_ptr<const Op>& op) {
  if (const auto found = index_.find(op.get()); found != index_.end()) {
    states_.splice(states_.begin(), states_, found->second);
    return states_.front();
  }
  states_.emplace_front();
  states_.front().op = op;
  index_[op.get()] = states_.begin();
  account(states_.front());
  return states_.front();
}

void Eager::account(OpState& state) {
  bytes_ -= state.bytes;
  state.bytes = kStateBytes + kPlanBytes * state.prepared.size() +
                state.constant_bytes * state.packs.objects.size();
  bytes_ += state.bytes;
  while (bytes_ > max_bytes_ && &states_.back() != &state) {
    bytes_ -= states_.back().bytes;
    index_.erase(states_.back().op.get());
    states_.pop_back();
  }
}

const Eager::Prepared& Eager::prepare(OpState& state, std::span<const Array> inputs,
                                      size_t outputs) {
  if (!state.holds(inputs)) state.pin(inputs);
  const int threads = current_threads();
  std::vector<Signature> key(inputs.begin(), inputs.end());
  for (const Prepared& p : state.prepared)
    if (p.threads == threads && p.outputs.size() == outputs && p.key == key) return p;

  const Op& op = *state.op;
  Prepared p;
  p.key = std::move(key);
  p.threads = threads;
  for (const Array& a : inputs) {
    p.inputs.push_back(a.info());
    if (a.constant) p.inputs.back().constant = &a.tensor;
  }
  p.outputs.resize(outputs);
  op.infer(p.inputs, p.outputs);
  p.layouts = op.layouts(p.inputs, p.outputs);
  const auto set_layout = [](ValueInfo& v, Layout layout) {
    v.layout = layout;
    v.ld = layout == Layout::kChannelsLast ? v.shape[1] : 0;
  };
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].present) set_layout(p.inputs[i], p.layouts.inputs[i]);
  for (size_t i = 0; i < outputs; ++i) set_layout(p.outputs[i], p.layouts.outputs[i]);
  const size_t packs = state.packs.objects.size();
  if (!op.is_view()) p.plan = op.plan(p.inputs, p.outputs, state.packs);
  for (ValueInfo& v : p.inputs) v.constant = nullptr;
  ++made_.plans_made;
  made_.packs_made += state.packs.objects.size() - packs;
  // The newest stays, and as many older ones as fit.
  state.prepared.push_front(std::move(p));
  const size_t packed = kStateBytes + state.constant_bytes * state.packs.objects.size();
  const size_t fit = packed < max_bytes_ ? (max_bytes_ - packed) / kPlanBytes : 0;
  while (state.prepared.size() > std::max<size_t>(fit, 1)) state.prepared.pop_back();
  account(state);
  return state.prepared.front();
}

void* Eager::workspace(size_t bytes) {
  if (!bytes) return nullptr;
  if (!workspace_ || workspace_->bytes() < bytes) {
    workspace_.reset();
    workspace_ = std::make_shared<Storage>(bytes);
  }
  return workspace_->data();
}

void Eager::set_profiling(bool on, size_t max_events) {
  profiling_ = on;
  profiling_since_ = now();
  max_events_ = max_events;
  events_.clear();
  profile_.clear();
}

void Eager::count(const Op& op, std::span<const Array> inputs, std::span<const Array> outputs,
                  double begin, double seconds) {
  std::vector<ValueInfo> in, out;
  for (const Array& a : inputs) in.push_back(a.info());
  for (const Array& a : outputs) out.push_back(a.info());
  const auto entry = profile_.try_emplace(op.describe()).first;  // stays where it is
  OpTime& t = entry->second;
  ++t.calls;
  t.seconds += seconds;
  t.flops += op.flops(in, out);
  if (t.type.empty()) t.type = op.type();
  if (!op.is_view()) t.bytes += bytes_of(inputs) + bytes_of(outputs);
  if (events_.size() < max_events_)
    events_.push_back({&entry->first, &t.type, out.empty() ? Shape() : out[0].shape,
                       begin - profiling_since_, seconds});
}

std::vector<Array> Eager::run(const std::shared_ptr<const Op>& op, std::span<const Array> inputs,
                              size_t outputs) {
  if (!profiling_) return run_now(op, inputs, outputs);
  const double begin = now();
  std::vector<Array> out = run_now(op, inputs, outputs);
  count(*op, inputs, out, begin, now() - begin);
  return out;
}

std::vector<Array> Eager::run_now(const std::shared_ptr<const Op>& op,
                                  std::span<const Array> inputs, size_t outputs) try {
  const Prepared& p = prepare(state_of(op), inputs, outputs);
  std::vector<Array> in(inputs.begin(), inputs.end());
  std::vector<View> in_views(in.size()), out_views(outputs);
  for (size_t i = 0; i < in.size(); ++i) {
    if (in[i].tensor.defined()) in[i] = to_layout(in[i], p.layouts.inputs[i]);
    in_views[i] = {in[i].tensor.raw(), &p.inputs[i]};
  }
  if (!p.plan) return {Array(in[0].tensor.reshaped(p.outputs[0].shape))};
  std::vector<Array> out;
  for (size_t i = 0; i < outputs; ++i) {
    const ValueInfo& v = p.outputs[i];
    out.emplace_back(memory_->tensor(v.shape, v.dtype), v.layout);
    out_views[i] = {out[i].tensor.raw(), &v};
  }
  p.plan->run(in_views, out_views, workspace(p.plan->workspace_bytes));
  return out;
} catch (const ShapeError& e) {
  throw ShapeError(cat(op->describe(), ": ", e.what()));
}

Array Eager::run(const std::shared_ptr<const Op>& op, std::initializer_list<Array> inputs) {
  return run(op, std::span(inputs.begin(), inputs.size()), 1)[0];
}

Array Eager::to_layout(const Array& a, Layout layout) {
  if (a.layout == layout) return a;
  require(a.shape.rank() == 4, "only images [N, C, H, W] can be channels-last");
  Array b = a;
  b.layout = layout;
  if (reads_alike(a.shape) || !a.tensor.defined()) return b;
  if (a.dtype != DType::kF32)
    throw ShapeError(cat("a channels-last value must be f32, not ", name_of(a.dtype)));
  b.tensor = memory_->tensor(a.shape);
  const int64_t n = a.shape[0], c = a.shape[1], hw = a.shape[2] * a.shape[3];
  if (layout == Layout::kChannelsLast)
    cpu::nchw_to_nhwc(a.tensor.data<float>(), n, c, hw, b.tensor.data<float>(), c);
  else
    cpu::nhwc_to_nchw(a.tensor.data<float>(), c, n, c, hw, b.tensor.data<float>());
  return b;
}

std::shared_ptr<const Gradient> Eager::gradient(const std::shared_ptr<const Op>& op) {
  OpState& state = state_of(op);
  if (!state.gradient) state.gradient = make_gradient(*op);
  return state.gradient;
}

std::shared_ptr<const Op> Eager::in_bf16(const std::shared_ptr<const Op>& op) {
  OpState& state = state_of(op);
  if (!state.bf16) state.bf16 = op->in_bf16();
  return state.bf16;
}

Eager::Stats Eager::stats() const {
  Stats s = made_;
  s.ops_cached = states_.size();
  s.bytes_cached = bytes_;
  return s;
}

}  // namespace train
