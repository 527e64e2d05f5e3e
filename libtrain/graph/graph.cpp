#include "libtrain/graph/graph.h"

#include <algorithm>

namespace train {

ValueId Graph::add_value(std::string name) {
  values.push_back({std::move(name), std::nullopt});
  return static_cast<ValueId>(values.size()) - 1;
}

ValueId Graph::add_constant(std::string name, Tensor t) {
  values.push_back({std::move(name), std::move(t)});
  return static_cast<ValueId>(values.size()) - 1;
}

Node& Graph::add_node(std::string name, std::shared_ptr<const Op> op, std::vector<ValueId> ins,
                      std::vector<ValueId> outs) {
  nodes.push_back({std::move(name), std::move(op), std::move(ins), std::move(outs)});
  return nodes.back();
}

std::vector<int> Graph::producers() const {
  std::vector<int> producer(values.size(), -1);
  for (size_t i = 0; i < nodes.size(); ++i)
    for (ValueId v : nodes[i].outputs)
      if (v != kNoValue) producer[v] = static_cast<int>(i);
  return producer;
}

std::vector<std::vector<int>> Graph::users() const {
  std::vector<std::vector<int>> users(values.size());
  for (size_t i = 0; i < nodes.size(); ++i)
    for (ValueId v : nodes[i].inputs)
      if (v != kNoValue) users[v].push_back(static_cast<int>(i));
  for (ValueId v : outputs) users[v].push_back(-1);
  return users;
}

void Graph::remove_dead() {
  std::vector<char> live(values.size(), 0), keep(nodes.size(), 0);
  for (ValueId v : outputs) live[v] = 1;
  for (size_t i = nodes.size(); i-- > 0;) {
    const Node& n = nodes[i];
    if (!n.op) continue;
    keep[i] =
        std::ranges::any_of(n.outputs, [&](ValueId v) { return v != kNoValue && live[v] != 0; });
    if (!keep[i]) continue;
    for (ValueId v : n.inputs)
      if (v != kNoValue) live[v] = 1;
  }
  size_t to = 0;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!keep[i]) continue;
    if (to != i) nodes[to] = std::move(nodes[i]);
    ++to;
  }
  nodes.resize(to);
  for (size_t v = 0; v < values.size(); ++v)
    if (!live[v]) values[v].constant.reset();
}

void Graph::validate() const {
  const auto count = static_cast<ValueId>(values.size());
  std::vector<char> ready(values.size(), 0);
  for (ValueId v = 0; v < count; ++v) ready[v] = values[v].constant.has_value();
  const auto check = [&](ValueId v) {
    if (v < 0 || v >= count) throw FormatError(cat("the graph refers to value ", v, " of ", count));
  };
  for (const GraphInput& in : inputs) {
    check(in.value);
    ready[in.value] = 1;
  }
  for (const Node& n : nodes) {
    for (ValueId v : n.inputs) {
      if (v == kNoValue) continue;
      check(v);
      if (!ready[v])
        throw FormatError("node '" + n.name + "' reads '" + values[v].name +
                          "' before anything makes it");
    }
    for (ValueId v : n.outputs) {
      if (v == kNoValue) continue;
      check(v);
      if (ready[v]) throw FormatError("value '" + values[v].name + "' is made twice");
      ready[v] = 1;
    }
  }
  for (ValueId v : outputs) {
    check(v);
    if (!ready[v]) throw FormatError("nothing makes the graph output '" + values[v].name + "'");
  }
}

}  // namespace train
