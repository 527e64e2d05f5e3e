#include "libtrain/ops/pyramid.h"

#include <algorithm>
#include <array>

#include "libtrain/cpu/pyramid_conv.h"
#include "libtrain/ops/common.h"

namespace train {
namespace {

// Channels that the weights of a source read, and that they make.
struct Channels {
  int64_t mid, out;
};
Channels channels_of(Infos in) {
  if (has_input(in, PyramidConvOp::kWeights)) {
    const Shape& w = in[PyramidConvOp::kWeights].shape;
    return {w[1], w[0]};
  }
  const int64_t c = has_input(in, PyramidConvOp::kLateral) ? in[PyramidConvOp::kLateral].shape[0]
                                                           : in[PyramidConvOp::kX].shape[1];
  return {c, c};
}

}  // namespace

std::string PyramidConvOp::describe() const {
  std::string s = "PyramidConv of";
  for (const int f : factors) s += cat(" x", f);
  s += cat(" ", k, "x", k);
  if (act.kind != cpu::Act::kNone) s += cat(" act ", static_cast<int>(act.kind));
  return s;
}

void PyramidConvOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  Shape y;
  for (size_t i = 0; i < factors.size(); ++i) {
    const Infos in = inputs.subspan(i * kParts, kParts);
    require_rank(in[kX], 4);
    require_f32(in[kX]);
    if (has_input(in, kWeights)) require_rank(in[kWeights], 4);
    if (has_input(in, kLateral)) require_rank(in[kLateral], 4);
    const Shape& x = in[kX].shape;
    const Channels c = channels_of(in);
    const Shape out{x[0], c.out, x[2] * factors[i], x[3] * factors[i]};
    if (i == 0) y = out;
    require(out == y, "the maps of a pyramid do not fit each other");
    if (has_input(in, kLateral))
      require(in[kLateral].shape == Shape({c.mid, x[1], 1, 1}), "a lateral does not fit its map");
    else
      require(c.mid == x[1], "the weights do not fit their map");
    if (has_input(in, kGate))
      require(in[kGate].shape == Shape({x[0], c.mid, 1, 1}), "a gate does not fit its map");
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
  for (size_t i = 0; i < factors.size(); ++i) {
    const Infos in = inputs.subspan(i * kParts, kParts);
    if (has_input(in, kWeights) || has_input(in, kLateral))
      taps += cpu::PyramidConv::taps(k, factors[i]) * static_cast<double>(in[kX].shape[1]);
  }
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
      s.mid = channels_of(inputs.subspan(at, kParts)).mid;
      s.weights = constant_f32(inputs, at + kWeights, "PyramidConv weights");
      s.lateral = constant_f32(inputs, at + kLateral, "PyramidConv lateral");
      s.gated = has_input(inputs, at + kGate);
      sources.push_back(s);
    }
    cpu::PyramidDesc d;
    d.cout = channels_of(inputs.first(kParts)).out;
    d.k = k;
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
