// Autocast: which ops of a forward pass compute from 16-bit operands, and the rounding that does
// it.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libtrain/ops/op.h"

namespace train::amp {

/// Rounds f32 to the nearest f16 or bf16 value (ties to even; f16 overflows to infinity) and keeps
/// it as f32. Its gradient is rounded likewise, as gradients that flow in 16 bits are.
class Round16Op final : public Op {
 public:
  explicit Round16Op(DType dtype) : dtype(dtype) {}
  std::string_view type() const override { return "Round16"; }
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  LayoutChoice layouts(Infos inputs, Infos outputs) const override;
  bool may_overwrite(int i) const override { return i == 0; }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  DType dtype;
};

struct AutocastOptions {
  DType dtype = DType::kBF16;                // kF16 or kBF16
  std::vector<std::string> black_list = {};  // op types that stay in f32 besides the usual ones
  std::vector<std::string> white_list = {};  // op types that take 16-bit operands besides the usual
  bool round_only = false;  // rounds around f32 ops even where the CPU multiplies bf16
};

/// The policy of mixed precision (Micikevicius et al. 2018): products (convolution, matrix product,
/// recurrence, attention) take and give 16-bit values and sum in f32; everything else, above all
/// statistics, softmax and losses, works in f32. Weights stay f32 and are rounded where they are
/// used: they are their own master copies, and updates smaller than a 16-bit step are not lost.
///
/// Values stay in f32 memory. In bf16, where cpu::has_bf16(), products whose kernels multiply bf16
/// (Op::in_bf16) run so, and so do their gradients: factors are rounded as they are read, sums,
/// biases and results are f32; products without such kernels (attention, depthwise convolutions)
/// are f32 throughout. Else operands, results and gradients are rounded around f32 ops: what 16-bit
/// training computes without its speed, and the reference for the kernels. An op that is on neither
/// list, an addition say, gives full f32 where 16-bit training would round once more.
class Autocast {
 public:
  /// Throws ConfigError on a dtype that is not of 16 bits, or an op on both lists.
  explicit Autocast(const AutocastOptions& options);
  /// True when the op's f32 operands and results are rounded.
  bool lowers(std::string_view op) const;
  /// True when products multiply bf16 instead of rounding around f32 ops.
  bool multiplies_bf16() const;
  /// True when the user named the op: it is rounded wherever no kernel multiplies bf16.
  bool named(std::string_view op) const;
  const std::shared_ptr<const Op>& round() const { return round_; }
  DType dtype() const { return options_.dtype; }

 private:
  AutocastOptions options_;
  std::shared_ptr<const Op> round_;
};

}  // namespace train::amp
