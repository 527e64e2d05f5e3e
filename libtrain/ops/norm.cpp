#include "libtrain/cpu/norm.h"

#include <cmath>
#include <vector>

#include "libtrain/cpu/elementwise.h"
#include "libtrain/cpu/softmax.h"
#include "libtrain/ops/common.h"
#include "libtrain/ops/nn.h"

namespace train {
namespace {

// Softmax along an axis that is not the last: one strided column at a time.
void softmax_strided(const float* x, float* y, int64_t outer, int64_t n, int64_t inner, bool log) {
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      const float* p = x + o * n * inner + i;
      float* q = y + o * n * inner + i;
      float top = p[0];
      for (int64_t j = 1; j < n; ++j) top = std::max(top, p[j * inner]);
      double sum = 0;
      for (int64_t j = 0; j < n; ++j) sum += std::exp(static_cast<double>(p[j * inner]) - top);
      const double log_sum = std::log(sum);
      for (int64_t j = 0; j < n; ++j) {
        const double v = static_cast<double>(p[j * inner]) - top - log_sum;
        q[j * inner] = static_cast<float>(log ? v : std::exp(v));
      }
    }
}

}  // namespace

std::string SoftmaxOp::describe() const { return cat(type(), " axis ", axis); }

void SoftmaxOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  require_f32(inputs[0]);
  (void)inputs[0].shape.axis(axis);
  outputs[0] = ValueInfo(inputs[0].shape, DType::kF32);
}

std::unique_ptr<Plan> SoftmaxOp::plan(Infos inputs, Infos, PackCache&) const {
  const Shape& s = inputs[0].shape;
  const int a = s.axis(axis);
  const int64_t outer = s.count(0, a), n = s[a], inner = s.count(a + 1, s.rank());
  return make_plan([=, log = log](Views in, Views out, void*) {
    const auto* x = in[0].as<float>();
    auto* y = out[0].as<float>();
    if (outer * n * inner == 0) return;
    if (inner > 1) return softmax_strided(x, y, outer, n, inner, log);
    (log ? cpu::log_softmax : cpu::softmax)(x, n, y, n, outer, n);
  });
}

void BatchNormOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  require_f32(inputs[0]);
  require(inputs[0].shape.rank() >= 2, "BatchNormalization needs an input of rank 2 or more");
  for (size_t i = 1; i < 5; ++i) {
    require_f32(inputs[i]);
    if (inputs[i].shape.numel() != inputs[0].shape[1])
      throw ShapeError(cat("parameter of shape ", inputs[i].shape.str(), " for ",
                           inputs[0].shape[1], " channels"));
  }
  outputs[0] = ValueInfo(inputs[0].shape, DType::kF32);
}

LayoutChoice BatchNormOp::layouts(Infos inputs, Infos outputs) const {
  return inputs[0].shape.rank() == 4 ? image_layouts(inputs, outputs)
                                     : Op::layouts(inputs, outputs);
}

std::unique_ptr<Plan> BatchNormOp::plan(Infos inputs, Infos outputs, PackCache&) const {
  const Shape& s = inputs[0].shape;
  const int64_t channels = s[1], inner = outputs[0].channels_last() ? 1 : s.count(2, s.rank());
  const int64_t rows = s.numel() / std::max<int64_t>(1, channels * inner);
  return make_plan(
      [channels, inner, rows, eps = epsilon](Views in, Views out, void* ws) {
        auto *scale = static_cast<float*>(ws), *bias = scale + channels;
        for (int64_t c = 0; c < channels; ++c) {
          const double f =
              in[1].as<float>()[c] / std::sqrt(static_cast<double>(in[4].as<float>()[c]) + eps);
          scale[c] = static_cast<float>(f);
          bias[c] = static_cast<float>(in[2].as<float>()[c] - in[3].as<float>()[c] * f);
        }
        const auto* x = in[0].as<float>();
        auto* y = out[0].as<float>();
        if (inner == 1)
          return cpu::affine(x, channels, scale, bias, {}, y, channels, rows, channels);
        for (int64_t r = 0; r < rows * channels; ++r)
          for (int64_t i = 0; i < inner; ++i)
            y[r * inner + i] = x[r * inner + i] * scale[r % channels] + bias[r % channels];
      },
      static_cast<size_t>(2 * channels) * sizeof(float));
}

std::string LayerNormOp::describe() const {
  return cat("LayerNormalization axis ", axis, " eps ", epsilon);
}

void LayerNormOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  require_f32(inputs[0]);
  require(outputs.size() == 1, "only the first output is supported");
  const Shape& s = inputs[0].shape;
  const int64_t cols = s.count(s.axis(axis), s.rank());
  for (size_t i = 1; i < 3; ++i)
    if (has_input(inputs, i) && inputs[i].shape.numel() != cols)
      throw ShapeError(
          cat("parameter of shape ", inputs[i].shape.str(), " for ", cols, " elements"));
  outputs[0] = ValueInfo(s, DType::kF32);
}

std::unique_ptr<Plan> LayerNormOp::plan(Infos inputs, Infos, PackCache&) const {
  const Shape& s = inputs[0].shape;
  const int64_t rows = s.count(0, s.axis(axis)), cols = s.count(s.axis(axis), s.rank());
  return make_plan([rows, cols, eps = epsilon](Views in, Views out, void*) {
    cpu::layer_norm(in[0].as<float>(), cols, in.size() > 1 ? in[1].as<float>() : nullptr,
                    in.size() > 2 ? in[2].as<float>() : nullptr, eps, out[0].as<float>(), cols,
                    rows, cols);
  });
}

void GroupNormOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  require_f32(inputs[0]);
  const Shape& s = inputs[0].shape;
  require(s.rank() >= 3, "needs an input of rank 3 or more");
  require(num_groups == 0 || (num_groups > 0 && s[1] % num_groups == 0),
          "channels must be a multiple of num_groups");
  for (size_t i = 1; i < inputs.size(); ++i)
    if (inputs[i].present && inputs[i].shape.numel() != s[1])
      throw ShapeError(
          cat("parameter of shape ", inputs[i].shape.str(), " for ", s[1], " channels"));
  outputs[0] = ValueInfo(s, DType::kF32);
}

std::unique_ptr<Plan> GroupNormOp::plan(Infos inputs, Infos, PackCache&) const {
  const Shape& s = inputs[0].shape;
  const int64_t n = s[0], c = s[1], inner = s.count(2, s.rank());
  const int64_t groups = num_groups ? num_groups : c, per_group = groups ? c / groups * inner : 0;
  return make_plan([=, eps = epsilon](Views in, Views out, void*) {
    const auto* scale = in.size() > 1 ? in[1].as<float>() : nullptr;
    const auto* bias = in.size() > 2 ? in[2].as<float>() : nullptr;
    parallel_for(n * groups, 1, [&](int64_t begin, int64_t end) {
      for (int64_t g = begin; g < end; ++g) {
        const float* x = in[0].as<float>() + g * per_group;
        float* y = out[0].as<float>() + g * per_group;
        double sum = 0, square = 0;
        for (int64_t i = 0; i < per_group; ++i) sum += x[i];
        const double mean = sum / static_cast<double>(per_group);
        for (int64_t i = 0; i < per_group; ++i) square += (x[i] - mean) * (x[i] - mean);
        const double inverse = 1 / std::sqrt(square / static_cast<double>(per_group) + eps);
        for (int64_t i = 0; i < per_group; ++i) {
          const int64_t channel = (g % groups) * (c / groups) + i / inner;
          const double v = (x[i] - mean) * inverse;
          y[i] =
              static_cast<float>(v * (scale ? scale[channel] : 1.f) + (bias ? bias[channel] : 0.f));
        }
      }
    });
  });
}

}  // namespace train
