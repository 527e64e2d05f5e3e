// Batch normalisation in training: its forward pass, and the gradients of both forms.
#include <cmath>
#include <vector>

#include "libtrain/autograd/batch_norm.h"
#include "libtrain/autograd/gradient.h"
#include "libtrain/autograd/kernels.h"
#include "libtrain/autograd/simple_op.h"
#include "libtrain/cpu/elementwise.h"
#include "libtrain/ops/common.h"
#include "libtrain/ops/nn.h"

namespace train {
namespace {

// Mean and centred square sum of blocks of rows, each exact to f32, joined in double.
struct BlockStatistics {
  int64_t rows, cols;

  int64_t blocks() const { return row_blocks(rows); }
  int64_t floats() const { return 2 * blocks() * cols; }
  int64_t rows_of(int64_t b) const { return std::min(kBlockRows, rows - b * kBlockRows); }
  void run(const float* x, float* means, float* squares) const {
    const cpu::GradTable& t = grad_kernels();
    for_row_blocks(rows, cols, [&](int64_t b, int64_t r0, int64_t r1) {
      t.block_moments(x + r0 * cols, r1 - r0, cols, means + b * cols, squares + b * cols);
    });
  }
};

// count, sums [C], square sums about zero [C] of this rank; over all ranks after `sync`.
void global_moments(const BlockStatistics& s, const float* means, const float* squares,
                    BatchSync* sync, std::vector<double>& mean, std::vector<double>& var) {
  const int64_t blocks = s.blocks();
  mean.assign(static_cast<size_t>(s.cols), 0);
  var.assign(static_cast<size_t>(s.cols), 0);
  const double count = static_cast<double>(s.rows);
  parallel_for(s.cols, std::max<int64_t>(16, 4096 / std::max<int64_t>(blocks, 1)),
               [&](int64_t c0, int64_t c1) {
                 for (int64_t c = c0; c < c1; ++c) {
                   double sum = 0, square = 0;
                   for (int64_t b = 0; b < blocks; ++b)
                     sum += double{means[b * s.cols + c]} * static_cast<double>(s.rows_of(b));
                   const double m = sum / count;
                   for (int64_t b = 0; b < blocks; ++b) {
                     const double d = means[b * s.cols + c] - m;
                     square += squares[b * s.cols + c] + d * d * static_cast<double>(s.rows_of(b));
                   }
                   mean[c] = m;
                   var[c] = square / count;
                 }
               });
  if (!sync) return;
  std::vector<double> all(static_cast<size_t>(2 * s.cols + 1));
  all.back() = count;
  for (int64_t c = 0; c < s.cols; ++c) {
    all[c] = count * mean[c];
    all[s.cols + c] = count * (var[c] + mean[c] * mean[c]);
  }
  sync->sum(all);
  for (int64_t c = 0; c < s.cols; ++c) {
    mean[c] = all[c] / all.back();
    var[c] = std::max(0., all[s.cols + c] / all.back() - mean[c] * mean[c]);
  }
}

struct GradShape {
  int64_t rows, cols;
  bool batch_statistics;  // the mean and variance depend on x
};

// Inputs: x, dy, mean, inv, scale, bias -> dx, dscale, dbias.
std::unique_ptr<Plan> norm_grad_plan(const GradShape& s, const cpu::Activation& act,
                                     const std::shared_ptr<BatchSync>& sync) {
  const int64_t blocks = row_blocks(s.rows);
  return make_plan(
      [s, act, sync, blocks](Views in, Views out, void* workspace) {
        const cpu::GradTable& t = grad_kernels();
        const cpu::NormGradArgs g{in[0].as<float>(),
                                  in[1].as<float>(),
                                  in[2].as<float>(),
                                  in[3].as<float>(),
                                  in[4].as<float>(),
                                  in[5].as<float>(),
                                  act,
                                  s.cols};
        auto *dz = static_cast<float*>(workspace), *dzx = dz + blocks * s.cols;
        for_row_blocks(s.rows, s.cols, [&](int64_t b, int64_t r0, int64_t r1) {
          t.norm_grad_sums(g, r0, r1, dz + b * s.cols, dzx + b * s.cols);
        });
        auto *dscale = out[1].as<float>(), *dbias = out[2].as<float>();
        add_blocks(dz, blocks, s.cols, dbias);
        add_blocks(dzx, blocks, s.cols, dscale);
        auto *mean_dz = dz, *mean_dzx = dz + s.cols;  // the blocks' sums are no longer needed
        std::vector<double> sums(static_cast<size_t>(2 * s.cols + 1), 0);
        if (s.batch_statistics) {
          for (int64_t c = 0; c < s.cols; ++c) {
            sums[c] = dbias[c];
            sums[s.cols + c] = dscale[c];
          }
          sums.back() = static_cast<double>(s.rows);
          if (sync) sync->sum(sums);
        } else {
          sums.back() = 1;
        }
        for (int64_t c = 0; c < s.cols; ++c) {
          mean_dz[c] = static_cast<float>(sums[c] / sums.back());
          mean_dzx[c] = static_cast<float>(sums[s.cols + c] / sums.back());
        }
        for_row_blocks(s.rows, s.cols, [&](int64_t, int64_t r0, int64_t r1) {
          t.norm_grad_apply(g, mean_dz, mean_dzx, r0, r1, out[0].as<float>());
        });
      },
      static_cast<size_t>(2 * std::max<int64_t>(blocks, 1) * s.cols) * sizeof(float));
}

std::shared_ptr<const Op> norm_grad_op(bool batch_statistics, const cpu::Activation& act,
                                       const std::shared_ptr<BatchSync>& sync) {
  return make_op(
      "BatchNormGrad", OpLayout::kImages,
      [](Infos in, std::span<ValueInfo> out) {
        out[0] = ValueInfo(in[0].shape, DType::kF32);
        out[1] = out[2] = ValueInfo(Shape{in[0].shape[1]}, DType::kF32);
      },
      [=](Infos in, Infos) {
        const Shape& x = in[0].shape;
        return norm_grad_plan({x[0] * x[2] * x[3], x[1], batch_statistics}, act, sync);
      });
}

void set_norm_grads(GradContext& c, const std::vector<Array>& d) {
  for (size_t i = 0; i < 3; ++i)
    if (c.needs(i)) c.set(i, d[i]);
}

class BatchNormTrainGradient final : public Gradient {
 public:
  explicit BatchNormTrainGradient(const BatchNormTrainOp& op)
      : Gradient({.inputs = 0b111, .outputs = 0b110}), grad_(norm_grad_op(true, op.act, op.sync)) {}
  void run(GradContext& c) const override {
    const std::array inputs{c.input(0), c.grad(), c.output(1), c.output(2), c.input(1), c.input(2)};
    set_norm_grads(c, c.eager().run(grad_, inputs, 3));
  }

 private:
  std::shared_ptr<const Op> grad_;
};

// With fixed statistics (a frozen or evaluating layer).
class BatchNormGradient final : public Gradient {
 public:
  explicit BatchNormGradient(const BatchNormOp& op)
      : Gradient({.inputs = 0b11111}),
        epsilon_(op.epsilon),
        grad_(norm_grad_op(false, {}, nullptr)) {}
  void run(GradContext& c) const override {
    require_rank(c.input(0).info(), 4);
    const Tensor& var = c.input(4).tensor;
    Tensor inv(var.shape());
    for (int64_t i = 0; i < var.numel(); ++i)
      inv.data<float>()[i] =
          static_cast<float>(1 / std::sqrt(double{var.data<float>()[i]} + epsilon_));
    const std::array inputs{c.input(0), c.grad(), c.input(3), Array(inv), c.input(1), c.input(2)};
    set_norm_grads(c, c.eager().run(grad_, inputs, 3));
  }

 private:
  float epsilon_;
  std::shared_ptr<const Op> grad_;
};

}  // namespace

void BatchNormTrainOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  require_rank(inputs[0], 4);
  for (const ValueInfo& v : inputs) require_f32(v);
  const Shape& x = inputs[0].shape;
  require(x.numel() > 0, "an empty batch has no statistics");
  require(inputs[1].shape == Shape{x[1]} && inputs[2].shape == Shape{x[1]},
          "scale and bias need one value per channel");
  require(outputs.size() == 4, "the op has four outputs");
  outputs[0] = ValueInfo(x, DType::kF32);
  for (int i = 1; i < 4; ++i) outputs[i] = ValueInfo(Shape{x[1]}, DType::kF32);
}

LayoutChoice BatchNormTrainOp::layouts(Infos inputs, Infos outputs) const {
  return image_layouts(inputs, outputs);
}

std::unique_ptr<Plan> BatchNormTrainOp::plan(Infos inputs, Infos, PackCache&) const {
  const Shape& s = inputs[0].shape;
  const BlockStatistics stats{s[0] * s[2] * s[3], s[1]};
  return make_plan(
      [stats, act = act, eps = double{epsilon}, sync = sync](Views in, Views out, void* workspace) {
        auto* means = static_cast<float*>(workspace);
        const int64_t c = stats.cols;
        stats.run(in[0].as<float>(), means, means + stats.blocks() * c);
        std::vector<double> mean, var;
        global_moments(stats, means, means + stats.blocks() * c, sync.get(), mean, var);
        float *factor = means, *offset = means + c;  // y = x factor + offset
        for (int64_t i = 0; i < c; ++i) {
          const double inv = 1 / std::sqrt(var[i] + eps), f = in[1].as<float>()[i] * inv;
          out[1].as<float>()[i] = static_cast<float>(mean[i]);
          out[2].as<float>()[i] = static_cast<float>(inv);
          out[3].as<float>()[i] = static_cast<float>(var[i]);
          factor[i] = static_cast<float>(f);
          offset[i] = static_cast<float>(in[2].as<float>()[i] - mean[i] * f);
        }
        cpu::affine(in[0].as<float>(), c, factor, offset, act, out[0].as<float>(), c, stats.rows,
                    c);
      },
      static_cast<size_t>(stats.floats()) * sizeof(float));
}

std::shared_ptr<const Gradient> batch_norm_train_gradient(const Op& op) {
  return std::make_shared<BatchNormTrainGradient>(dynamic_cast<const BatchNormTrainOp&>(op));
}
std::shared_ptr<const Gradient> batch_norm_gradient(const Op& op) {
  return std::make_shared<BatchNormGradient>(dynamic_cast<const BatchNormOp&>(op));
}

}  // namespace train
