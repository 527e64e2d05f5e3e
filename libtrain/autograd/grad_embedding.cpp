// Embedding and its gradient.
#include <algorithm>

#include "libtrain/autograd/embedding.h"
#include "libtrain/autograd/gradient.h"
#include "libtrain/autograd/kernels.h"
#include "libtrain/autograd/simple_op.h"
#include "libtrain/ops/common.h"

namespace train {
namespace {

// Rows of dy added where they were read, in order; threads split the columns. Inputs: table (shape
// alone), indices, dy.
std::shared_ptr<const Op> embedding_grad_op(int64_t padding) {
  return make_op("EmbeddingGrad", OpLayout::kLinear, shape_of_input(0), [padding](Infos in, Infos) {
    const int64_t rows = in[0].shape[0], cols = in[0].shape[1], count = in[1].shape.numel();
    constexpr int64_t kColumns = 16;  // one cache line of f32
    return make_plan([=](Views in, Views out, void*) {
      auto* d = out[0].as<float>();
      const auto* index = in[1].as<int64_t>();
      parallel_for((cols + kColumns - 1) / kColumns, row_grain((rows + count) * kColumns),
                   [&](int64_t begin, int64_t end) {
                     const int64_t c0 = begin * kColumns, c1 = std::min(cols, end * kColumns);
                     for (int64_t r = 0; r < rows; ++r)
                       std::fill(d + r * cols + c0, d + r * cols + c1, 0.f);
                     for (int64_t i = 0; i < count; ++i) {
                       if (index[i] == padding) continue;
                       float* to = d + index[i] * cols;
                       const float* from = in[2].as<float>() + i * cols;
                       for (int64_t c = c0; c < c1; ++c) to[c] += from[c];
                     }
                   });
    });
  });
}

class EmbeddingGradient final : public Gradient {
 public:
  explicit EmbeddingGradient(int64_t padding)
      : Gradient({.inputs = 0b10}), grad_(embedding_grad_op(padding)) {}
  void run(GradContext& c) const override {
    c.set(0, c.eager().run(grad_, {c.input(0).without_data(), c.input(1), c.grad()}));
  }

 private:
  std::shared_ptr<const Op> grad_;
};

}  // namespace

void EmbeddingOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  require_f32(inputs[0]);
  require_rank(inputs[0], 2);
  require(inputs[1].dtype == DType::kI64, "the indices of an embedding are i64");
  Shape y = inputs[1].shape;
  y.push_back(inputs[0].shape[1]);
  outputs[0] = ValueInfo(y, DType::kF32);
}

std::unique_ptr<Plan> EmbeddingOp::plan(Infos inputs, Infos, PackCache&) const {
  const int64_t rows = inputs[0].shape[0], cols = inputs[0].shape[1];
  const int64_t count = inputs[1].shape.numel();
  return make_plan([rows, cols, count, padding = padding](Views in, Views out, void*) {
    const auto* index = in[1].as<int64_t>();
    for (int64_t i = 0; i < count; ++i)
      if (index[i] < 0 || index[i] >= rows)
        throw Error(cat("embedding: index ", index[i], " is outside the table of ", rows, " rows"));
    parallel_for(count, row_grain(cols), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        float* y = out[0].as<float>() + i * cols;
        if (index[i] == padding)
          std::fill_n(y, cols, 0.f);
        else
          std::copy_n(in[0].as<float>() + index[i] * cols, cols, y);
      }
    });
  });
}

std::shared_ptr<const Gradient> embedding_gradient(const Op& op) {
  return std::make_shared<EmbeddingGradient>(dynamic_cast<const EmbeddingOp&>(op).padding);
}

}  // namespace train
