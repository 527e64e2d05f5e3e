// The rewriting passes over a Graph; each keeps the results within rounding.
#pragma once
#include "libtrain/graph/graph.h"

namespace train {

/// Evaluates nodes whose inputs are all constant; drops identities and dropout.
void fold_constants(Graph& graph);
/// Everything Net::compile runs when `fuse` is set; passes.cpp lists it in order.
void optimize(Graph& graph);

}  // namespace train
