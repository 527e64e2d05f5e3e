#include "libtrain/ops/op.h"

namespace train {

LayoutChoice Op::layouts(Infos inputs, Infos outputs) const {
  return {std::vector<Layout>(inputs.size(), Layout::kLinear),
          std::vector<Layout>(outputs.size(), Layout::kLinear)};
}

double Op::flops(Infos, Infos outputs) const {
  return outputs.empty() ? 0 : static_cast<double>(outputs[0].shape.numel());
}

bool shares_constants(Infos inputs, size_t first) {
  const int rank = inputs[0].shape.rank();
  for (size_t i = first; i < inputs.size(); ++i)
    if (has_input(inputs, i) && inputs[i].constant && inputs[i].shape.rank() == rank && rank > 0 &&
        inputs[i].shape[0] > 1)
      return false;
  return true;
}

std::vector<int64_t> constant_ints(Infos inputs, size_t i, const char* what) {
  if (!has_input(inputs, i) || !inputs[i].constant)
    throw ShapeError(
        cat(what, " depends on computed data; only values known from shapes are supported"));
  return inputs[i].constant->to_ints();
}

}  // namespace train
