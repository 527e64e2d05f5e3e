#include "libtrain/cpu/conv.h"

#include "libtrain/cpu/conv_transpose.h"
#include "libtrain/ops/common.h"
#include "libtrain/ops/nn.h"

namespace train {
namespace {

constexpr int kResidual = 3;  // input index

// Convolutions whose padding depends on the size (auto_pad) have one packed object per padding.
int pack_slot(const std::array<int, 4>& pads) {
  return ((pads[0] * 61 + pads[1]) * 61 + pads[2]) * 61 + pads[3];
}

void check_bias(Infos inputs, int64_t channels) {
  if (has_input(inputs, 2) && inputs[2].shape.numel() != channels)
    throw ShapeError(
        cat("bias of shape ", inputs[2].shape.str(), " for ", channels, " output channels"));
}

}  // namespace

std::string ConvOp::describe() const {
  std::string s = "Conv " + window.str();
  if (groups != 1) s += cat(" groups ", groups);
  if (epilogue.act.kind != cpu::Act::kNone) s += cat(" act ", static_cast<int>(epilogue.act.kind));
  if (epilogue.residual != cpu::Residual::kNone) s += " +residual";
  if (precision == cpu::Precision::kBf16) s += " bf16";
  return s;
}

void ConvOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  require_rank(inputs[0], 4);
  require_rank(inputs[1], 4);
  require_f32(inputs[0]);
  require_f32(inputs[1]);
  const Shape &x = inputs[0].shape, &w = inputs[1].shape;
  require(groups > 0 && w[0] % groups == 0, "output channels must be a multiple of groups");
  if (x[1] != w[1] * groups)
    throw ShapeError(
        cat("input of ", x[1], " channels for weights ", w.str(), " and ", groups, " groups"));
  check_bias(inputs, w[0]);
  Window win = window;
  win.kernel = {static_cast<int>(w[2]), static_cast<int>(w[3])};
  const auto out = win.output_size(x[2], x[3]);
  outputs[0] = ValueInfo(Shape{x[0], w[0], out[0], out[1]}, DType::kF32);
  if (has_input(inputs, kResidual) && inputs[kResidual].shape != outputs[0].shape)
    throw ShapeError(cat("residual of shape ", inputs[kResidual].shape.str(), " for output ",
                         outputs[0].shape.str()));
}

LayoutChoice ConvOp::layouts(Infos inputs, Infos outputs) const {
  return image_layouts(inputs, outputs, kResidual);
}

double ConvOp::flops(Infos inputs, Infos outputs) const {
  return 2.0 * static_cast<double>(outputs[0].shape.numel()) *
         static_cast<double>(inputs[1].shape.count(1, 4));
}

std::unique_ptr<Plan> ConvOp::plan(Infos inputs, Infos, PackCache& packs) const {
  const Shape &x = inputs[0].shape, &w = inputs[1].shape;
  Window win = window;
  win.kernel = {static_cast<int>(w[2]), static_cast<int>(w[3])};
  const auto pads = win.resolved_pads(x[2], x[3]);
  auto conv = packs.get<cpu::Conv>(pack_slot(pads), [&]() -> std::shared_ptr<const cpu::Conv> {
    cpu::ConvDesc d;
    d.cin = x[1], d.cout = w[0], d.groups = groups;
    d.kh = win.kernel[0], d.kw = win.kernel[1];
    d.sh = win.strides[0], d.sw = win.strides[1];
    d.dh = win.dilations[0], d.dw = win.dilations[1];
    d.pt = pads[0], d.pl = pads[1], d.pb = pads[2], d.pr = pads[3];
    d.epilogue = epilogue;
    d.precision = precision;
    return cpu::Conv::create(d, constant_f32(inputs, 1, "Conv weights"),
                             constant_f32(inputs, 2, "Conv bias"));
  });
  const size_t workspace = conv->workspace_bytes(x[0], x[2], x[3], current_threads());
  return make_plan(
      [conv](Views in, Views out, void* ws) {
        const Shape& s = in[0].shape();
        const bool res = in.size() > kResidual && in[kResidual].data;
        conv->run(in[0].as<float>(), pixel_stride(*in[0].info), s[0], s[2], s[3],
                  out[0].as<float>(), pixel_stride(*out[0].info),
                  res ? in[kResidual].as<float>() : nullptr,
                  res ? pixel_stride(*in[kResidual].info) : 0, ws);
      },
      workspace);
}

std::shared_ptr<const Op> ConvOp::in_bf16() const {
  auto op = std::make_shared<ConvOp>(*this);
  op->precision = cpu::Precision::kBf16;
  return op;
}

std::string ConvTransposeOp::describe() const {
  return cat("ConvTranspose ", window.str(), groups != 1 ? " grouped" : "",
             precision == cpu::Precision::kBf16 ? " bf16" : "");
}

std::array<int, 4> ConvTransposeOp::pads_for(const Shape& x, const Shape& w) const {
  if (!output_shape && window.auto_pad == AutoPad::kNotSet) return window.pads;
  if (!output_shape && window.auto_pad == AutoPad::kValid) return {0, 0, 0, 0};
  std::array<int, 4> p{};
  for (int a = 0; a < 2; ++a) {
    const int64_t full = (x[2 + a] - 1) * window.strides[a] + output_padding[a] +
                         (w[2 + a] - 1) * window.dilations[a] + 1;
    const int64_t wanted = output_shape ? (*output_shape)[a] : x[2 + a] * window.strides[a];
    const int64_t total = std::max<int64_t>(0, full - wanted);
    const int less = static_cast<int>(total / 2), more = static_cast<int>(total - total / 2);
    // ONNX: SAME_UPPER puts the larger half at the end, everything else at the start.
    p[a] = window.auto_pad == AutoPad::kSameUpper ? less : more;
    p[a + 2] = window.auto_pad == AutoPad::kSameUpper ? more : less;
  }
  return p;
}

void ConvTransposeOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  require_rank(inputs[0], 4);
  require_rank(inputs[1], 4);
  require_f32(inputs[0]);
  require_f32(inputs[1]);
  const Shape &x = inputs[0].shape, &w = inputs[1].shape;
  require(groups > 0 && w[0] % groups == 0, "input channels must be a multiple of groups");
  if (x[1] != w[0]) throw ShapeError(cat("input of ", x[1], " channels for weights ", w.str()));
  check_bias(inputs, w[1] * groups);
  const auto p = pads_for(x, w);
  Shape y{x[0], w[1] * groups, 0, 0};
  for (int a = 0; a < 2; ++a) {
    y[2 + a] = (x[2 + a] - 1) * window.strides[a] - p[a] - p[a + 2] +
               window.dilations[a] * (w[2 + a] - 1) + 1 + output_padding[a];
    if (output_shape) y[2 + a] = (*output_shape)[a];
  }
  require(y[2] > 0 && y[3] > 0, "the padding leaves no output");
  outputs[0] = ValueInfo(y, DType::kF32);
}

LayoutChoice ConvTransposeOp::layouts(Infos inputs, Infos outputs) const {
  return image_layouts(inputs, outputs);
}

double ConvTransposeOp::flops(Infos inputs, Infos) const {
  return 2.0 * static_cast<double>(inputs[0].shape.numel()) *
         static_cast<double>(inputs[1].shape.count(1, 4));
}

std::unique_ptr<Plan> ConvTransposeOp::plan(Infos inputs, Infos outputs, PackCache& packs) const {
  const Shape &x = inputs[0].shape, &w = inputs[1].shape;
  const auto pads = pads_for(x, w);
  std::array<int, 2> extra = output_padding;
  if (output_shape)  // an output_shape beyond what the pads give is more output padding
    for (int a = 0; a < 2; ++a)
      extra[a] = static_cast<int>(outputs[0].shape[2 + a] -
                                  ((x[2 + a] - 1) * window.strides[a] - pads[a] - pads[a + 2] +
                                   window.dilations[a] * (w[2 + a] - 1) + 1));
  auto conv = packs.get<cpu::ConvTranspose>(
      pack_slot(pads) * 7 + extra[0] * 3 + extra[1],
      [&]() -> std::shared_ptr<const cpu::ConvTranspose> {
        cpu::ConvTransposeDesc d;
        d.cin = w[0], d.cout = w[1] * groups, d.groups = groups;
        d.kh = static_cast<int>(w[2]), d.kw = static_cast<int>(w[3]);
        d.sh = window.strides[0], d.sw = window.strides[1];
        d.dh = window.dilations[0], d.dw = window.dilations[1];
        d.pt = pads[0], d.pl = pads[1], d.pb = pads[2], d.pr = pads[3];
        d.oph = extra[0], d.opw = extra[1];
        d.epilogue = epilogue;
        d.precision = precision;
        return cpu::ConvTranspose::create(d, constant_f32(inputs, 1, "ConvTranspose weights"),
                                          constant_f32(inputs, 2, "ConvTranspose bias"));
      });
  return make_plan(
      [conv](Views in, Views out, void* ws) {
        const Shape& s = in[0].shape();
        conv->run(in[0].as<float>(), pixel_stride(*in[0].info), s[0], s[2], s[3],
                  out[0].as<float>(), pixel_stride(*out[0].info), nullptr, 0, ws);
      },
      conv->workspace_bytes(x[0], x[2], x[3], current_threads()));
}

std::shared_ptr<const Op> ConvTransposeOp::in_bf16() const {
  auto op = std::make_shared<ConvTransposeOp>(*this);
  op->precision = cpu::Precision::kBf16;
  return op;
}

}  // namespace train
