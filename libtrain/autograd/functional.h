// The differentiable functions without parameters, as calls on a tape.
#pragma once
#include "libtrain/autograd/tape.h"

namespace train {

/// max(x, 0).
Variable relu(Tape& tape, const Variable& x);
/// a + b with numpy's broadcasting.
Variable add(Tape& tape, const Variable& a, const Variable& b);
/// [N, C, H, W] -> [N, C, 1, 1], the mean over H and W.
Variable global_average_pool(Tape& tape, const Variable& x);
/// x in another shape of as many elements (in logical order, whatever the layout).
Variable reshape(Tape& tape, const Variable& x, const Shape& shape);
/// [N, ...] -> [N, the rest].
Variable flatten(Tape& tape, const Variable& x);

}  // namespace train
