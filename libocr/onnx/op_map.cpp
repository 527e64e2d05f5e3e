#include "libocr/onnx/op_map.h"

#include <algorithm>
#include <tuple>

#include "libocr/onnx/import.h"

namespace ocr {

const std::vector<OpRow>& all_rows() {
  static const std::vector<OpRow> rows = [] {
    std::vector<OpRow> all;
    for (const auto& part : {nn_rows(), math_rows(), move_rows(), rnn_rows()})
      all.insert(all.end(), part.begin(), part.end());
    std::ranges::sort(all, {}, [](const OpRow& r) { return std::tuple(r.op, r.since); });
    return all;
  }();
  return rows;
}

const OpRow* find_row(std::string_view op, int64_t opset) {
  const auto& rows = all_rows();
  auto it = std::ranges::upper_bound(rows, std::tuple(op, opset), {}, [](const OpRow& r) {
    return std::tuple(r.op, static_cast<int64_t>(r.since));
  });
  if (it == rows.begin()) return nullptr;
  --it;
  return it->op == op ? &*it : nullptr;
}

std::vector<SupportedOp> supported_ops() {
  std::vector<SupportedOp> out;
  for (const OpRow& r : all_rows()) out.push_back({std::string(r.op), r.since});
  return out;
}

}  // namespace ocr
