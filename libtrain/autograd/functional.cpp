#include "libtrain/autograd/functional.h"

#include "libtrain/autograd/dropout.h"
#include "libtrain/autograd/embedding.h"
#include "libtrain/ops/move.h"
#include "libtrain/ops/reduce.h"

namespace train {
namespace {

// An op together with the constant inputs that follow the first.
struct Call {
  std::shared_ptr<const Op> op;
  std::vector<Variable> constants;
};

// Calls with the same key share their op, so its plans are found again.
template <class Make>
Variable apply_shared(Tape& tape, const Variable& x, const std::string& key, Make&& make) {
  const auto call =
      tape.eager().shared<Call>(key, [&] { return std::make_shared<const Call>(make()); });
  std::vector<Variable> inputs{x};
  inputs.insert(inputs.end(), call->constants.begin(), call->constants.end());
  return tape.apply(call->op, inputs, 1)[0];
}

Variable ints(std::span<const int64_t> v) {
  return Variable::constant(Tensor::from<int64_t>({static_cast<int64_t>(v.size())}, v));
}

template <class Numbers>
std::string key_of(const char* name, const Numbers& numbers) {
  std::string key = name;
  for (const auto v : numbers) key += cat(' ', v);
  return key;
}

const char* onnx_name(cpu::Act kind) {
  using cpu::Act;
  switch (kind) {
    case Act::kRelu:
      return "Relu";
    case Act::kClip:
      return "Clip";
    case Act::kLeakyRelu:
      return "LeakyRelu";
    case Act::kSigmoid:
      return "Sigmoid";
    case Act::kHardSigmoid:
      return "HardSigmoid";
    case Act::kHardSwish:
      return "HardSwish";
    case Act::kSwish:
      return "Swish";
    case Act::kTanh:
      return "Tanh";
    case Act::kGelu:
    case Act::kGeluTanh:
      return "Gelu";
    case Act::kExp:
      return "Exp";
    case Act::kLog:
      return "Log";
    case Act::kSqrt:
      return "Sqrt";
    case Act::kAbs:
      return "Abs";
    case Act::kNeg:
      return "Neg";
    default:
      return "Unary";
  }
}

Variable binary(Tape& tape, BinaryKind kind, const Variable& a, const Variable& b) {
  const auto op = tape.eager().shared<Op>(cat("binary ", static_cast<int>(kind)),
                                          [&] { return std::make_shared<BinaryOp>(kind); });
  return tape.apply(op, {a, b});
}

Variable with_number(Tape& tape, BinaryKind kind, const Variable& x, float number) {
  return apply_shared(tape, x, cat("binary ", static_cast<int>(kind), " with ", number), [&] {
    return Call{std::make_shared<BinaryOp>(kind), {Variable::constant(Tensor::scalar(number))}};
  });
}

Variable reduce(Tape& tape, ReduceKind kind, const Variable& x, const std::vector<int64_t>& axes,
                bool keepdims) {
  return apply_shared(
      tape, x, key_of("reduce", axes) + cat(" kind ", static_cast<int>(kind), ' ', keepdims), [&] {
        Call call{std::make_shared<ReduceOp>(kind, keepdims), {}};
        if (!axes.empty()) call.constants = {ints(axes)};
        return call;
      });
}

Variable pool(Tape& tape, const Variable& x, PoolKind kind, const Window& w, bool count_pad) {
  return apply_shared(tape, x, cat("pool ", static_cast<int>(kind), ' ', w.str(), count_pad), [&] {
    return Call{std::make_shared<PoolOp>(kind, w, count_pad), {}};
  });
}

Variable resize(Tape& tape, const Variable& x, const cpu::ResizeDesc& desc, int64_t oh,
                int64_t ow) {
  const Shape size{x.shape()[0], x.shape()[1], oh, ow};
  return apply_shared(
      tape, x,
      key_of("resize", size) +
          cat(" as ", static_cast<int>(desc.mode), ' ', static_cast<int>(desc.coord)),
      [&] {
        return Call{std::make_shared<ResizeOp>(desc), {Variable(), ints(size.dims())}};
      });
}

Variable drop(Tape& tape, const Variable& x, float p, bool per_sample) {
  if (p == 0) return x;
  const auto op = tape.eager().shared<Op>(cat("dropout ", p, ' ', per_sample), [&] {
    return std::make_shared<DropoutOp>(p, per_sample);
  });
  return tape.apply(op, {x, tape.random_key()});
}

void require_image(const Variable& x) {
  if (x.shape().rank() != 4)
    throw ShapeError(cat("expected images [N, C, H, W], got ", x.shape().str()));
}

}  // namespace

Variable activate(Tape& tape, const Variable& x, const cpu::Activation& act) {
  if (act.kind == cpu::Act::kNone) return x;
  return apply_shared(tape, x,
                      cat("act ", static_cast<int>(act.kind), ' ', act.alpha, ' ', act.beta), [&] {
                        return Call{std::make_shared<UnaryOp>(onnx_name(act.kind), act), {}};
                      });
}

Variable relu(Tape& tape, const Variable& x) { return activate(tape, x, {cpu::Act::kRelu}); }
Variable relu6(Tape& tape, const Variable& x) { return activate(tape, x, cpu::clip(0, 6)); }
Variable hard_swish(Tape& tape, const Variable& x) { return activate(tape, x, cpu::hard_swish()); }
Variable hard_sigmoid(Tape& tape, const Variable& x, float slope, float offset) {
  return activate(tape, x, cpu::hard_sigmoid(slope, offset));
}
Variable sigmoid(Tape& tape, const Variable& x) { return activate(tape, x, {cpu::Act::kSigmoid}); }
Variable swish(Tape& tape, const Variable& x) { return activate(tape, x, cpu::swish()); }
Variable gelu(Tape& tape, const Variable& x) { return activate(tape, x, {cpu::Act::kGelu}); }
Variable leaky_relu(Tape& tape, const Variable& x, float slope) {
  return activate(tape, x, {cpu::Act::kLeakyRelu, slope});
}
Variable tanh(Tape& tape, const Variable& x) { return activate(tape, x, {cpu::Act::kTanh}); }

Variable add(Tape& tape, const Variable& a, const Variable& b) {
  return binary(tape, BinaryKind::kAdd, a, b);
}
Variable sub(Tape& tape, const Variable& a, const Variable& b) {
  return binary(tape, BinaryKind::kSub, a, b);
}
Variable mul(Tape& tape, const Variable& a, const Variable& b) {
  return binary(tape, BinaryKind::kMul, a, b);
}
Variable div(Tape& tape, const Variable& a, const Variable& b) {
  return binary(tape, BinaryKind::kDiv, a, b);
}
Variable scale(Tape& tape, const Variable& x, float factor) {
  return with_number(tape, BinaryKind::kMul, x, factor);
}
Variable offset(Tape& tape, const Variable& x, float number) {
  return with_number(tape, BinaryKind::kAdd, x, number);
}
Variable matmul(Tape& tape, const Variable& a, const Variable& b, bool trans_b, float alpha) {
  const auto op = tape.eager().shared<Op>(cat("matmul ", trans_b, ' ', alpha), [&] {
    return std::make_shared<MatMulOp>(trans_b, alpha);
  });
  return tape.apply(op, {a, b});
}

Variable reshape(Tape& tape, const Variable& x, const Shape& shape) {
  return apply_shared(tape, x, key_of("reshape", shape), [&] {
    return Call{std::make_shared<ReshapeOp>(/*allow_zero=*/true), {ints(shape.dims())}};
  });
}

Variable flatten(Tape& tape, const Variable& x) {
  return apply_shared(tape, x, "flatten", [] { return Call{std::make_shared<FlattenOp>(), {}}; });
}

Variable squeeze(Tape& tape, const Variable& x, const std::vector<int64_t>& axes) {
  return apply_shared(tape, x, key_of("squeeze", axes), [&] {
    return Call{std::make_shared<SqueezeOp>(), {ints(axes)}};
  });
}

Variable unsqueeze(Tape& tape, const Variable& x, const std::vector<int64_t>& axes) {
  return apply_shared(tape, x, key_of("unsqueeze", axes), [&] {
    return Call{std::make_shared<UnsqueezeOp>(), {ints(axes)}};
  });
}

Variable transpose(Tape& tape, const Variable& x, const std::vector<int64_t>& perm) {
  return apply_shared(tape, x, key_of("transpose", perm), [&] {
    return Call{std::make_shared<TransposeOp>(perm), {}};
  });
}

Variable concat(Tape& tape, std::span<const Variable> parts, int64_t axis) {
  const auto op = tape.eager().shared<Op>(cat("concat ", axis),
                                          [&] { return std::make_shared<ConcatOp>(axis); });
  return tape.apply(op, parts, 1)[0];
}

Variable slice(Tape& tape, const Variable& x, int64_t axis, int64_t begin, int64_t end) {
  return apply_shared(tape, x, cat("slice ", axis, ' ', begin, ' ', end), [&] {
    return Call{std::make_shared<SliceOp>(),
                {ints(std::array{begin}), ints(std::array{end}), ints(std::array{axis})}};
  });
}

Variable pad(Tape& tape, const Variable& x, const std::array<int, 4>& pads, float value) {
  require_image(x);
  return apply_shared(tape, x, key_of("pad", pads) + cat(" with ", value), [&] {
    const std::array<int64_t, 8> all{0, 0, pads[0], pads[1], 0, 0, pads[2], pads[3]};
    return Call{std::make_shared<PadOp>(), {ints(all), Variable::constant(Tensor::scalar(value))}};
  });
}

Variable embed(Tape& tape, const Variable& table, const Variable& indices,
               std::optional<int64_t> padding) {
  const auto op = tape.eager().shared<Op>(cat("embedding ", padding.value_or(-1)), [&] {
    return std::make_shared<EmbeddingOp>(padding.value_or(-1));
  });
  return tape.apply(op, {table, indices});
}

Variable image_to_sequence(Tape& tape, const Variable& x) {
  require_image(x);
  const Variable t = transpose(tape, x, {0, 2, 3, 1});
  return reshape(tape, t, {x.shape()[0], x.shape()[2] * x.shape()[3], x.shape()[1]});
}

Variable sequence_to_image(Tape& tape, const Variable& x, int64_t h, int64_t w) {
  require(x.shape().rank() == 3, "expected tokens [N, T, C]");
  return transpose(tape, reshape(tape, x, {x.shape()[0], h, w, x.shape()[2]}), {0, 3, 1, 2});
}

Variable max_pool(Tape& tape, const Variable& x, const Window& window) {
  return pool(tape, x, PoolKind::kMax, window, false);
}
Variable average_pool(Tape& tape, const Variable& x, const Window& window, bool count_include_pad) {
  return pool(tape, x, PoolKind::kAverage, window, count_include_pad);
}
Variable global_average_pool(Tape& tape, const Variable& x) {
  return apply_shared(tape, x, "global average", [] {
    return Call{std::make_shared<GlobalPoolOp>(PoolKind::kAverage), {}};
  });
}
Variable global_max_pool(Tape& tape, const Variable& x) {
  return apply_shared(tape, x, "global max", [] {
    return Call{std::make_shared<GlobalPoolOp>(PoolKind::kMax), {}};
  });
}

Variable adaptive_average_pool(Tape& tape, const Variable& x, int64_t oh, int64_t ow) {
  require_image(x);
  const int64_t h = x.shape()[2], w = x.shape()[3];
  if (oh < 1 || ow < 1 || h % oh || w % ow)
    throw ShapeError(cat("adaptive average pooling of ", h, " x ", w, " to ", oh, " x ", ow,
                         ": the sizes must be multiples"));
  if (oh == 1 && ow == 1) return global_average_pool(tape, x);
  Window window;
  window.kernel = window.strides = {static_cast<int>(h / oh), static_cast<int>(w / ow)};
  return average_pool(tape, x, window);
}

Variable upsample_nearest(Tape& tape, const Variable& x, int factor) {
  require_image(x);
  return resize_nearest(tape, x, x.shape()[2] * factor, x.shape()[3] * factor);
}
Variable resize_nearest(Tape& tape, const Variable& x, int64_t oh, int64_t ow) {
  require_image(x);
  cpu::ResizeDesc desc;
  desc.coord = cpu::ResizeCoord::kAsymmetric;
  desc.nearest = cpu::NearestMode::kFloor;
  return resize(tape, x, desc, oh, ow);
}
Variable resize_bilinear(Tape& tape, const Variable& x, int64_t oh, int64_t ow,
                         bool align_corners) {
  require_image(x);
  cpu::ResizeDesc desc;
  desc.mode = cpu::ResizeMode::kLinear;
  desc.coord = align_corners ? cpu::ResizeCoord::kAlignCorners : cpu::ResizeCoord::kHalfPixel;
  return resize(tape, x, desc, oh, ow);
}

Variable softmax(Tape& tape, const Variable& x, int64_t axis) {
  return apply_shared(tape, x, cat("softmax ", axis), [&] {
    return Call{std::make_shared<SoftmaxOp>(axis), {}};
  });
}
Variable log_softmax(Tape& tape, const Variable& x, int64_t axis) {
  return apply_shared(tape, x, cat("log softmax ", axis), [&] {
    return Call{std::make_shared<SoftmaxOp>(axis, /*log=*/true), {}};
  });
}
Variable mean(Tape& tape, const Variable& x, const std::vector<int64_t>& axes, bool keepdims) {
  return reduce(tape, ReduceKind::kMean, x, axes, keepdims);
}
Variable sum(Tape& tape, const Variable& x, const std::vector<int64_t>& axes, bool keepdims) {
  return reduce(tape, ReduceKind::kSum, x, axes, keepdims);
}

Variable dropout(Tape& tape, const Variable& x, float p) { return drop(tape, x, p, false); }
Variable drop_path(Tape& tape, const Variable& x, float p) { return drop(tape, x, p, true); }

}  // namespace train
