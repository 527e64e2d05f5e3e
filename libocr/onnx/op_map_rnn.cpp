// Rows of the operator table: recurrent layers.
#include <cmath>

#include "libocr/onnx/op_map.h"
#include "libtrain/ops/rnn.h"

namespace ocr {
namespace {

using namespace train;  // NOLINT: the table speaks of little else
using cpu::Act;
using cpu::Activation;

Activation activation_named(const NodeBuilder& b, const std::string& name) {
  if (name == "Sigmoid") return {Act::kSigmoid, 0, 0};
  if (name == "Tanh") return {Act::kTanh, 0, 0};
  if (name == "Relu") return {Act::kRelu, 0, 0};
  if (name == "Softsign") return {Act::kSoftsign, 0, 0};
  if (name == "Softplus") return {Act::kSoftplus, 0, 0};
  if (name == "HardSigmoid") return {Act::kHardSigmoid, .2f, .5f};
  b.fail("activation '" + name.substr(0, 40) + "' is not supported");
}

template <RnnCell kCell>
void recurrent(NodeBuilder& b) {
  const std::string how = b.attr_string("direction", "forward");
  RnnDirection direction = RnnDirection::kForward;
  if (how == "reverse")
    direction = RnnDirection::kReverse;
  else if (how == "bidirectional")
    direction = RnnDirection::kBidirectional;
  else if (how != "forward")
    b.fail("direction '" + how.substr(0, 40) + "' is unknown");
  int64_t hidden = b.attr_int("hidden_size", 0);
  if (hidden == 0 && b.rank(b.in(2)) == 3) hidden = b.fixed_dim(b.in(2), 2);
  auto op = std::make_shared<RnnOp>(kCell, direction, hidden, b.attr_int("layout", 0) != 0);
  op->clip = b.attr_float("clip", 0);
  if (!(op->clip >= 0)) b.fail("attribute 'clip' is negative");
  op->linear_before_reset = b.attr_int("linear_before_reset", 0) != 0;
  if (b.attr_int("input_forget", 0) != 0) b.fail("input_forget is not supported");
  if (b.has_attr("activation_alpha") || b.has_attr("activation_beta"))
    b.fail("activation_alpha and activation_beta are not supported");
  constexpr size_t count = kCell == RnnCell::kRnn ? 1 : kCell == RnnCell::kGru ? 2 : 3;
  auto names = b.attr_strings("activations");
  const auto directions = static_cast<size_t>(op->directions());
  if (names.empty()) {
    for (size_t d = 0; d < directions; ++d)
      for (size_t i = 0; i < count; ++i)
        names.push_back(kCell != RnnCell::kRnn && i == 0 ? "Sigmoid" : "Tanh");
  }
  if (names.size() != count * directions) b.fail("attribute 'activations' has the wrong length");
  for (size_t i = 0; i < names.size(); ++i)
    op->activations[i / count][i % count] = activation_named(b, names[i]);
  std::vector<ValueId> inputs = b.all_inputs(), outputs = b.all_outputs();
  inputs.resize(std::min<size_t>(inputs.size(), kCell == RnnCell::kLstm ? 8 : 6));
  for (int i = 0; i < 3; ++i) b.in(i);
  b.add(std::move(op), std::move(inputs), std::move(outputs));
}

}  // namespace

std::vector<OpRow> rnn_rows() {
  return {{"RNN", 7, recurrent<RnnCell::kRnn>},
          {"GRU", 7, recurrent<RnnCell::kGru>},
          {"LSTM", 7, recurrent<RnnCell::kLstm>}};
}

}  // namespace ocr
