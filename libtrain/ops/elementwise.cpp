#include "libtrain/cpu/elementwise.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "libtrain/ops/broadcast.h"
#include "libtrain/ops/common.h"
#include "libtrain/ops/nn.h"
#include "libtrain/ops/scalar.h"

namespace train {
namespace {

bool is_comparison(BinaryKind k) {
  return k == BinaryKind::kEqual || (k >= BinaryKind::kLess && k <= BinaryKind::kGreaterOrEqual);
}
bool is_logical(BinaryKind k) { return k >= BinaryKind::kAnd; }

std::optional<cpu::BinaryOp> kernel_of(BinaryKind k) {
  switch (k) {
    case BinaryKind::kAdd:
      return cpu::BinaryOp::kAdd;
    case BinaryKind::kSub:
      return cpu::BinaryOp::kSub;
    case BinaryKind::kMul:
      return cpu::BinaryOp::kMul;
    case BinaryKind::kDiv:
      return cpu::BinaryOp::kDiv;
    case BinaryKind::kMin:
      return cpu::BinaryOp::kMin;
    case BinaryKind::kMax:
      return cpu::BinaryOp::kMax;
    case BinaryKind::kPow:
      return cpu::BinaryOp::kPow;
    case BinaryKind::kPRelu:
      return cpu::BinaryOp::kPRelu;
    default:
      return std::nullopt;
  }
}

// The kernel computes [images, rows, cols] with an inner stride of 0 or 1: a nest of up to three
// dimensions fits. Returns false when this one does not.
bool run_kernel(cpu::BinaryOp op, const BroadcastNest& n, const float* a, const float* b,
                float* y) {
  if (n.rank > 3) return false;
  std::array<int64_t, 3> dims{1, 1, 1}, sa{}, sb{};
  for (int i = 0; i < n.rank; ++i) {
    dims[3 - n.rank + i] = n.dims[i];
    sa[3 - n.rank + i] = n.stride_a[i];
    sb[3 - n.rank + i] = n.stride_b[i];
  }
  if (sa[2] > 1 || sb[2] > 1) return false;
  cpu::binary(op, {a, sa[0], sa[1], sa[2]}, {b, sb[0], sb[1], sb[2]}, y, dims[2], dims[0], dims[1],
              dims[2]);
  return true;
}

template <class T, class R, class F>
void run_generic(const BroadcastNest& nest, const T* a, const T* b, R* y, F f) {
  for_each_run(nest, [&](int64_t ia, int64_t ib, int64_t io, int64_t n, int64_t sa, int64_t sb) {
    for (int64_t i = 0; i < n; ++i) y[io + i] = static_cast<R>(f(a[ia + i * sa], b[ib + i * sb]));
  });
}

template <class T>
void run_arithmetic(BinaryKind kind, const BroadcastNest& n, const T* a, const T* b, T* y) {
  switch (kind) {
    case BinaryKind::kAdd:
      return run_generic(n, a, b, y, scalar::add<T>);
    case BinaryKind::kSub:
      return run_generic(n, a, b, y, scalar::sub<T>);
    case BinaryKind::kMul:
      return run_generic(n, a, b, y, scalar::mul<T>);
    case BinaryKind::kDiv:
      return run_generic(n, a, b, y, scalar::div<T>);
    case BinaryKind::kPow:
      return run_generic(n, a, b, y, scalar::pow<T>);
    case BinaryKind::kMod:
      return run_generic(n, a, b, y, scalar::mod<T>);
    case BinaryKind::kFmod:
      return run_generic(n, a, b, y, scalar::fmod<T>);
    case BinaryKind::kMin:
      return run_generic(n, a, b, y, scalar::min<T>);
    case BinaryKind::kMax:
      return run_generic(n, a, b, y, scalar::max<T>);
    case BinaryKind::kPRelu:
      return run_generic(n, a, b, y, [](T x, T s) { return x < T(0) ? scalar::mul(x, s) : x; });
    default:
      throw ShapeError("not an arithmetic operator");
  }
}

template <class T>
void run_comparison(BinaryKind kind, const BroadcastNest& n, const T* a, const T* b, bool* y) {
  switch (kind) {
    case BinaryKind::kEqual:
      return run_generic(n, a, b, y, [](T p, T q) { return p == q; });
    case BinaryKind::kLess:
      return run_generic(n, a, b, y, [](T p, T q) { return p < q; });
    case BinaryKind::kLessOrEqual:
      return run_generic(n, a, b, y, [](T p, T q) { return p <= q; });
    case BinaryKind::kGreater:
      return run_generic(n, a, b, y, [](T p, T q) { return p > q; });
    default:
      return run_generic(n, a, b, y, [](T p, T q) { return p >= q; });
  }
}

void run_logical(BinaryKind kind, const BroadcastNest& n, const bool* a, const bool* b, bool* y) {
  switch (kind) {
    case BinaryKind::kAnd:
      return run_generic(n, a, b, y, [](bool p, bool q) { return p && q; });
    case BinaryKind::kOr:
      return run_generic(n, a, b, y, [](bool p, bool q) { return p || q; });
    default:
      return run_generic(n, a, b, y, [](bool p, bool q) { return p != q; });
  }
}

// Layouts of an element-wise op: channels-last if some rank-4 input already is and none forces
// linear order.
LayoutChoice follow_inputs(Infos inputs, Infos outputs) {
  LayoutChoice c{std::vector<Layout>(inputs.size(), Layout::kLinear),
                 std::vector<Layout>(outputs.size(), Layout::kLinear)};
  if (outputs[0].shape.rank() != 4) return c;
  const bool any =
      std::ranges::any_of(inputs, [](const ValueInfo& v) { return v.channels_last(); });
  if (!any) return c;
  c.outputs[0] = Layout::kChannelsLast;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].shape.rank() == 4 && !same_in_both_layouts(inputs[i].shape))
      c.inputs[i] = Layout::kChannelsLast;
    else
      c.inputs[i] = inputs[i].layout;
  return c;
}

}  // namespace

std::string UnaryOp::describe() const {
  return activation.alpha || activation.beta
             ? cat(onnx_type, " ", activation.alpha, " ", activation.beta)
             : onnx_type;
}

void UnaryOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  if (!is_float(inputs[0].dtype) && !scalar::works_on_integers(activation.kind))
    throw ShapeError(cat("not defined for ", name_of(inputs[0].dtype)));
  outputs[0] = ValueInfo(inputs[0].shape, inputs[0].dtype);
}

LayoutChoice UnaryOp::layouts(Infos inputs, Infos outputs) const {
  return follow_inputs(inputs, outputs);
}

std::unique_ptr<Plan> UnaryOp::plan(Infos inputs, Infos, PackCache&) const {
  const cpu::Activation act = activation;
  const int64_t n = inputs[0].shape.numel();
  if (inputs[0].dtype == DType::kF32)
    return make_plan([act, n](Views in, Views out, void*) {
      cpu::unary(act, in[0].as<float>(), out[0].as<float>(), n);
    });
  const DType dtype = inputs[0].dtype;
  return make_plan([act, n, dtype](Views in, Views out, void*) {
    scalar::unary(act, dtype, in[0].data, out[0].data, n);
  });
}

std::string_view BinaryOp::type() const {
  constexpr const char* names[] = {"Add",   "Sub",  "Mul",         "Div",     "Pow",
                                   "Min",   "Max",  "Mod",         "Mod",     "PRelu",
                                   "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual",
                                   "And",   "Or",   "Xor"};
  return names[static_cast<int>(kind)];
}

void BinaryOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  const ValueInfo &a = inputs[0], &b = inputs[1];
  if (a.dtype != b.dtype && kind != BinaryKind::kPow)
    throw ShapeError(cat("operands of ", name_of(a.dtype), " and ", name_of(b.dtype)));
  if (is_logical(kind) && a.dtype != DType::kBool) throw ShapeError("expected bool operands");
  if (!is_logical(kind) && !is_comparison(kind) && a.dtype == DType::kBool)
    throw ShapeError("not defined for bool");
  outputs[0] = ValueInfo(broadcast(a.shape, b.shape),
                         is_comparison(kind) || is_logical(kind) ? DType::kBool : a.dtype);
}

LayoutChoice BinaryOp::layouts(Infos inputs, Infos outputs) const {
  return follow_inputs(inputs, outputs);
}

std::unique_ptr<Plan> BinaryOp::plan(Infos inputs, Infos outputs, PackCache&) const {
  const BinaryKind k = kind;
  const DType dtype = inputs[0].dtype;
  if (dtype == DType::kF32 && inputs[1].dtype == DType::kF32)
    if (const auto op = kernel_of(k))
      return make_plan([op = *op, k](Views in, Views out, void*) {
        const BroadcastNest nest = broadcast_nest(*in[0].info, *in[1].info, *out[0].info);
        const auto *a = in[0].as<float>(), *b = in[1].as<float>();
        if (!run_kernel(op, nest, a, b, out[0].as<float>()))
          run_arithmetic(k, nest, a, b, out[0].as<float>());
      });
  if (k == BinaryKind::kPow && inputs[1].dtype != dtype)
    return make_plan([dtype](Views in, Views out, void*) {
      scalar::pow_mixed(broadcast_nest(*in[0].info, *in[1].info, *out[0].info), dtype, in[0].data,
                        in[1].info->dtype, in[1].data, out[0].data);
    });
  (void)outputs;
  return make_plan([k, dtype](Views in, Views out, void*) {
    const BroadcastNest nest = broadcast_nest(*in[0].info, *in[1].info, *out[0].info);
    if (is_logical(k))
      return run_logical(k, nest, in[0].as<bool>(), in[1].as<bool>(), out[0].as<bool>());
    scalar::dispatch(dtype, [&]<class T>(T) {
      const auto *a = in[0].as<T>(), *b = in[1].as<T>();
      if (is_comparison(k)) return run_comparison(k, nest, a, b, out[0].as<bool>());
      if constexpr (!std::is_same_v<T, bool>) run_arithmetic(k, nest, a, b, out[0].as<T>());
    });
  });
}

}  // namespace train
