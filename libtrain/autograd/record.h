// A forward pass as a Graph for inference, for every size of the input.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "libtrain/autograd/tape.h"
#include "libtrain/graph/graph.h"

namespace train {

/// A parameter or buffer and its name in the graph.
struct NamedVariable {
  std::string name;
  Variable variable;
};

/// Runs `forward` (without gradients) once per example and returns what the runs have in common:
/// one input, one output, every other value that no op made as a constant. A dimension in which the
/// examples differ is free in the graph's input.
///
/// Plain numbers that follow from the size of the input, such as the shape of a reshape, differ
/// between the runs. They are kept as what the module means: a dimension copied from the input (0),
/// the one that takes what is left (-1), a scale. So give at least two examples, which differ in
/// every free dimension by other factors than 2. Throws Error naming the op where the runs took
/// different ways or no such reading fits all of them.
///
/// Nodes are named after the parameters they read ("backbone.conv1" for "backbone.conv1.weight").
/// Ops that exist for training's sake are replaced by lower_training_ops.
Graph record_graph(Eager& eager, const std::function<Variable(Tape&, const Variable&)>& forward,
                   std::span<const Tensor> examples, std::span<const NamedVariable> names);

/// Replaces what only training has by the ops of inference: a layer of an LSTM by the recurrent
/// layer, attention by its products. Throws Error naming the node where that cannot be done.
void lower_training_ops(Graph& graph);

}  // namespace train
