// make_op: an Op out of three functions, for the many small ops that exist in training only.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "libtrain/ops/op.h"

namespace train {

/// How an op made by make_op lays its values out.
enum class OpLayout : uint8_t {
  kLinear,  // everything linear
  kImages,  // rank-4 f32 values that carry data channels-last, the rest linear
  kFollow   // rank-4 values as input 0, the rest linear
};

using InferFn = std::function<void(Infos, std::span<ValueInfo>)>;
using PlanFn = std::function<std::unique_ptr<Plan>(Infos, Infos)>;

std::shared_ptr<const Op> make_op(std::string type, OpLayout layout, InferFn infer, PlanFn plan);

/// The common case of infer: output 0 is f32 of input `i`'s shape.
InferFn shape_of_input(size_t i);

}  // namespace train
