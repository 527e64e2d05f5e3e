// Embedding: rows of a trainable table.
#pragma once
#include "libtrain/ops/op.h"

namespace train {

/// Inputs: table [count, C], indices i64 of any shape -> [indices..., C]. An index equal to
/// `padding` (if >= 0) gives zeros. Running it throws Error on an index outside the table.
class EmbeddingOp final : public Op {
 public:
  explicit EmbeddingOp(int64_t padding = -1) : padding(padding) {}
  std::string_view type() const override { return "Embedding"; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  int64_t padding;
};

}  // namespace train
