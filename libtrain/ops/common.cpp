#include "libtrain/ops/common.h"

namespace train {

const float* constant_f32(Infos inputs, size_t i, const char* what) {
  if (!has_input(inputs, i)) return nullptr;
  if (!inputs[i].constant)
    throw ShapeError(cat(what, " must be constant; computed ones are not supported"));
  return inputs[i].constant->data<float>();
}

LayoutChoice image_layouts(Infos inputs, Infos outputs, int extra) {
  LayoutChoice c{std::vector<Layout>(inputs.size(), Layout::kLinear),
                 std::vector<Layout>(outputs.size(), Layout::kLinear)};
  c.inputs[0] = c.outputs[0] = Layout::kChannelsLast;
  if (extra >= 0 && has_input(inputs, static_cast<size_t>(extra)))
    c.inputs[extra] = Layout::kChannelsLast;
  return c;
}

}  // namespace train
