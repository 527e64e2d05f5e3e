#include "libtrain/ops/shape_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "libtrain/ops/common.h"
#include "libtrain/ops/strided.h"

namespace train {
namespace {

// Ops whose result is larger than their inputs give no more elements than this; the planner bounds
// the bytes of a whole net.
constexpr int64_t kMaxGenerated = int64_t{1} << 32;

void check_generated(const Shape& y, const char* op) {
  if (y.numel() > kMaxGenerated)
    throw ShapeError(cat(op, ": a result of shape ", y.str(), " is larger than any net needs"));
}

// Shape and Size look at no data, so any layout does.
LayoutChoice any_layout(Infos inputs) { return {{inputs[0].layout}, {Layout::kLinear}}; }

double scalar_of(Infos inputs, size_t i, const char* what) {
  if (!inputs[i].constant)
    throw ShapeError(
        cat(what, " depends on computed data; only values known from shapes are supported"));
  require(inputs[i].constant->numel() == 1, "Range and OneHot need scalars");
  return inputs[i].constant->to_doubles()[0];
}

// Writes `v` as the dtype's bytes.
void store(void* to, DType type, double v) {
  const Tensor t = Tensor::scalar<double>(v).to(type);
  std::memcpy(to, t.raw(), size_of(type));
}

std::unique_ptr<Plan> cast_plan(Infos inputs, Infos outputs) {
  return make_plan([from = inputs[0].dtype, to = outputs[0].dtype, n = inputs[0].shape.numel()](
                       Views in, Views out, void*) {
    const auto fsize = static_cast<int64_t>(size_of(from)),
               tsize = static_cast<int64_t>(size_of(to));
    parallel_for(n, 32768, [&](int64_t a, int64_t b) {
      convert_elements(from, in[0].as<char>() + a * fsize, to, out[0].as<char>() + a * tsize,
                       b - a);
    });
  });
}

}  // namespace

// ---- Shape, Size

LayoutChoice ShapeOp::layouts(Infos inputs, Infos) const { return any_layout(inputs); }
LayoutChoice SizeOp::layouts(Infos inputs, Infos) const { return any_layout(inputs); }

void ShapeOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  const int64_t rank = inputs[0].shape.rank();
  const auto place = [rank](int64_t v) {
    return std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank);
  };
  outputs[0] = ValueInfo(Shape{std::max<int64_t>(0, place(end) - place(start))}, DType::kI64);
}

std::unique_ptr<Plan> ShapeOp::plan(Infos inputs, Infos outputs, PackCache&) const {
  const int64_t rank = inputs[0].shape.rank();
  const int64_t from = std::clamp<int64_t>(start < 0 ? start + rank : start, 0, rank);
  return make_plan([x = inputs[0].shape, from, n = outputs[0].shape[0]](Views, Views out, void*) {
    std::copy_n(x.begin() + from, n, out[0].as<int64_t>());
  });
}

void SizeOp::infer(Infos, std::span<ValueInfo> outputs) const {
  outputs[0] = ValueInfo(Shape{}, DType::kI64);
}

std::unique_ptr<Plan> SizeOp::plan(Infos inputs, Infos, PackCache&) const {
  return make_plan(
      [n = inputs[0].shape.numel()](Views, Views out, void*) { *out[0].as<int64_t>() = n; });
}

// ---- ConstantOfShape, EyeLike, Range

ConstantOfShapeOp::ConstantOfShapeOp(Tensor v) : value(std::move(v)) {
  require(value.numel() == 1, "ConstantOfShape: the value must be one element");
}

void ConstantOfShapeOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  const Shape y(constant_ints(inputs, 0, "ConstantOfShape's shape"));
  check_generated(y, "ConstantOfShape");
  outputs[0] = ValueInfo(y, value.dtype());
}

std::unique_ptr<Plan> ConstantOfShapeOp::plan(Infos, Infos outputs, PackCache&) const {
  StridedCopy fill({{outputs[0].shape.numel(), 0, 1}}, size_of(value.dtype()));
  return make_plan([fill = std::move(fill), v = value](Views, Views out, void*) {
    fill.run(v.raw(), out[0].data);
  });
}

void EyeLikeOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  require(inputs[0].shape.rank() == 2, "EyeLike needs a matrix");
  outputs[0] = ValueInfo(inputs[0].shape, dtype.value_or(inputs[0].dtype));
}

std::unique_ptr<Plan> EyeLikeOp::plan(Infos, Infos outputs, PackCache&) const {
  return make_plan(
      [k = k, shape = outputs[0].shape, type = outputs[0].dtype](Views, Views out, void*) {
        const size_t e = size_of(type);
        std::memset(out[0].data, 0, static_cast<size_t>(shape.numel()) * e);
        for (int64_t r = 0; r < shape[0]; ++r) {
          if (k < -shape[0] || k > shape[1]) continue;
          const int64_t c = r + k;
          if (c >= 0 && c < shape[1])
            store(out[0].as<char>() + (r * shape[1] + c) * static_cast<int64_t>(e), type, 1);
        }
      });
}

void RangeOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  const DType type = inputs[0].dtype;
  require(inputs[1].dtype == type && inputs[2].dtype == type,
          "Range: start, limit and delta differ in type");
  const double start = scalar_of(inputs, 0, "Range's start");
  const double limit = scalar_of(inputs, 1, "Range's limit");
  const double delta = scalar_of(inputs, 2, "Range's delta");
  require(delta != 0, "Range: delta is 0");
  const double n = std::max(0.0, std::ceil((limit - start) / delta));
  require(n <= static_cast<double>(kMaxGenerated), "Range: more elements than any net needs");
  outputs[0] = ValueInfo(Shape{static_cast<int64_t>(n)}, type);
}

std::unique_ptr<Plan> RangeOp::plan(Infos, Infos outputs, PackCache&) const {
  return make_plan([n = outputs[0].shape[0], type = outputs[0].dtype](Views in, Views out, void*) {
    const auto fill = [&](auto zero) {
      using T = decltype(zero);
      const T start = *in[0].as<const T>(), delta = *in[2].as<const T>();
      for (int64_t i = 0; i < n; ++i)
        out[0].as<T>()[i] = static_cast<T>(start + static_cast<T>(i) * delta);
    };
    switch (type) {
      case DType::kF32:
        return fill(float{});
      case DType::kF64:
        return fill(double{});
      case DType::kI32:
        return fill(int32_t{});
      case DType::kI64:
        return fill(int64_t{});
      default:
        throw ShapeError(cat("Range does not support ", name_of(type)));
    }
  });
}

// ---- Cast

std::string CastOp::describe() const { return cat("Cast to=", name_of(to)); }

void CastOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  outputs[0] = ValueInfo(inputs[0].shape, to);
}

std::unique_ptr<Plan> CastOp::plan(Infos inputs, Infos outputs, PackCache&) const {
  return cast_plan(inputs, outputs);
}

void CastLikeOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  outputs[0] = ValueInfo(inputs[0].shape, inputs[1].dtype);
}

std::unique_ptr<Plan> CastLikeOp::plan(Infos inputs, Infos outputs, PackCache&) const {
  return cast_plan(inputs, outputs);
}

// ---- Where

void WhereOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  require(inputs[0].dtype == DType::kBool, "Where: the condition must be bool");
  require(inputs[1].dtype == inputs[2].dtype, "Where: the two choices differ in type");
  outputs[0] = ValueInfo(broadcast(inputs[0].shape, broadcast(inputs[1].shape, inputs[2].shape)),
                         inputs[1].dtype);
}

std::unique_ptr<Plan> WhereOp::plan(Infos inputs, Infos outputs, PackCache&) const {
  const Shape y = outputs[0].shape;
  std::array<std::array<int64_t, Shape::kMaxRank>, 3> strides{};
  for (size_t k = 0; k < 3; ++k) {
    const Shape& x = inputs[k].shape;
    const auto dense = strides_of(inputs[k]);
    for (int i = 0; i < x.rank(); ++i)
      strides[k][y.rank() - x.rank() + i] = x[i] == 1 ? 0 : dense[i];
  }
  const int64_t cols = y.rank() ? y.dim(-1) : 1;
  const int64_t rows = cols ? y.numel() / cols : 0;
  return make_plan([=, element = size_of(outputs[0].dtype)](Views in, Views out, void*) {
    by_size(element, [&](auto type) {
      using T = decltype(type);
      parallel_for(rows, 16384 / std::max<int64_t>(cols, 1) + 1, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          std::array<int64_t, 3> at{};
          int64_t rest = r;
          for (int i = y.rank() - 2; i >= 0; --i) {
            for (size_t k = 0; k < 3; ++k) at[k] += rest % y[i] * strides[k][i];
            rest /= y[i];
          }
          const int last = std::max(0, y.rank() - 1);
          const auto* c = in[0].as<const uint8_t>() + at[0];
          const T *a = in[1].as<const T>() + at[1], *b = in[2].as<const T>() + at[2];
          T* to = out[0].as<T>() + r * cols;
          for (int64_t i = 0; i < cols; ++i)
            to[i] = c[i * strides[0][last]] ? a[i * strides[1][last]] : b[i * strides[2][last]];
        }
      });
    });
  });
}

// ---- NonZero, OneHot

void NonZeroOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  if (!inputs[0].constant)
    throw ShapeError(
        "NonZero of computed data has no shape known ahead; only constants are supported");
  int64_t count = 0;
  for (double v : inputs[0].constant->to_doubles()) count += v != 0;
  outputs[0] = ValueInfo(Shape{std::max(1, inputs[0].shape.rank()), count}, DType::kI64);
}

std::unique_ptr<Plan> NonZeroOp::plan(Infos inputs, Infos outputs, PackCache&) const {
  return make_plan([values = inputs[0].constant->to_doubles(), x = inputs[0].shape,
                    count = outputs[0].shape[1]](Views, Views out, void*) {
    int64_t found = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] == 0) continue;
      auto rest = static_cast<int64_t>(i);
      if (x.rank() == 0) out[0].as<int64_t>()[found] = 0;
      for (int k = x.rank(); k-- > 0;) {
        out[0].as<int64_t>()[k * count + found] = rest % x[k];
        rest /= x[k];
      }
      ++found;
    }
  });
}

void OneHotOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  const double depth = scalar_of(inputs, 1, "OneHot's depth");
  require(depth >= 0 && depth <= static_cast<double>(kMaxGenerated),
          "OneHot: the depth is out of range");
  require(inputs[2].shape == Shape{2}, "OneHot: the values are [off, on]");
  Shape y = inputs[0].shape;
  y.push_back(0);
  const int a = y.axis(axis);
  y.erase(y.rank() - 1);
  y.insert(a, static_cast<int64_t>(depth));
  check_generated(y, "OneHot");
  outputs[0] = ValueInfo(y, inputs[2].dtype);
}

std::unique_ptr<Plan> OneHotOp::plan(Infos inputs, Infos outputs, PackCache&) const {
  const Shape& y = outputs[0].shape;
  const int a = y.axis(axis);
  const int64_t depth = y[a], inner = y.count(a + 1, y.rank()), count = inputs[0].shape.numel();
  return make_plan([=, itype = inputs[0].dtype, element = size_of(outputs[0].dtype)](
                       Views in, Views out, void*) {
    std::vector<double> index(static_cast<size_t>(count));
    convert_elements(itype, in[0].data, DType::kF64, index.data(), count);
    by_size(element, [&](auto type) {
      using T = decltype(type);
      const T off = in[2].as<const T>()[0], on = in[2].as<const T>()[1];
      std::fill_n(out[0].as<T>(), count * depth, off);
      for (int64_t i = 0; i < count; ++i) {
        const double v = index[static_cast<size_t>(i)];
        if (!(v >= -static_cast<double>(depth) && v < static_cast<double>(depth))) continue;
        const auto d = static_cast<int64_t>(v);
        out[0].as<T>()[(i / inner * depth + (d < 0 ? d + depth : d)) * inner + i % inner] = on;
      }
    });
  });
}

}  // namespace train
