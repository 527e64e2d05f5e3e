// The fusing passes, each in the file named after it; `optimize` runs them in order.
#pragma once
#include "libtrain/graph/graph.h"

namespace train {

/// Activations spelled out in simpler operators: HardSwish, HardSigmoid, GELU, Swish;
/// GlobalAveragePool from ReduceMean.
void fuse_activations(Graph& graph);
/// x + x * gate becomes x * (gate + 1) where the gate is smaller than x (an SE block with a
/// shortcut): the one then rides in the convolution that makes the gate.
void fuse_residual_gates(Graph& graph);
/// LayerNormalization spelled out over the last axis.
void fuse_layer_norm(Graph& graph);
/// Batch norm, per-channel affines, bias, activation and scalar affines into the convolution before
/// them (folded in f64). Returns whether anything changed.
bool fuse_into_convs(Graph& graph);
/// Bias and activation into the product with a constant matrix before them. Returns whether
/// anything changed.
bool fuse_into_matmuls(Graph& graph);
/// The addition of a tensor of equal shape into the convolution or resize that makes the other
/// operand.
void fuse_residuals(Graph& graph);
/// The global average of a widening 1x1 convolution becomes the convolution of its input's average.
void commute_pools(Graph& graph);
/// Convolutions over enlarged, gated, summed or joined maps become PyramidConv where that computes
/// less.
void fuse_pyramids(Graph& graph);
/// Two convolutions that need no neighbouring pixels, the second the only reader of the first,
/// become one step that keeps what lies between them in the cache.
void fuse_chains(Graph& graph);

}  // namespace train
