#include "libtrain/graph/rewriter.h"

#include <algorithm>

#include "libtrain/graph/evaluate.h"
#include "libtrain/graph/instance.h"

namespace train {

Rewriter::Rewriter(Graph& graph)
    : graph_(graph), producer_(graph.producers()), use_count_(graph.values.size(), 0) {
  for (const Node& n : graph.nodes)
    for (ValueId v : n.inputs)
      if (v != kNoValue) ++use_count_[v];
  for (ValueId v : graph.outputs) ++use_count_[v];
}

Node* Rewriter::producer(ValueId v) {
  if (v == kNoValue || producer_[v] < 0) return nullptr;
  Node& n = graph_.nodes[producer_[v]];
  return n.op ? &n : nullptr;
}

std::optional<float> Rewriter::scalar(ValueId v) const {
  const Tensor* t = graph_.constant(v);
  if (!t || t->dtype() != DType::kF32 || t->numel() != 1) return std::nullopt;
  return *t->data<float>();
}

std::optional<std::vector<double>> Rewriter::per_channel(ValueId v, int64_t channels) const {
  const Tensor* t = graph_.constant(v);
  if (!t || t->dtype() != DType::kF32) return std::nullopt;
  const Shape& s = t->shape();
  if (t->numel() == 1 && s.rank() <= 4)
    return std::vector<double>(static_cast<size_t>(channels), *t->data<float>());
  if (t->numel() != channels || s.rank() < 3 || s.rank() > 4 || s.dim(-3) != channels)
    return std::nullopt;
  return t->to_doubles();
}

std::optional<std::vector<double>> Rewriter::per_last_axis(ValueId v, int64_t size) const {
  const Tensor* t = graph_.constant(v);
  if (!t || t->dtype() != DType::kF32 || t->shape().rank() < 1) return std::nullopt;
  if (t->numel() != size || t->shape().dim(-1) != size) return std::nullopt;
  return t->to_doubles();
}

ValueId Rewriter::add_constant(const std::string& name, Tensor t) {
  producer_.push_back(-1);
  use_count_.push_back(0);
  return graph_.add_constant(name, std::move(t));
}

void Rewriter::become(Node& node, std::shared_ptr<const Op> op, std::vector<ValueId> inputs) {
  for (ValueId v : inputs)
    if (v != kNoValue) ++use_count_[v];
  const std::vector<ValueId> old = std::move(node.inputs);
  node.op = std::move(op);
  node.inputs = std::move(inputs);
  for (ValueId v : old) release(v);
}

void Rewriter::release(ValueId v) {
  if (v == kNoValue || --use_count_[v] > 0) return;
  Node* n = producer(v);
  if (!n || std::ranges::any_of(n->outputs,
                                [&](ValueId o) { return o != kNoValue && use_count_[o] > 0; }))
    return;
  n->op = nullptr;
  const std::vector<ValueId> inputs = std::move(n->inputs);
  n->inputs.clear();
  for (ValueId i : inputs) release(i);
}

void Rewriter::redirect(ValueId from, ValueId to) {
  for (Node& n : graph_.nodes)
    for (ValueId& v : n.inputs)
      if (v == from) {
        v = to;
        ++use_count_[to];
        --use_count_[from];
      }
  for (ValueId& v : graph_.outputs)
    if (v == from) {
      v = to;
      ++use_count_[to];
      --use_count_[from];
    }
  ++use_count_[from];
  release(from);
}

bool is_mean_over(const Node& n, const std::vector<std::optional<Shape>>& shapes, int trailing) {
  if (n.op->type() != "ReduceMean" || !shapes[n.inputs[0]] || !shapes[n.outputs[0]]) return false;
  const Shape &in = *shapes[n.inputs[0]], &out = *shapes[n.outputs[0]];
  if (in.rank() != out.rank() || in.rank() < trailing) return false;
  for (int i = 0; i < in.rank(); ++i)
    if (out[i] != (i >= in.rank() - trailing ? 1 : in[i])) return false;
  return true;
}

std::vector<std::optional<Shape>> probe_shapes(const Graph& graph) {
  constexpr int64_t kFreeBatch = 2;  // not 1: a reduction over the batch must show
  constexpr int64_t kFreeDim = 64;   // a multiple of every stride in use
  constexpr int64_t kMaxElements =
      1 << 16;  // of what is evaluated on the way: shape arithmetic is tiny
  std::vector<std::optional<Shape>> shapes(graph.values.size());
  std::vector<DType> types(graph.values.size(), DType::kF32);
  std::vector<std::optional<Tensor>> known(graph.values.size());
  for (const GraphInput& in : graph.inputs) {
    Shape s;
    for (size_t i = 0; i < in.dims.size(); ++i)
      s.push_back(in.dims[i] >= 0 ? in.dims[i] : i == 0 ? kFreeBatch : kFreeDim);
    shapes[in.value] = s;
    types[in.value] = in.dtype;
  }
  for (size_t v = 0; v < graph.values.size(); ++v)
    if (graph.values[v].constant) {
      known[v] = graph.values[v].constant;
      shapes[v] = known[v]->shape();
      types[v] = known[v]->dtype();
    }
  for (const Node& n : graph.nodes) {
    std::vector<ValueInfo> in, out(n.outputs.size());
    bool ready = true, constant = true;
    for (ValueId v : n.inputs) {
      if (v == kNoValue) {
        in.push_back(ValueInfo::absent());
        continue;
      }
      if (!shapes[v]) ready = false;
      in.emplace_back(shapes[v].value_or(Shape{}), types[v]);
      if (known[v]) in.back().constant = &*known[v];
      constant = constant && known[v];
    }
    if (!ready || !n.op) continue;
    try {
      n.op->infer(in, out);
      std::vector<Tensor> results;
      const bool small = std::ranges::all_of(
          out, [&](const ValueInfo& o) { return o.shape.numel() <= kMaxElements; });
      if ((constant || !n.op->reads_data()) && small)
        results = evaluate_op(*n.op, in, out, PackStore(1).of(0));
      for (size_t i = 0; i < out.size(); ++i) {
        if (n.outputs[i] == kNoValue) continue;
        shapes[n.outputs[i]] = out[i].shape;
        types[n.outputs[i]] = out[i].dtype;
        if (!results.empty()) known[n.outputs[i]] = results[i];
      }
    } catch (const ShapeError&) {  // this guess does not suit the graph: what follows stays unknown
    }
  }
  return shapes;
}

}  // namespace train
