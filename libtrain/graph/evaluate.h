// Computing one op on known tensors, outside any plan of a whole graph.
#pragma once
#include <vector>

#include "libtrain/ops/op.h"

namespace train {

/// Runs `op` on inputs whose `constant` holds their contents (linear order; absent ones and inputs
/// of ops that read shapes only may have none). `outputs` are the infos that infer() gave. Returns
/// the outputs in linear order.
std::vector<Tensor> evaluate_op(const Op& op, std::vector<ValueInfo> inputs,
                                std::vector<ValueInfo> outputs, PackCache& packs);

}  // namespace train
