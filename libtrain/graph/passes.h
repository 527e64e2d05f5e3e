// The rewriting passes over a Graph; each keeps the results within rounding.
#pragma once
#include "libtrain/cpu/activation.h"
#include "libtrain/graph/graph.h"

namespace train {

/// Evaluates nodes whose inputs are all constant; drops identities and dropout.
void fold_constants(Graph& graph);
/// Everything Net::compile runs when `fuse` is set; passes.cpp lists it in order.
void optimize(Graph& graph, cpu::Precision precision = cpu::Precision::kF32);

/// Lets convolutions and products with constant matrices multiply bf16, but for the islands of f32:
/// the first convolution and whatever works on pooled values. Depthwise and transposed
/// convolutions, pyramids, recurrent layers and products of two activations stay f32.
void lower_to_bf16(Graph& graph);

/// Replaces the Softmax over the last axis that makes output `output` by SoftmaxBest (see
/// ops/best.h): the output becomes
/// [..., 3] of class, probability and the probability of `extra_class`. Returns false, changing
/// nothing, when the output comes from elsewhere.
bool keep_best_class(Graph& graph, size_t output, int64_t extra_class);

}  // namespace train
