// What a training keeps apart and a deployed net need not: parallel convolutions, batch norms,
// learnt affines.
#pragma once
#include "libtrain/graph/graph.h"

namespace train {

/// Merges sums of convolutions of one value (of any kernels, dilations and identities), batch
/// norms and numbers per channel into single convolutions, where those compute no more; computed
/// in f64, rounded once. Batch norms go into transposed convolutions, too. The graph keeps to plain
/// operators, without activations inside convolutions, as files need it (optimize() does not).
void merge_branches(Graph& graph);

}  // namespace train
