#include "libtrain/cpu/pool.h"

#include "libtrain/ops/common.h"
#include "libtrain/ops/nn.h"

namespace train {

std::string PoolOp::describe() const { return cat(type(), " ", window.str()); }

void PoolOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  require_rank(inputs[0], 4);
  require_f32(inputs[0]);
  require(outputs.size() == 1, "only the first output is supported");
  const Shape& x = inputs[0].shape;
  const auto out = window.output_size(x[2], x[3]);
  outputs[0] = ValueInfo(Shape{x[0], x[1], out[0], out[1]}, DType::kF32);
}

LayoutChoice PoolOp::layouts(Infos inputs, Infos outputs) const {
  return image_layouts(inputs, outputs);
}

std::unique_ptr<Plan> PoolOp::plan(Infos inputs, Infos, PackCache&) const {
  const Shape& x = inputs[0].shape;
  const auto pads = window.resolved_pads(x[2], x[3]);
  cpu::PoolDesc d;
  d.kh = window.kernel[0], d.kw = window.kernel[1];
  d.sh = window.strides[0], d.sw = window.strides[1];
  d.dh = window.dilations[0], d.dw = window.dilations[1];
  d.pt = pads[0], d.pl = pads[1], d.pb = pads[2], d.pr = pads[3];
  d.ceil_mode = window.ceil_mode;
  d.count_include_pad = count_include_pad;
  const auto run = kind == PoolKind::kMax ? cpu::max_pool : cpu::avg_pool;
  return make_plan([d, run](Views in, Views out, void*) {
    const Shape& s = in[0].shape();
    run(d, in[0].as<float>(), pixel_stride(*in[0].info), s[0], s[2], s[3], s[1], out[0].as<float>(),
        pixel_stride(*out[0].info));
  });
}

void GlobalPoolOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  require_rank(inputs[0], 4);
  require_f32(inputs[0]);
  const Shape& x = inputs[0].shape;
  require(x[2] > 0 && x[3] > 0, "an empty image has no mean");
  outputs[0] = ValueInfo(Shape{x[0], x[1], 1, 1}, DType::kF32);
}

LayoutChoice GlobalPoolOp::layouts(Infos inputs, Infos outputs) const {
  return image_layouts(inputs, outputs);
}

std::unique_ptr<Plan> GlobalPoolOp::plan(Infos inputs, Infos, PackCache&) const {
  if (kind == PoolKind::kMax)
    return make_plan([](Views in, Views out, void*) {
      const Shape& s = in[0].shape();
      cpu::global_max_pool(in[0].as<float>(), pixel_stride(*in[0].info), s[0], s[2], s[3], s[1],
                           out[0].as<float>(), pixel_stride(*out[0].info));
    });
  const Shape& x = inputs[0].shape;
  return make_plan(
      [](Views in, Views out, void* ws) {
        const Shape& s = in[0].shape();
        cpu::global_avg_pool(in[0].as<float>(), pixel_stride(*in[0].info), s[0], s[2], s[3], s[1],
                             out[0].as<float>(), pixel_stride(*out[0].info), ws);
      },
      cpu::global_avg_pool_workspace_bytes(x[0], x[2], x[3], x[1]));
}

}  // namespace train
