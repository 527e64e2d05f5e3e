#include "libtrain/ops/best.h"

#include <cmath>

#include "libtrain/cpu/softmax.h"
#include "libtrain/ops/common.h"

namespace train {

void SoftmaxBestOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  require_f32(inputs[0]);
  Shape s = inputs[0].shape;
  require(s.rank() >= 1 && s.dim(-1) > 0, "needs at least one class");
  if (extra_class >= s.dim(-1)) throw ShapeError(cat("class ", extra_class, " of ", s.dim(-1)));
  s[s.rank() - 1] = 3;
  outputs[0] = ValueInfo(s, DType::kF32);
}

std::unique_ptr<Plan> SoftmaxBestOp::plan(Infos inputs, Infos, PackCache&) const {
  const Shape& s = inputs[0].shape;
  const int64_t cols = s.dim(-1), rows = s.numel() / cols;
  // Workspace: an index and a probability per row.
  return make_plan(
      [cols, rows, extra = extra_class](Views in, Views out, void* ws) {
        auto* index = static_cast<int32_t*>(ws);
        auto* prob = reinterpret_cast<float*>(index + rows);
        const auto* x = in[0].as<float>();
        cpu::softmax_argmax(x, cols, rows, cols, index, prob);
        for (int64_t r = 0; r < rows; ++r) {
          float* y = out[0].as<float>() + 3 * r;
          const float* row = x + r * cols;
          y[0] = static_cast<float>(index[r]);
          y[1] = prob[r];
          // The best class has probability 1 / sum exp(x - max): the other follows from it.
          y[2] = extra < 0 ? 0.f : prob[r] * std::exp(row[extra] - row[index[r]]);
        }
      },
      static_cast<size_t>(rows) * 8);
}

}  // namespace train
