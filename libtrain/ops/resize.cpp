#include "libtrain/cpu/resize.h"

#include <cmath>

#include "libtrain/ops/common.h"
#include "libtrain/ops/nn.h"

namespace train {
namespace {

struct Target {
  int64_t h, w;
  double scale_h = 0, scale_w = 0;
};

// Inputs: x, scales, sizes.
Target target_of(Infos inputs) {
  const Shape& x = inputs[0].shape;
  if (has_input(inputs, 2)) {
    const auto sizes = constant_ints(inputs, 2, "Resize sizes");
    require(sizes.size() == 4, "Resize needs four sizes");
    require(sizes[0] == x[0] && sizes[1] == x[1], "Resize over batch or channels is not supported");
    return {sizes[2], sizes[3]};
  }
  if (!has_input(inputs, 1) || !inputs[1].constant)
    throw ShapeError(
        "Resize scales depend on computed data; only values known from shapes are supported");
  const auto scales = inputs[1].constant->to_doubles();
  require(scales.size() == 4, "Resize needs four scales");
  require(scales[0] == 1 && scales[1] == 1, "Resize over batch or channels is not supported");
  require(scales[2] > 0 && scales[3] > 0 && scales[2] < 1e6 && scales[3] < 1e6,
          "Resize scales must be positive");
  return {static_cast<int64_t>(std::floor(static_cast<double>(x[2]) * scales[2])),
          static_cast<int64_t>(std::floor(static_cast<double>(x[3]) * scales[3])), scales[2],
          scales[3]};
}

}  // namespace

std::string ResizeOp::describe() const {
  constexpr const char* names[] = {"nearest", "linear", "cubic"};
  return cat("Resize ", names[static_cast<int>(desc.mode)]);
}

void ResizeOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  require_rank(inputs[0], 4);
  require_f32(inputs[0]);
  const Target t = target_of(inputs);
  require(t.h > 0 && t.w > 0, "Resize to an empty image");
  outputs[0] = ValueInfo(Shape{inputs[0].shape[0], inputs[0].shape[1], t.h, t.w}, DType::kF32);
}

LayoutChoice ResizeOp::layouts(Infos inputs, Infos outputs) const {
  return image_layouts(inputs, outputs, kResizeResidual);
}

std::unique_ptr<Plan> ResizeOp::plan(Infos inputs, Infos outputs, PackCache&) const {
  const Target t = target_of(inputs);
  cpu::ResizeDesc d = desc;
  d.scale_h = t.scale_h;
  d.scale_w = t.scale_w;
  return make_plan(
      [d](Views in, Views out, void* ws) {
        const Shape &s = in[0].shape(), &o = out[0].shape();
        const bool res = in.size() > kResizeResidual && in[kResizeResidual].data;
        cpu::resize(d, in[0].as<float>(), pixel_stride(*in[0].info), s[0], s[2], s[3], s[1],
                    out[0].as<float>(), pixel_stride(*out[0].info), o[2], o[3],
                    res ? in[kResizeResidual].as<float>() : nullptr,
                    res ? pixel_stride(*in[kResizeResidual].info) : 0, ws);
      },
      cpu::resize_workspace_bytes(d, outputs[0].shape[2], outputs[0].shape[3]));
}

}  // namespace train
