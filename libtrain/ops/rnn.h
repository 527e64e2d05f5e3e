// Recurrent layers: RNN, GRU and LSTM in ONNX's definitions, one or both directions.
#pragma once
#include <array>

#include "libtrain/cpu/activation.h"
#include "libtrain/ops/op.h"

namespace train {

enum class RnnCell : uint8_t { kRnn, kGru, kLstm };
enum class RnnDirection : uint8_t { kForward, kReverse, kBidirectional };

/// Inputs, D directions, G = 1, 3, 4 gates: x [T, N, I], w [D, G H, I], r [D, G H, H], b [D, 2 G H]
/// (optional), sequence_lens i32 [N] (optional), initial_h [D, N, H] (optional); LSTM also
/// initial_c [D, N, H] and p [D, 3 H] (optional). Outputs, each of which may be unused: y [T, D, N,
/// H], y_h and, for LSTM, y_c [D, N, H]. With batch_first x is [N, T, I], y [N, T, D, H] and the
/// states [N, D, H]. Gates: LSTM i o f c, GRU z r h. Past a sequence's length y is 0.
class RnnOp final : public Op {
 public:
  RnnOp(RnnCell cell, RnnDirection direction, int64_t hidden, bool batch_first = false)
      : cell(cell), direction(direction), hidden(hidden), batch_first(batch_first) {}
  std::string_view type() const override;
  std::string describe() const override;
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override;
  double flops(Infos inputs, Infos outputs) const override;
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache& packs) const override;

  int64_t directions() const { return direction == RnnDirection::kBidirectional ? 2 : 1; }
  int64_t gates() const { return cell == RnnCell::kRnn ? 1 : cell == RnnCell::kGru ? 3 : 4; }

  RnnCell cell;
  RnnDirection direction;
  int64_t hidden;
  bool batch_first;
  bool linear_before_reset = false;  // GRU: the reset gate acts on the product, bias included
  float clip = 0;                    // bound of what enters the functions; 0 = none
  /// f, g and h of each direction: LSTM's gates, cell and output; GRU's gates and state; RNN's
  /// state.
  std::array<std::array<cpu::Activation, 3>, 2> activations{};
};

}  // namespace train
