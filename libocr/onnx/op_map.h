// The table of operators: (operator, since-opset) -> how its node is built.
#pragma once
#include <string_view>
#include <vector>

#include "libocr/onnx/node_builder.h"

namespace ocr {

struct OpRow {
  std::string_view op;
  int since;
  void (*build)(NodeBuilder& b);
};

// The rows by subject, each list in its own file.
std::vector<OpRow> nn_rows();    // convolutions, pools, products, norms, resizing
std::vector<OpRow> math_rows();  // element-wise functions, reductions
std::vector<OpRow> move_rows();  // data movement and shape arithmetic
std::vector<OpRow> rnn_rows();   // recurrent layers

/// The row of an operator at an opset: the newest form not newer than it. Null when there is none.
const OpRow* find_row(std::string_view op, int64_t opset);
/// All rows sorted by operator and opset.
const std::vector<OpRow>& all_rows();

}  // namespace ocr
