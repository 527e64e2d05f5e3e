#include "libtrain/ops/pyramid.h"

#include <algorithm>
#include <array>

#include "libtrain/cpu/pyramid_conv.h"
#include "libtrain/ops/common.h"

namespace train {

std::string PyramidConvOp::describe() const {
  std::string s = "PyramidConv of";
  for (const int f : factors) s += cat(" x", f);
  if (act.kind != cpu::Act::kNone) s += cat(" act ", static_cast<int>(act.kind));
  return s;
}

void PyramidConvOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  Shape y;
  for (size_t i = 0; i < factors.size(); ++i) {
    const Infos in = inputs.subspan(i * kParts, kParts);
    require_rank(in[kX], 4);
    require_f32(in[kX]);
    require_rank(in[kWeights], 4);
    const Shape &x = in[kX].shape, &w = in[kWeights].shape;
    const Shape out{x[0], w[0], x[2] * factors[i], x[3] * factors[i]};
    if (i == 0) y = out;
    require(out == y, "the maps of a pyramid do not fit each other");
    if (has_input(in, kLateral))
      require(in[kLateral].shape == Shape({w[1], x[1], 1, 1}), "a lateral does not fit its map");
    else
      require(w[1] == x[1], "the weights do not fit their map");
    if (has_input(in, kGate))
      require(in[kGate].shape == Shape({x[0], w[1], 1, 1}), "a gate does not fit its map");
  }
  outputs[0] = ValueInfo(y, DType::kF32);
}

LayoutChoice PyramidConvOp::layouts(Infos inputs, Infos outputs) const {
  LayoutChoice c = image_layouts(inputs, outputs);
  for (size_t i = 0; i < factors.size(); ++i) c.inputs[i * kParts + kX] = Layout::kChannelsLast;
  return c;
}

double PyramidConvOp::flops(Infos inputs, Infos outputs) const {
  double taps = 0;
  for (size_t i = 0; i < factors.size(); ++i)
    taps += cpu::PyramidConv::taps(static_cast<int>(inputs[i * kParts + kWeights].shape[2]),
                                   factors[i]) *
            static_cast<double>(inputs[i * kParts + kX].shape[1]);
  return 2 * taps * static_cast<double>(outputs[0].shape.numel());
}

std::unique_ptr<Plan> PyramidConvOp::plan(Infos inputs, Infos outputs, PackCache& packs) const {
  auto conv = packs.get<cpu::PyramidConv>(0, [&]() -> std::shared_ptr<const cpu::PyramidConv> {
    std::vector<cpu::PyramidSource> sources;
    for (size_t i = 0; i < factors.size(); ++i) {
      const size_t at = i * kParts;
      cpu::PyramidSource s;
      s.factor = factors[i];
      s.channels = inputs[at + kX].shape[1];
      s.mid = inputs[at + kWeights].shape[1];
      s.weights = constant_f32(inputs, at + kWeights, "PyramidConv weights");
      s.lateral = constant_f32(inputs, at + kLateral, "PyramidConv lateral");
      s.gated = has_input(inputs, at + kGate);
      sources.push_back(s);
    }
    cpu::PyramidDesc d;
    d.cout = inputs[kWeights].shape[0];
    d.k = static_cast<int>(inputs[kWeights].shape[2]);
    d.act = act;
    return std::make_shared<cpu::PyramidConv>(
        d, sources, constant_f32(inputs, factors.size() * kParts, "PyramidConv bias"));
  });
  const Shape& y = outputs[0].shape;
  const size_t count = factors.size();
  return make_plan(
      [conv, count](Views in, Views out, void* ws) {
        std::array<cpu::PyramidConv::Input, cpu::kMaxPyramidSources> sources{};
        for (size_t i = 0; i < count; ++i) {
          const View &x = in[i * kParts + kX], &gate = in[i * kParts + kGate];
          sources[i] = {x.as<float>(), pixel_stride(*x.info), gate.as<float>()};
        }
        const Shape& s = out[0].shape();
        conv->run(sources.data(), s[0], s[2], s[3], out[0].as<float>(), pixel_stride(*out[0].info),
                  ws);
      },
      conv->workspace_bytes(y[2], y[3], current_threads()));
}

}  // namespace train
