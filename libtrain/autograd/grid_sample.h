// Sampling of images at places that are computed, as spatial transformers do.
#pragma once
#include "libtrain/autograd/tape.h"
#include "libtrain/ops/grid_sample.h"

namespace train {

/// x [N, C, H, W] at the places of grid [N, OH, OW, 2] -> [N, C, OH, OW]: GridSampleOp. Without
/// options as Paddle's grid_sample (PyTorch's has align_corners off).
Variable grid_sample(Tape& tape, const Variable& x, const Variable& grid,
                     const GridSampleOptions& options = {});

}  // namespace train
