// Gradients of the ops that move data: views, transposes, concatenations, slices, paddings.
#include <algorithm>
#include <cstring>

#include "libtrain/autograd/gradient.h"
#include "libtrain/autograd/simple_op.h"
#include "libtrain/ops/move.h"
#include "libtrain/ops/strided.h"

namespace train {
namespace {

void clear(View v) {
  std::memset(v.data, 0, static_cast<size_t>(v.shape().numel()) * sizeof(float));
}

class ReshapeGradient final : public Gradient {
 public:
  ReshapeGradient() : Gradient({}) {}
  void run(GradContext& c) const override {
    if (!c.needs(0)) return;
    const Array dy = c.eager().to_layout(c.grad(), Layout::kLinear);
    c.set(0, Array(dy.tensor.reshaped(c.input(0).shape)));
  }
};

std::vector<int64_t> inverse(const std::vector<int64_t>& perm, int rank) {
  std::vector<int64_t> p(static_cast<size_t>(rank));
  for (int i = 0; i < rank; ++i) {
    const int64_t from = perm.empty() ? rank - 1 - i : perm[i] < 0 ? perm[i] + rank : perm[i];
    p[from] = i;
  }
  return p;
}

class TransposeGradient final : public Gradient {
 public:
  explicit TransposeGradient(const TransposeOp& op)
      : Gradient({}),
        back_(std::make_shared<TransposeOp>(
            op.perm.empty() ? op.perm : inverse(op.perm, static_cast<int>(op.perm.size())))) {}
  void run(GradContext& c) const override { c.set(0, c.eager().run(back_, {c.grad()})); }

 private:
  std::shared_ptr<const Op> back_;
};

// Inputs: dy, then every x (its shape alone is read) -> the part of dy that each x became.
std::shared_ptr<const Op> concat_grad_op(int64_t axis) {
  return make_op(
      "ConcatGrad", OpLayout::kFollow,
      [](Infos in, std::span<ValueInfo> out) {
        for (size_t i = 0; i < out.size(); ++i) out[i] = ValueInfo(in[i + 1].shape, DType::kF32);
      },
      [axis](Infos in, Infos out) {
        struct Part {
          StridedCopy copy;
          int64_t offset;
        };
        std::vector<Part> parts;
        const auto src = strides_of(in[0]);
        const int a = in[0].shape.axis(axis);
        int64_t at = 0;
        for (const ValueInfo& v : out) {
          const auto dst = strides_of(v);
          std::vector<CopyAxis> axes;
          for (int i = 0; i < v.shape.rank(); ++i) axes.push_back({v.shape[i], src[i], dst[i]});
          parts.push_back({StridedCopy(std::move(axes), sizeof(float)), at * src[a]});
          at += v.shape[a];
        }
        return make_plan([parts = std::move(parts)](Views in, Views out, void*) {
          for (size_t i = 0; i < parts.size(); ++i)
            parts[i].copy.run(in[0].as<float>() + parts[i].offset, out[i].data);
        });
      });
}

class ConcatGradient final : public Gradient {
 public:
  explicit ConcatGradient(const ConcatOp& op) : Gradient({}), grad_(concat_grad_op(op.axis)) {}
  void run(GradContext& c) const override {
    std::vector<Array> inputs{c.grad()};
    for (size_t i = 0; i < c.inputs(); ++i) inputs.push_back(c.input(i));
    const auto parts = c.eager().run(grad_, inputs, c.inputs());
    for (size_t i = 0; i < parts.size(); ++i)
      if (c.needs(i)) c.set(i, parts[i]);
  }

 private:
  std::shared_ptr<const Op> grad_;
};

// The parts side by side again; a part that nothing flowed to is 0.
class SplitGradient final : public Gradient {
 public:
  explicit SplitGradient(const SplitOp& op)
      : Gradient({}), concat_(std::make_shared<ConcatOp>(op.axis)) {}
  void run(GradContext& c) const override {
    if (!c.needs(0)) return;
    std::vector<Array> parts;
    for (size_t i = 0; i < c.outputs(); ++i)
      parts.push_back(c.has_grad(i) ? c.grad(i) : Array(Tensor::zeros(c.output(i).shape)));
    c.set(0, c.eager().run(concat_, parts, 1)[0]);
  }

 private:
  std::shared_ptr<const Op> concat_;
};

// dx = 0 but for the places [begin, ...] that dy came from. Inputs: x (shape alone), the constants
// of Slice up to index 4, dy.
std::shared_ptr<const Op> slice_grad_op() {
  return make_op("SliceGrad", OpLayout::kFollow, shape_of_input(0), [](Infos in, Infos out) {
    const auto src = strides_of(in[5]), dst = strides_of(out[0]);
    const auto ranges = slice_ranges(in);
    std::vector<CopyAxis> axes;
    int64_t offset = 0;
    for (size_t i = 0; i < ranges.size(); ++i) {
      if (ranges[i].size > 0) offset += ranges[i].begin * dst[i];
      axes.push_back({ranges[i].size, src[i], dst[i] * ranges[i].step});
    }
    return make_plan(
        [copy = StridedCopy(std::move(axes), sizeof(float)), offset](Views in, Views out, void*) {
          clear(out[0]);
          copy.run(in[5].data, out[0].as<float>() + offset);
        });
  });
}

class SliceGradient final : public Gradient {
 public:
  SliceGradient() : Gradient({.inputs = 0b11110}), grad_(slice_grad_op()) {}
  void run(GradContext& c) const override {
    std::vector<Array> inputs(6);
    for (size_t i = 0; i < c.inputs(); ++i) inputs[i] = c.input(i);
    inputs[0] = inputs[0].without_data();
    inputs[0].layout = c.grad().layout;
    inputs[5] = c.grad();
    c.set(0, c.eager().run(grad_, inputs, 1)[0]);
  }

 private:
  std::shared_ptr<const Op> grad_;
};

// Crops dy. Inputs: dy, pads, axes (optional), x (shape alone).
std::shared_ptr<const Op> pad_grad_op() {
  return make_op("PadGrad", OpLayout::kFollow, shape_of_input(3), [](Infos in, Infos out) {
    const auto pads = constant_ints(in, 1, "Pad's pads");
    const int rank = in[0].shape.rank();
    std::vector<int64_t> named, begin(static_cast<size_t>(rank), 0);
    if (has_input(in, 2)) named = constant_ints(in, 2, "Pad's axes");
    for (size_t i = 0; i < pads.size(); ++i)
      require(pads[i] >= 0, "a Pad that crops has no gradient");
    for (size_t i = 0; i < pads.size() / 2; ++i)
      begin[named.empty() ? static_cast<int>(i) : in[0].shape.axis(named[i])] = pads[i];
    const auto src = strides_of(in[0]), dst = strides_of(out[0]);
    std::vector<CopyAxis> axes;
    int64_t offset = 0;
    for (int i = 0; i < rank; ++i) {
      offset += begin[i] * src[i];
      axes.push_back({out[0].shape[i], src[i], dst[i]});
    }
    return make_plan(
        [copy = StridedCopy(std::move(axes), sizeof(float)), offset](Views in, Views out, void*) {
          copy.run(in[0].as<float>() + offset, out[0].data);
        });
  });
}

class PadGradient final : public Gradient {
 public:
  PadGradient() : Gradient({.inputs = 0b1010}), grad_(pad_grad_op()) {}
  void run(GradContext& c) const override {
    const Array axes = c.inputs() > 3 ? c.input(3) : Array();
    c.set(0, c.eager().run(grad_, {c.grad(), c.input(1), axes, c.input(0).without_data()}));
  }

 private:
  std::shared_ptr<const Op> grad_;
};

}  // namespace

std::shared_ptr<const Gradient> reshape_gradient(const Op&) {
  return std::make_shared<ReshapeGradient>();
}
std::shared_ptr<const Gradient> transpose_gradient(const Op& op) {
  return std::make_shared<TransposeGradient>(dynamic_cast<const TransposeOp&>(op));
}
std::shared_ptr<const Gradient> concat_gradient(const Op& op) {
  return std::make_shared<ConcatGradient>(dynamic_cast<const ConcatOp&>(op));
}
std::shared_ptr<const Gradient> split_gradient(const Op& op) {
  return std::make_shared<SplitGradient>(dynamic_cast<const SplitOp&>(op));
}
std::shared_ptr<const Gradient> slice_gradient(const Op&) {
  return std::make_shared<SliceGradient>();
}
std::shared_ptr<const Gradient> pad_gradient(const Op& op) {
  if (dynamic_cast<const PadOp&>(op).mode != PadMode::kConstant)
    throw Error("Pad has a gradient in constant mode only");
  return std::make_shared<PadGradient>();
}
}  // namespace train
