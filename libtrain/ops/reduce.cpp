#include "libtrain/ops/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "libtrain/cpu/reduce.h"
#include "libtrain/ops/scalar.h"
#include "libtrain/ops/strided.h"

namespace train {
namespace {

std::optional<cpu::ReduceOp> kernel_of(ReduceKind k) {
  if (k == ReduceKind::kLogSum || k == ReduceKind::kLogSumExp) return std::nullopt;
  return static_cast<cpu::ReduceOp>(k);  // the same order in both
}
static_assert(static_cast<int>(ReduceKind::kL2) == static_cast<int>(cpu::ReduceOp::kL2) &&
              static_cast<int>(ReduceKind::kMean) == static_cast<int>(cpu::ReduceOp::kMean) &&
              static_cast<int>(ReduceKind::kProd) == static_cast<int>(cpu::ReduceOp::kProd));

// ---- One row of any dtype, accumulated in f64 or in wrapping 64-bit integers.

template <class T>
T extreme_row(bool max, const T* x, int64_t n) {
  using L = std::numeric_limits<T>;
  if (n == 0) {
    if constexpr (L::has_infinity) return max ? -L::infinity() : L::infinity();
    return max ? L::lowest() : L::max();
  }
  T best = x[0];
  for (int64_t i = 1; i < n; ++i) best = max ? scalar::max(best, x[i]) : scalar::min(best, x[i]);
  return best;
}

double float_row(ReduceKind kind, const double* x, int64_t n) {
  double sum = 0, product = 1, squares = 0, magnitude = 0;
  const double top = kind == ReduceKind::kLogSumExp ? extreme_row(true, x, n) : 0;
  const double shift = std::isfinite(top) ? top : 0;
  for (int64_t i = 0; i < n; ++i) {
    sum += kind == ReduceKind::kLogSumExp ? std::exp(x[i] - shift) : x[i];
    product *= x[i];
    squares += x[i] * x[i];
    magnitude += std::abs(x[i]);
  }
  switch (kind) {
    case ReduceKind::kSum:
      return sum;
    case ReduceKind::kMean:
      return sum / static_cast<double>(n);
    case ReduceKind::kProd:
      return product;
    case ReduceKind::kSumSquare:
      return squares;
    case ReduceKind::kL1:
      return magnitude;
    case ReduceKind::kL2:
      return std::sqrt(squares);
    case ReduceKind::kLogSum:
      return std::log(sum);
    case ReduceKind::kLogSumExp:
      return std::log(sum) + shift;
    default:
      return extreme_row(kind == ReduceKind::kMax, x, n);
  }
}

template <class T>
T integer_row(ReduceKind kind, const T* x, int64_t n) {
  uint64_t sum = 0, product = 1, squares = 0, magnitude = 0;
  for (int64_t i = 0; i < n; ++i) {
    const auto v = static_cast<uint64_t>(static_cast<int64_t>(x[i]));
    sum += v;
    product *= v;
    squares += v * v;
    magnitude += static_cast<int64_t>(v) < 0 ? -v : v;
  }
  const auto real = [](uint64_t v) { return static_cast<double>(static_cast<int64_t>(v)); };
  switch (kind) {
    case ReduceKind::kSum:
      return static_cast<T>(sum);
    case ReduceKind::kMean:
      return n ? static_cast<T>(static_cast<int64_t>(sum) / n) : T(0);
    case ReduceKind::kProd:
      return static_cast<T>(product);
    case ReduceKind::kSumSquare:
      return static_cast<T>(squares);
    case ReduceKind::kL1:
      return static_cast<T>(magnitude);
    case ReduceKind::kL2:
      return static_cast<T>(std::sqrt(std::max(0.0, real(squares))));
    default:
      throw ShapeError("this reduction is not defined for integers");
  }
}

template <class T>
T reduce_row(ReduceKind kind, const T* x, int64_t n) {
  if constexpr (std::is_integral_v<T>) {
    if (kind == ReduceKind::kMax || kind == ReduceKind::kMin)
      return extreme_row(kind == ReduceKind::kMax, x, n);
    return integer_row(kind, x, n);
  } else {
    std::vector<double> row(x, x + n);
    return T(float_row(kind, row.data(), n));
  }
}

// ---- The input's axes in memory order, neighbours of one kind merged.

struct Group {
  int64_t size, stride;
  bool reduced;
};

struct MemoryAxis {
  int64_t size, src, dst;  // strides; dst only of kept axes
  bool reduced;
};

std::vector<MemoryAxis> memory_axes(const ValueInfo& x, const ValueInfo& y,
                                    const std::vector<char>& reduced, bool keepdims) {
  const auto src = strides_of(x), dst = strides_of(y);
  std::vector<MemoryAxis> axes;
  int out = 0;
  for (int i = 0; i < x.shape.rank(); ++i) {
    const bool r = reduced[i] != 0;
    if (x.shape[i] != 1) axes.push_back({x.shape[i], src[i], r ? 0 : dst[out], r});
    if (!r || keepdims) ++out;
  }
  std::ranges::stable_sort(axes,
                           [](const MemoryAxis& a, const MemoryAxis& b) { return a.src > b.src; });
  return axes;
}

std::vector<Group> merged(const std::vector<MemoryAxis>& axes) {
  std::vector<Group> groups;
  for (const MemoryAxis& a : axes) {
    if (!groups.empty() && groups.back().reduced == a.reduced &&
        groups.back().stride == a.src * a.size)
      groups.back() = {groups.back().size * a.size, a.src, a.reduced};
    else
      groups.push_back({a.size, a.src, a.reduced});
  }
  return groups;
}

// True when the kept axes, in the input's memory order, are the output's dense order.
bool keeps_order(const std::vector<MemoryAxis>& axes) {
  int64_t step = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    if (axes[i].reduced) continue;
    if (axes[i].dst != step) return false;
    step *= axes[i].size;
  }
  return true;
}

// A plan that runs a kernel on the input as it lies, or null when its order does not allow that.
std::unique_ptr<Plan> direct_plan(cpu::ReduceOp op, const std::vector<Group>& g) {
  const size_t n = g.size();
  if (n == 0)  // one element
    return make_plan([op](Views in, Views out, void*) {
      cpu::reduce_cols(op, in[0].as<const float>(), 1, 1, 1, out[0].as<float>());
    });
  if (g[n - 1].reduced && g[n - 1].stride == 1 &&
      (n == 1 || (n == 2 && !g[0].reduced))) {  // [kept, reduced]
    const int64_t cols = g[n - 1].size, rows = n == 2 ? g[0].size : 1;
    const int64_t ld = n == 2 ? g[0].stride : cols;
    return make_plan([=](Views in, Views out, void*) {
      cpu::reduce_cols(op, in[0].as<const float>(), ld, rows, cols, out[0].as<float>());
    });
  }
  if (n >= 2 && n <= 3 && !g[n - 1].reduced && g[n - 1].stride == 1 && g[n - 2].reduced) {
    const int64_t cols = g[n - 1].size, rows = g[n - 2].size, ld = g[n - 2].stride;
    const int64_t outer = n == 3 ? g[0].size : 1;  // [kept, reduced, kept]
    if (n == 3 && (g[0].reduced || g[0].stride != rows * ld)) return nullptr;
    return make_plan([=](Views in, Views out, void*) {
      cpu::reduce_rows(op, in[0].as<const float>(), ld, outer, rows, cols, out[0].as<float>(),
                       cols);
    });
  }
  return nullptr;
}

}  // namespace

std::string_view ReduceOp::type() const {
  constexpr std::string_view names[] = {"ReduceSum",    "ReduceMean",      "ReduceMax", "ReduceMin",
                                        "ReduceProd",   "ReduceSumSquare", "ReduceL1",  "ReduceL2",
                                        "ReduceLogSum", "ReduceLogSumExp"};
  return names[static_cast<int>(kind)];
}

std::string ReduceOp::describe() const { return cat(type(), " keepdims=", keepdims); }

double ReduceOp::flops(Infos inputs, Infos) const {
  return static_cast<double>(inputs[0].shape.numel());
}

std::vector<char> ReduceOp::reduced_axes(Infos inputs) const {
  const Shape& x = inputs[0].shape;
  std::vector<int64_t> axes;
  if (has_input(inputs, 1)) axes = constant_ints(inputs, 1, "the axes of a reduction");
  std::vector<char> reduced(x.rank(), axes.empty() && !noop_with_empty_axes);
  for (int64_t a : axes) reduced[x.axis(a)] = 1;
  return reduced;
}

void ReduceOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  const Shape& x = inputs[0].shape;
  const auto reduced = reduced_axes(inputs);
  Shape y;
  for (int i = 0; i < x.rank(); ++i) {
    if (!reduced[i])
      y.push_back(x[i]);
    else if (keepdims)
      y.push_back(1);
  }
  outputs[0] = ValueInfo(y, inputs[0].dtype);
}

LayoutChoice ReduceOp::layouts(Infos inputs, Infos outputs) const {
  return follow_input(inputs, outputs);
}

std::unique_ptr<Plan> ReduceOp::plan(Infos inputs, Infos outputs, PackCache&) const {
  const ValueInfo &x = inputs[0], &y = outputs[0];
  const auto axes = memory_axes(x, y, reduced_axes(inputs), keepdims);
  const auto op = kernel_of(kind);
  const bool kernel = op && x.dtype == DType::kF32 && x.shape.numel() > 0;
  if (kernel && keeps_order(axes))
    if (auto plan = direct_plan(*op, merged(axes))) return plan;
  // The general case: copied so that each result's elements lie together.
  std::vector<CopyAxis> copy;
  int64_t cols = 1;
  for (const MemoryAxis& a : axes)
    if (a.reduced) cols *= a.size;
  int64_t step = cols;
  for (const MemoryAxis& a : axes) {
    if (a.reduced) {
      step /= std::max<int64_t>(a.size, 1);
      copy.push_back({a.size, a.src, step});
    } else {
      copy.push_back({a.size, a.src, a.dst * cols});
    }
  }
  const int64_t rows = y.shape.numel();
  return make_plan(
      [copy = StridedCopy(std::move(copy), size_of(x.dtype)), rows, cols, op, kernel, kind = kind,
       type = x.dtype](Views in, Views out, void* workspace) {
        copy.run(in[0].data, workspace);
        if (kernel)
          return cpu::reduce_cols(*op, static_cast<const float*>(workspace), cols, rows, cols,
                                  out[0].as<float>());
        scalar::dispatch(type, [&](auto zero) {
          using T = decltype(zero);
          for (int64_t r = 0; r < rows; ++r)
            out[0].as<T>()[r] = reduce_row(kind, static_cast<const T*>(workspace) + r * cols, cols);
        });
      },
      static_cast<size_t>(x.shape.numel()) * size_of(x.dtype));
}

// ---- ArgMax, ArgMin

std::string ArgExtremeOp::describe() const { return cat(type(), " axis=", axis); }

void ArgExtremeOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  Shape y = inputs[0].shape;
  const int a = y.axis(axis);
  require(y[a] > 0, "ArgMax and ArgMin need a non-empty axis");
  if (keepdims)
    y[a] = 1;
  else
    y.erase(a);
  outputs[0] = ValueInfo(y, DType::kI64);
}

std::unique_ptr<Plan> ArgExtremeOp::plan(Infos inputs, Infos, PackCache&) const {
  const Shape& x = inputs[0].shape;
  const int a = x.axis(axis);
  const int64_t outer = x.count(0, a), n = x[a], inner = x.count(a + 1, x.rank());
  return make_plan([=, type = inputs[0].dtype, max = max, last = select_last_index](
                       Views in, Views out, void*) {
    scalar::dispatch(type, [&](auto zero) {
      using T = decltype(zero);
      const auto* p = in[0].as<const T>();
      auto* to = out[0].as<int64_t>();
      parallel_for(outer * inner, std::max<int64_t>(1, 16384 / n), [&](int64_t from, int64_t end) {
        for (int64_t i = from; i < end; ++i) {
          const T* row = p + i / inner * n * inner + i % inner;
          int64_t best = 0;
          for (int64_t k = 1; k < n; ++k) {
            const T v = row[k * inner], b = row[best * inner];
            if (max ? v > b || (last && v == b) : v < b || (last && v == b)) best = k;
          }
          to[i] = best;
        }
      });
    });
  });
}

// ---- TopK

std::string TopKOp::describe() const { return cat("TopK axis=", axis, " largest=", largest); }

void TopKOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  const auto k = constant_ints(inputs, 1, "TopK's k");
  Shape y = inputs[0].shape;
  const int a = y.axis(axis);
  require(k.size() == 1 && k[0] >= 0 && k[0] <= y[a], "TopK: k is outside the axis");
  y[a] = k[0];
  outputs[0] = ValueInfo(y, inputs[0].dtype);
  if (outputs.size() > 1) outputs[1] = ValueInfo(y, DType::kI64);
}

std::unique_ptr<Plan> TopKOp::plan(Infos inputs, Infos outputs, PackCache&) const {
  const Shape& x = inputs[0].shape;
  const int a = x.axis(axis);
  const int64_t outer = x.count(0, a), n = x[a], inner = x.count(a + 1, x.rank());
  const int64_t k = outputs[0].shape[a];
  return make_plan(
      [=, type = inputs[0].dtype, largest = largest](Views in, Views out, void* workspace) {
        auto* order = static_cast<int64_t*>(workspace);
        scalar::dispatch(type, [&](auto zero) {
          using T = decltype(zero);
          for (int64_t i = 0; i < outer * inner; ++i) {
            const T* row = in[0].as<const T>() + i / inner * n * inner + i % inner;
            for (int64_t j = 0; j < n; ++j) order[j] = j;
            std::partial_sort(order, order + k, order + n, [&](int64_t p, int64_t q) {
              const T vp = row[p * inner], vq = row[q * inner];
              if (vp == vq) return p < q;
              return largest ? vp > vq : vp < vq;
            });
            for (int64_t j = 0; j < k; ++j) {
              const int64_t to = (i / inner * k + j) * inner + i % inner;
              out[0].as<T>()[to] = row[order[j] * inner];
              if (out.size() > 1 && out[1].data) out[1].as<int64_t>()[to] = order[j];
            }
          }
        });
      },
      static_cast<size_t>(n) * sizeof(int64_t));
}

// ---- CumSum

std::string CumSumOp::describe() const {
  return cat("CumSum exclusive=", exclusive, " reverse=", reverse);
}

void CumSumOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  const auto axis = constant_ints(inputs, 1, "CumSum's axis");
  require(axis.size() == 1, "CumSum: the axis is one number");
  inputs[0].shape.axis(axis[0]);
  outputs[0] = ValueInfo(inputs[0].shape, inputs[0].dtype);
}

std::unique_ptr<Plan> CumSumOp::plan(Infos inputs, Infos, PackCache&) const {
  const Shape& x = inputs[0].shape;
  const int a = x.axis(constant_ints(inputs, 1, "CumSum's axis")[0]);
  const int64_t outer = x.count(0, a), n = x[a], inner = x.count(a + 1, x.rank());
  return make_plan([=, type = inputs[0].dtype, exclusive = exclusive, reverse = reverse](
                       Views in, Views out, void*) {
    scalar::dispatch(type, [&](auto zero) {
      using T = decltype(zero);
      for (int64_t i = 0; i < outer * inner; ++i) {
        const int64_t at = i / inner * n * inner + i % inner;
        T sum = T(0);
        for (int64_t s = 0; s < n; ++s) {
          const int64_t k = at + (reverse ? n - 1 - s : s) * inner;
          const T next = scalar::add(sum, in[0].as<const T>()[k]);
          out[0].as<T>()[k] = exclusive ? sum : next;
          sum = next;
        }
      }
    });
  });
}

}  // namespace train
