#include "libtrain/amp/autocast.h"

#include <algorithm>
#include <array>
#include <bit>

#include "libtrain/autograd/gradient.h"
#include "libtrain/cpu/isa.h"

namespace train {
namespace amp {
namespace {

constexpr int64_t kGrain = 8192;  // elements

constexpr std::array<std::string_view, 10> kProducts{
    "Conv", "ConvTranspose", "MatMul", "Gemm",      "Linear",
    "LSTM", "LstmTrain",     "RNN",    "Attention", "MultiHeadAttention"};

bool has(const std::vector<std::string>& list, std::string_view op) {
  return std::ranges::find(list, op) != list.end();
}

// f32_to_f16 and back, without branches, so that the compiler can take several at once.
inline float round_to_f16(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x), magnitude = u & 0x7fffffffu;
  // Normal numbers: to 10 bits of mantissa, ties to even. From 65520 on the next one is infinity.
  uint32_t normal = (magnitude + 0xfff + (magnitude >> 13 & 1)) & ~0x1fffu;
  normal = normal >= 0x47800000u ? 0x7f800000u : normal;
  // Below 2^-14 they are multiples of 2^-24, the spacing of f32 at 0.5.
  const float tiny = (std::bit_cast<float>(magnitude) + .5f) - .5f;
  uint32_t rounded = magnitude < 0x38800000u ? std::bit_cast<uint32_t>(tiny) : normal;
  rounded = magnitude > 0x7f800000u ? 0x7fc00000u : rounded;  // NaN
  return std::bit_cast<float>(rounded | (u & 0x80000000u));
}

class Round16Gradient final : public Gradient {
 public:
  explicit Round16Gradient(DType dtype)
      : Gradient({}), round_(std::make_shared<Round16Op>(dtype)) {}
  void run(GradContext& c) const override { c.set(0, c.eager().run(round_, {c.grad()})); }

 private:
  std::shared_ptr<const Op> round_;
};

}  // namespace

std::string Round16Op::describe() const { return cat("Round16 ", name_of(dtype)); }

void Round16Op::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  require(inputs[0].dtype == DType::kF32, "rounds f32 only");
  outputs[0] = ValueInfo(inputs[0].shape, DType::kF32);
}

LayoutChoice Round16Op::layouts(Infos inputs, Infos) const {
  return {{inputs[0].layout}, {inputs[0].layout}};
}

std::unique_ptr<Plan> Round16Op::plan(Infos inputs, Infos, PackCache&) const {
  const int64_t n = inputs[0].shape.numel();
  return make_plan([n, half = dtype == DType::kF16](Views in, Views out, void*) {
    const float* x = in[0].as<float>();
    float* y = out[0].as<float>();
    parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
      if (half)
        for (int64_t i = begin; i < end; ++i) y[i] = round_to_f16(x[i]);
      else
        for (int64_t i = begin; i < end; ++i) y[i] = bf16_to_f32(f32_to_bf16(x[i]));
    });
  });
}

Autocast::Autocast(const AutocastOptions& options)
    : options_(options), round_(std::make_shared<Round16Op>(options.dtype)) {
  if (options.dtype != DType::kF16 && options.dtype != DType::kBF16)
    throw ConfigError("", 0, 0, cat("amp_dtype must be f16 or bf16, not ", name_of(options.dtype)));
  for (const std::string& op : options.white_list)
    if (has(options.black_list, op))
      throw ConfigError("", 0, 0, "amp: " + op + " is on the black list and on the white list");
}

bool Autocast::lowers(std::string_view op) const {
  if (has(options_.black_list, op)) return false;
  return std::ranges::find(kProducts, op) != kProducts.end() || has(options_.white_list, op);
}

bool Autocast::multiplies_bf16() const {
  return options_.dtype == DType::kBF16 && !options_.round_only && cpu::has_bf16();
}

bool Autocast::named(std::string_view op) const { return has(options_.white_list, op); }

}  // namespace amp

std::shared_ptr<const Gradient> round16_gradient(const Op& op) {
  return std::make_shared<amp::Round16Gradient>(dynamic_cast<const amp::Round16Op&>(op).dtype);
}

}  // namespace train
