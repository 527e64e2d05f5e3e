#include "libtrain/graph/passes.h"

namespace train {
void fold_constants(Graph&) {}
void optimize(Graph& graph) { fold_constants(graph); }
}  // namespace train
