// Batch normalisation with the statistics of the batch, fused with the activation behind it.
#pragma once
#include "libtrain/cpu/activation.h"
#include "libtrain/ops/op.h"

namespace train {

/// Adds numbers up over the ranks of a data-parallel run, for statistics of the global batch.
class BatchSync {
 public:
  virtual ~BatchSync() = default;
  /// values[i] = the sum over ranks, added in rank order: the same bits on every rank.
  virtual void sum(std::span<double> values) = 0;
};

/// y = act((x - mean) / sqrt(var + eps) scale + bias), mean and (biased) variance over N, H and W.
/// Inputs: x [N, C, H, W], scale [C], bias [C]. Outputs: y, mean [C], 1 / sqrt(var + eps) [C], var
/// [C]. The gradient reads x and computes the activation's input again: neither that nor y is kept.
class BatchNormTrainOp final : public Op {
 public:
  explicit BatchNormTrainOp(float epsilon = 1e-5f, const cpu::Activation& act = {},
                            std::shared_ptr<BatchSync> sync = nullptr)
      : epsilon(epsilon), act(act), sync(std::move(sync)) {}
  std::string_view type() const override { return "BatchNormTrain"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  LayoutChoice layouts(Infos inputs, Infos outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  float epsilon;
  cpu::Activation act;
  std::shared_ptr<BatchSync> sync;  // null: this batch alone
};

}  // namespace train
