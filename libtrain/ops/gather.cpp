// Gathers, scatters and ReverseSequence.
#include <algorithm>
#include <cstring>

#include "libtrain/ops/move.h"

#include "libtrain/ops/common.h"

namespace train {
namespace {

bool is_index(DType t) { return t == DType::kI32 || t == DType::kI64; }

// Element i of an i32 or i64 array as an index into an axis of n, counted from the end where
// negative.
struct IndexReader {
  const void* data;
  bool wide;

  IndexReader(const View& v) : data(v.data), wide(v.info->dtype == DType::kI64) {}
  int64_t at(int64_t i, int64_t n) const {
    int64_t v = wide ? static_cast<const int64_t*>(data)[i] : static_cast<const int32_t*>(data)[i];
    if (v < 0) v += n;
    if (v < 0 || v >= n) throw ShapeError(cat("an index is outside an axis of ", n));
    return v;
  }
};

template <class T>
T reduced(ScatterReduce op, T a, T b) {
  switch (op) {
    case ScatterReduce::kAdd:
      return static_cast<T>(a + b);
    case ScatterReduce::kMul:
      return static_cast<T>(a * b);
    case ScatterReduce::kMin:
      return std::min(a, b);
    case ScatterReduce::kMax:
      return std::max(a, b);
    default:
      return b;
  }
}

// Calls f with a value of the C++ type that holds `t`: arithmetic for what ScatterReduce allows.
template <class F>
void by_type(DType t, F&& f) {
  switch (t) {
    case DType::kF32:
      return f(float{});
    case DType::kF64:
      return f(double{});
    case DType::kI8:
      return f(int8_t{});
    case DType::kU8:
    case DType::kBool:
      return f(uint8_t{});
    case DType::kI32:
      return f(int32_t{});
    case DType::kI64:
      return f(int64_t{});
    default:
      return f(uint16_t{});
  }
}

void check_reduce(ScatterReduce reduce, DType t) {
  require(reduce == ScatterReduce::kNone ||
              (t != DType::kF16 && t != DType::kBF16 && t != DType::kBool),
          "a scatter with a reduction needs f32, f64 or integers");
}

}  // namespace

// ---- Gather

std::string GatherOp::describe() const { return cat("Gather axis=", axis); }

void GatherOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  const Shape &x = inputs[0].shape, &indices = inputs[1].shape;
  require(is_index(inputs[1].dtype), "Gather's indices must be i32 or i64");
  const int a = x.axis(axis);
  Shape y;
  for (int i = 0; i < a; ++i) y.push_back(x[i]);
  for (int64_t d : indices) y.push_back(d);
  for (int i = a + 1; i < x.rank(); ++i) y.push_back(x[i]);
  y.numel();
  outputs[0] = ValueInfo(y, inputs[0].dtype);
}

std::unique_ptr<Plan> GatherOp::plan(Infos inputs, Infos, PackCache&) const {
  const Shape& x = inputs[0].shape;
  const int a = x.axis(axis);
  const int64_t outer = x.count(0, a), n = x[a], count = inputs[1].shape.numel();
  const int64_t bytes = x.count(a + 1, x.rank()) * static_cast<int64_t>(size_of(inputs[0].dtype));
  return make_plan([=](Views in, Views out, void*) {
    const IndexReader index(in[1]);
    if (bytes == 0) return;
    const int64_t grain = std::max<int64_t>(1, 131072 / bytes);
    parallel_for(outer * count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        std::memcpy(out[0].as<char>() + r * bytes,
                    in[0].as<char>() + (r / count * n + index.at(r % count, n)) * bytes,
                    static_cast<size_t>(bytes));
    });
  });
}

// ---- GatherElements, ScatterElements

namespace {

// Where element i of `indices` lies in x, with its place along `axis` replaced by the index.
struct ElementMap {
  int rank, axis;
  std::array<int64_t, Shape::kMaxRank> dims{}, strides{};
  int64_t n;

  ElementMap(const Shape& x, const Shape& indices, int axis)
      : rank(x.rank()), axis(axis), n(x[axis]) {
    int64_t step = 1;
    for (int i = rank; i-- > 0;) {
      dims[i] = indices[i];
      strides[i] = step;
      step *= x[i];
    }
  }
  int64_t offset(int64_t i, const IndexReader& index) const {
    int64_t at = index.at(i, n) * strides[axis];
    for (int k = rank; k-- > 0;) {
      if (k != axis) at += i % dims[k] * strides[k];
      i /= dims[k];
    }
    return at;
  }
};

void check_elements(const ValueInfo& x, const ValueInfo& indices, int axis) {
  require(is_index(indices.dtype), "the indices must be i32 or i64");
  require(x.shape.rank() == indices.shape.rank(), "the indices must have the data's rank");
  for (int i = 0; i < x.shape.rank(); ++i)
    require(i == axis || indices.shape[i] <= x.shape[i],
            "the indices are larger than the data along another axis");
}

}  // namespace

std::string GatherElementsOp::describe() const { return cat("GatherElements axis=", axis); }

void GatherElementsOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  check_elements(inputs[0], inputs[1], inputs[0].shape.axis(axis));
  outputs[0] = ValueInfo(inputs[1].shape, inputs[0].dtype);
}

std::unique_ptr<Plan> GatherElementsOp::plan(Infos inputs, Infos, PackCache&) const {
  const ElementMap map(inputs[0].shape, inputs[1].shape, inputs[0].shape.axis(axis));
  const int64_t count = inputs[1].shape.numel();
  const size_t element = size_of(inputs[0].dtype);
  return make_plan([=](Views in, Views out, void*) {
    const IndexReader index(in[1]);
    by_size(element, [&](auto type) {
      using T = decltype(type);
      parallel_for(count, 8192, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          out[0].as<T>()[i] = in[0].as<const T>()[map.offset(i, index)];
      });
    });
  });
}

std::string ScatterElementsOp::describe() const {
  return cat("ScatterElements axis=", axis, " reduction=", static_cast<int>(reduce));
}

void ScatterElementsOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  check_elements(inputs[0], inputs[1], inputs[0].shape.axis(axis));
  require(inputs[2].shape == inputs[1].shape && inputs[2].dtype == inputs[0].dtype,
          "ScatterElements: the updates must fit the indices' shape and the data's type");
  check_reduce(reduce, inputs[0].dtype);
  outputs[0] = ValueInfo(inputs[0].shape, inputs[0].dtype);
}

std::unique_ptr<Plan> ScatterElementsOp::plan(Infos inputs, Infos, PackCache&) const {
  const ElementMap map(inputs[0].shape, inputs[1].shape, inputs[0].shape.axis(axis));
  const int64_t count = inputs[1].shape.numel(), total = inputs[0].shape.numel();
  return make_plan([=, type = inputs[0].dtype, op = reduce](Views in, Views out, void*) {
    const IndexReader index(in[1]);
    by_type(type, [&](auto zero) {
      using T = decltype(zero);
      if (in[0].data != out[0].data && total)
        std::memcpy(out[0].data, in[0].data, static_cast<size_t>(total) * sizeof(T));
      for (int64_t i = 0; i < count; ++i) {
        T& y = out[0].as<T>()[map.offset(i, index)];
        y = reduced(op, y, in[2].as<const T>()[i]);
      }
    });
  });
}

// ---- GatherND, ScatterND

namespace {

// Indices [..., depth] pick slices of x past `batch` leading axes.
struct SliceMap {
  int64_t depth, slices, slice, per_batch, batch_stride;
  std::array<int64_t, Shape::kMaxRank> dims{}, strides{};

  SliceMap(const Shape& x, const Shape& indices, int batch) {
    const int last = indices.rank() - 1;
    depth = indices[last];
    slices = indices.count(0, last);
    per_batch = std::max<int64_t>(1, indices.count(batch, last));
    batch_stride = x.count(batch, x.rank());
    const int from = batch + static_cast<int>(depth);
    slice = x.count(from, x.rank());
    int64_t step = slice;
    for (int k = static_cast<int>(depth); k-- > 0;) {
      dims[k] = x[batch + k];
      strides[k] = step;
      step *= dims[k];
    }
  }
  int64_t offset(int64_t i, const IndexReader& index) const {
    int64_t at = i / per_batch * batch_stride;
    for (int64_t k = 0; k < depth; ++k) at += index.at(i * depth + k, dims[k]) * strides[k];
    return at;
  }
};

// The shape of the slices that indices [..., depth] pick.
Shape slices_shape(const ValueInfo& x, const ValueInfo& indices, int64_t batch) {
  require(is_index(indices.dtype), "the indices must be i32 or i64");
  const int q = indices.shape.rank();
  require(q >= 1 && batch >= 0 && batch < q && batch <= x.shape.rank(),
          "the number of batch axes does not fit the ranks");
  const int64_t depth = indices.shape[q - 1];
  require(depth >= 0 && depth <= x.shape.rank() - batch,
          "the indices are deeper than the data's rank");
  for (int i = 0; i < batch; ++i)
    require(x.shape[i] == indices.shape[i], "the batch axes of data and indices differ");
  Shape y;
  for (int i = 0; i + 1 < q; ++i) y.push_back(indices.shape[i]);
  for (int i = static_cast<int>(batch + depth); i < x.shape.rank(); ++i) y.push_back(x.shape[i]);
  y.numel();
  return y;
}

}  // namespace

std::string GatherNDOp::describe() const { return cat("GatherND batch_dims=", batch_dims); }

void GatherNDOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  outputs[0] = ValueInfo(slices_shape(inputs[0], inputs[1], batch_dims), inputs[0].dtype);
}

std::unique_ptr<Plan> GatherNDOp::plan(Infos inputs, Infos, PackCache&) const {
  const SliceMap map(inputs[0].shape, inputs[1].shape, static_cast<int>(batch_dims));
  const auto element = static_cast<int64_t>(size_of(inputs[0].dtype));
  const int64_t bytes = map.slice * element;
  return make_plan([=](Views in, Views out, void*) {
    const IndexReader index(in[1]);
    if (bytes == 0) return;
    for (int64_t i = 0; i < map.slices; ++i)
      std::memcpy(out[0].as<char>() + i * bytes, in[0].as<char>() + map.offset(i, index) * element,
                  static_cast<size_t>(bytes));
  });
}

void ScatterNDOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  require(inputs[2].shape == slices_shape(inputs[0], inputs[1], 0) &&
              inputs[2].dtype == inputs[0].dtype,
          "ScatterND: the updates must fit the slices that the indices pick");
  check_reduce(reduce, inputs[0].dtype);
  outputs[0] = ValueInfo(inputs[0].shape, inputs[0].dtype);
}

std::unique_ptr<Plan> ScatterNDOp::plan(Infos inputs, Infos, PackCache&) const {
  const SliceMap map(inputs[0].shape, inputs[1].shape, 0);
  const int64_t total = inputs[0].shape.numel();
  return make_plan([=, type = inputs[0].dtype, op = reduce](Views in, Views out, void*) {
    const IndexReader index(in[1]);
    by_type(type, [&](auto zero) {
      using T = decltype(zero);
      if (in[0].data != out[0].data && total)
        std::memcpy(out[0].data, in[0].data, static_cast<size_t>(total) * sizeof(T));
      for (int64_t i = 0; i < map.slices; ++i) {
        T* y = out[0].as<T>() + map.offset(i, index);
        const T* update = in[2].as<const T>() + i * map.slice;
        for (int64_t k = 0; k < map.slice; ++k) y[k] = reduced(op, y[k], update[k]);
      }
    });
  });
}

// ---- ReverseSequence

std::string ReverseSequenceOp::describe() const {
  return cat("ReverseSequence batch_axis=", batch_axis, " time_axis=", time_axis);
}

void ReverseSequenceOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  const Shape& x = inputs[0].shape;
  require(x.rank() >= 2 && batch_axis != time_axis && batch_axis >= 0 && batch_axis < 2 &&
              time_axis >= 0 && time_axis < 2,
          "ReverseSequence: batch and time are the first two axes");
  require(is_index(inputs[1].dtype) && inputs[1].shape == Shape{x[static_cast<int>(batch_axis)]},
          "ReverseSequence needs one length per sequence");
  outputs[0] = ValueInfo(x, inputs[0].dtype);
}

std::unique_ptr<Plan> ReverseSequenceOp::plan(Infos inputs, Infos, PackCache&) const {
  const Shape& x = inputs[0].shape;
  const int64_t batch = x[static_cast<int>(batch_axis)], time = x[static_cast<int>(time_axis)];
  const int64_t bytes = x.count(2, x.rank()) * static_cast<int64_t>(size_of(inputs[0].dtype));
  const bool time_first = time_axis == 0;
  return make_plan([=](Views in, Views out, void*) {
    if (bytes == 0) return;
    const bool wide = in[1].info->dtype == DType::kI64;
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t length = wide ? in[1].as<const int64_t>()[b] : in[1].as<const int32_t>()[b];
      if (length < 0 || length > time)
        throw ShapeError(cat("ReverseSequence: a length of ", length, " for ", time, " steps"));
      for (int64_t t = 0; t < time; ++t) {
        const int64_t from = t < length ? length - 1 - t : t;
        const auto row = [&](int64_t step) {
          return time_first ? step * batch + b : b * time + step;
        };
        std::memcpy(out[0].as<char>() + row(t) * bytes, in[0].as<char>() + row(from) * bytes,
                    static_cast<size_t>(bytes));
      }
    }
  });
}

}  // namespace train
