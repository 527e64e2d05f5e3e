#include "libtrain/autograd/functional.h"

#include "libtrain/ops/move.h"
#include "libtrain/ops/nn.h"

namespace train {

// Ops without attributes: one immutable object serves every call.
Variable relu(Tape& tape, const Variable& x) {
  static const auto op =
      std::make_shared<const UnaryOp>("Relu", cpu::Activation{.kind = cpu::Act::kRelu});
  return tape.apply(op, {x});
}

Variable add(Tape& tape, const Variable& a, const Variable& b) {
  static const auto op = std::make_shared<const BinaryOp>(BinaryKind::kAdd);
  return tape.apply(op, {a, b});
}

Variable global_average_pool(Tape& tape, const Variable& x) {
  static const auto op = std::make_shared<const GlobalPoolOp>(PoolKind::kAverage);
  return tape.apply(op, {x});
}

Variable reshape(Tape& tape, const Variable& x, const Shape& shape) {
  static const auto op = std::make_shared<const ReshapeOp>(/*allow_zero=*/true);
  return tape.apply(op,
                    {x, Variable::constant(Tensor::from<int64_t>({shape.rank()}, shape.dims()))});
}

Variable flatten(Tape& tape, const Variable& x) {
  static const auto op = std::make_shared<const FlattenOp>();
  return tape.apply(op, {x});
}

}  // namespace train
