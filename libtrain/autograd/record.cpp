#include "libtrain/autograd/record.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "libtrain/ops/move.h"
#include "libtrain/ops/nn.h"

namespace train {
namespace {

struct Run {
  Variable input, output;
  std::vector<AppliedOp> steps;
};

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         (a.raw() == b.raw() || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0);
}

// Builds the graph along the first run, looking at the same place of the others.
class Builder {
 public:
  Builder(Eager& eager, std::span<const Run> runs, std::span<const NamedVariable> names)
      : eager_(eager), runs_(runs) {
    for (const NamedVariable& n : names) names_.emplace(n.variable.identity(), n.name);
  }

  Graph build() {
    const Run& first = runs_[0];
    for (const Run& r : runs_)
      if (r.steps.size() != first.steps.size())
        throw Error(cat("the net runs ", first.steps.size(), " ops on images of ",
                        first.input.shape().str(), " and ", r.steps.size(), " on ",
                        r.input.shape().str(), ": it is not one graph"));
    add_input();
    for (step_ = 0; step_ < first.steps.size(); ++step_) add_step();
    const auto found = values_.find(first.output.identity());
    if (found == values_.end()) throw Error("the net's output was not made by a recorded op");
    graph_.outputs = {found->second};
    graph_.remove_dead();
    return std::move(graph_);
  }

 private:
  const AppliedOp& step(size_t run) const { return runs_[run].steps[step_]; }
  const Variable& operand(size_t run, size_t i) const { return step(run).inputs[i]; }

  [[noreturn]] void fail(const std::string& why) const {
    std::string shapes;
    for (const Run& r : runs_) shapes += (shapes.empty() ? "" : ", ") + r.input.shape().str();
    throw Error(cat("op ", step_, " of the net (", step(0).op->describe(), ") ", why,
                    "; recorded for images of ", shapes));
  }

  void add_input() {
    GraphInput in{graph_.add_value("x"), runs_[0].input.value().dtype(), {}};
    const Shape& shape = runs_[0].input.shape();
    for (int i = 0; i < shape.rank(); ++i) {
      const bool fixed =
          std::ranges::all_of(runs_, [&](const Run& r) { return r.input.shape()[i] == shape[i]; });
      in.dims.push_back(fixed ? shape[i] : -1);
    }
    graph_.inputs.push_back(in);
    for (const Run& r : runs_) values_.emplace(r.input.identity(), in.value);
  }

  // The graph's value for one operand of this step.
  ValueId value_of(size_t i) {
    const Variable& v = operand(0, i);
    if (!v.defined()) return kNoValue;
    const auto found = values_.find(v.identity());
    const bool made = found != values_.end() && !graph_.constant(found->second);
    for (size_t r = 1; r < runs_.size(); ++r) {
      const Variable& other = operand(r, i);
      if (!other.defined()) fail(cat("has input ", i, " in one run and not in another"));
      const auto at = values_.find(other.identity());
      const bool made_there = at != values_.end() && !graph_.constant(at->second);
      if (made != made_there || (made && at->second != found->second))
        fail(cat("reads another value as input ", i, " in another run"));
      if (!made && !same_bytes(v.value(), other.value()))
        fail(cat("reads a constant as input ", i, " that depends on the size of the image"));
    }
    return found != values_.end() ? found->second : add_constant(v);
  }

  ValueId add_constant(const Variable& v) {
    const auto name = names_.find(v.identity());
    const ValueId id =
        graph_.add_constant(name != names_.end() ? name->second : cat("constant", constants_++),
                            eager_.to_layout(v.array(), Layout::kLinear).tensor);
    values_.emplace(v.identity(), id);
    return id;
  }

  ValueId add_ints(const std::vector<int64_t>& v) {
    return graph_.add_constant(cat("constant", constants_++),
                               Tensor::from<int64_t>({static_cast<int64_t>(v.size())}, v));
  }

  // Whether the integers given as input `i` are the same in all runs.
  bool settled(size_t i) const {
    for (size_t r = 1; r < runs_.size(); ++r)
      if (!same_bytes(operand(0, i).value(), operand(r, i).value())) return false;
    return true;
  }

  // A reshape's target: each dimension a number, a copy of the input's, or what is left.
  std::vector<int64_t> general_shape() const {
    const std::vector<int64_t> target = operand(0, 1).value().to_ints();
    std::vector<int64_t> out;
    for (size_t d = 0; d < target.size(); ++d) {
      bool equal = true, copied = true;
      for (size_t r = 0; r < runs_.size(); ++r) {
        const Shape& x = operand(r, 0).shape();
        const std::vector<int64_t> t = operand(r, 1).value().to_ints();
        if (t.size() != target.size()) fail("gives another rank in another run");
        equal = equal && t[d] == target[d];
        copied = copied && static_cast<int>(d) < x.rank() && t[d] == x[static_cast<int>(d)];
      }
      out.push_back(equal ? target[d] : copied ? 0 : -1);
    }
    if (std::ranges::count(out, -1) > 1)
      fail("makes several dimensions that depend on the size of the image");
    return out;
  }

  // A resize's target, as a scale that fits every run.
  std::vector<float> general_scales() const {
    std::vector<float> scales(4, 1.f);
    for (int d = 2; d < 4; ++d) {
      const auto to = [&](size_t r) {
        return operand(r, 2).value().to_ints()[static_cast<size_t>(d)];
      };
      const auto from = [&](size_t r) { return operand(r, 0).shape()[d]; };
      for (size_t r = 1; r < runs_.size(); ++r)
        if (to(0) * from(r) != to(r) * from(0)) fail("enlarges by another factor in another run");
      scales[static_cast<size_t>(d)] =
          static_cast<float>(static_cast<double>(to(0)) / static_cast<double>(from(0)));
    }
    return scales;
  }

  std::string node_name() {
    std::string name;
    for (const Variable& v : step(0).inputs)
      if (const auto found = v.defined() ? names_.find(v.identity()) : names_.end();
          found != names_.end() && name.empty())
        name = found->second.substr(0, found->second.rfind('.'));
    if (name.empty())
      name = cat(step(0).op->type(), '_', step_);
    else if (used_.contains(name))  // a module of several ops
      name += cat('.', step(0).op->type(), '_', step_);
    used_.insert(name);
    return name;
  }

  void add_step() {
    const AppliedOp& s = step(0);
    // Ops that do not depend on the size are the layer's own object, or shared by their attributes.
    bool same_op = true;
    for (size_t r = 1; r < runs_.size(); ++r) {
      if (step(r).inputs.size() != s.inputs.size() || step(r).op->type() != s.op->type())
        fail(cat("is ", step(r).op->describe(), " in another run"));
      same_op = same_op && step(r).op == s.op;
    }
    std::shared_ptr<const Op> op = s.op;
    std::vector<ValueId> inputs{value_of(0)};
    if (s.op->type() == "Reshape" && !settled(1)) {
      op = std::make_shared<ReshapeOp>();
      inputs.push_back(add_ints(general_shape()));
    } else if (s.op->type() == "Resize" && s.inputs.size() == 3 && !settled(2)) {
      const std::vector<float> scales = general_scales();
      inputs.push_back(graph_.add_constant(cat("constant", constants_++),
                                           Tensor::from<float>({4}, std::span(scales))));
    } else {
      if (!same_op && s.op->type() != "Reshape" && s.op->type() != "Resize")
        fail(cat("is ", other_op()->describe(), " in another run: it depends on the size"));
      for (size_t i = 1; i < s.inputs.size(); ++i) inputs.push_back(value_of(i));
    }
    const std::string name = node_name();
    std::vector<ValueId> outputs;
    for (size_t o = 0; o < s.outputs.size(); ++o) {
      outputs.push_back(graph_.add_value(o == 0 ? name + ".out" : cat(name, ".out", o)));
      for (size_t r = 0; r < runs_.size(); ++r)
        values_.emplace(step(r).outputs[o].identity(), outputs.back());
    }
    graph_.add_node(name, op, std::move(inputs), std::move(outputs));
  }

  std::shared_ptr<const Op> other_op() const {
    for (size_t r = 1; r < runs_.size(); ++r)
      if (step(r).op != step(0).op) return step(r).op;
    return step(0).op;
  }

  Eager& eager_;
  std::span<const Run> runs_;
  std::unordered_map<const void*, std::string> names_;
  std::unordered_map<const void*, ValueId> values_;
  std::unordered_set<std::string> used_;
  Graph graph_;
  size_t step_ = 0;
  int constants_ = 0;
};

}  // namespace

Graph record_graph(Eager& eager, const std::function<Variable(Tape&, const Variable&)>& forward,
                   std::span<const Tensor> examples, std::span<const NamedVariable> names) {
  require(!examples.empty(), "recording needs an example");
  std::vector<Run> runs(examples.size());
  for (size_t i = 0; i < examples.size(); ++i) {
    require(examples[i].shape().rank() == examples[0].shape().rank(),
            "examples must have the same rank");
    Tape tape(eager, /*record=*/false);
    tape.on_step([&](AppliedOp step) { runs[i].steps.push_back(std::move(step)); });
    runs[i].input = Variable::input(examples[i]);
    runs[i].output = forward(tape, runs[i].input);
  }
  Graph graph = Builder(eager, runs, names).build();
  lower_training_ops(graph);
  graph.validate();
  return graph;
}

}  // namespace train
