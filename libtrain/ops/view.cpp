// The views: ops whose output is their input's bytes under another shape.
#include <algorithm>
#include <cstring>

#include "libtrain/ops/move.h"

namespace train {
namespace {

// Axes counted from the end where negative, sorted; throws on a repeated one.
std::vector<int64_t> checked_axes(std::vector<int64_t> axes, int rank, const char* op) {
  for (int64_t& a : axes) {
    if (a < -rank || a >= rank)
      throw ShapeError(cat(op, ": axis ", a, " is outside a shape of rank ", rank));
    if (a < 0) a += rank;
  }
  std::ranges::sort(axes);
  if (std::ranges::adjacent_find(axes) != axes.end())
    throw ShapeError(cat(op, ": an axis is named twice"));
  return axes;
}

}  // namespace

std::unique_ptr<Plan> ViewOp::plan(Infos, Infos outputs, PackCache&) const {
  const size_t bytes = static_cast<size_t>(outputs[0].shape.numel()) * size_of(outputs[0].dtype);
  return make_plan([bytes](Views in, Views out, void*) {
    if (in[0].data != out[0].data && bytes) std::memcpy(out[0].data, in[0].data, bytes);
  });
}

void IdentityOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  outputs[0] = ValueInfo(inputs[0].shape, inputs[0].dtype);
}

void ReshapeOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  const Shape& x = inputs[0].shape;
  const std::vector<int64_t> wanted = constant_ints(inputs, 1, "Reshape's shape");
  const auto fail = [&] {
    return ShapeError(cat("Reshape: ", x.str(), " does not fit the shape ", Shape(wanted).str()));
  };
  Shape y;
  int free = -1;
  for (size_t i = 0; i < wanted.size(); ++i) {
    int64_t d = wanted[i];
    if (d == 0 && !allow_zero) {
      if (static_cast<int>(i) >= x.rank()) throw fail();
      d = x[static_cast<int>(i)];
    } else if (d == -1) {
      if (free >= 0) throw fail();
      free = static_cast<int>(i);
      d = 1;
    } else if (d < 0) {
      throw fail();
    }
    y.push_back(d);
  }
  if (free >= 0) {
    const int64_t rest = y.numel();
    if (rest == 0 ? x.numel() != 0 : x.numel() % rest != 0) throw fail();
    y[free] = rest == 0 ? 0 : x.numel() / rest;
  }
  if (y.numel() != x.numel()) throw fail();
  outputs[0] = ValueInfo(y, inputs[0].dtype);
}

std::string FlattenOp::describe() const { return cat("Flatten axis=", axis); }

void FlattenOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  const Shape& x = inputs[0].shape;
  if (axis < -x.rank() || axis > x.rank())
    throw ShapeError(cat("Flatten: axis ", axis, " is outside a shape of rank ", x.rank()));
  const int at = static_cast<int>(axis < 0 ? axis + x.rank() : axis);
  outputs[0] = ValueInfo(Shape{x.count(0, at), x.count(at, x.rank())}, inputs[0].dtype);
}

void SqueezeOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  Shape y = inputs[0].shape;
  std::vector<int64_t> axes;
  if (has_input(inputs, 1)) {
    axes = checked_axes(constant_ints(inputs, 1, "Squeeze's axes"), y.rank(), "Squeeze");
  } else {
    for (int i = 0; i < y.rank(); ++i)
      if (y[i] == 1) axes.push_back(i);
  }
  for (size_t k = axes.size(); k-- > 0;) {
    const int a = static_cast<int>(axes[k]);
    if (y[a] != 1)
      throw ShapeError(cat("Squeeze: axis ", a, " of ", inputs[0].shape.str(), " is not 1"));
    y.erase(a);
  }
  outputs[0] = ValueInfo(y, inputs[0].dtype);
}

void UnsqueezeOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  Shape y = inputs[0].shape;
  const std::vector<int64_t> given = constant_ints(inputs, 1, "Unsqueeze's axes");
  if (y.rank() + given.size() > Shape::kMaxRank)
    throw ShapeError(cat("tensors have at most ", Shape::kMaxRank, " dimensions"));
  const int rank = y.rank() + static_cast<int>(given.size());
  for (int64_t a : checked_axes(given, rank, "Unsqueeze")) y.insert(static_cast<int>(a), 1);
  outputs[0] = ValueInfo(y, inputs[0].dtype);
}

}  // namespace train
