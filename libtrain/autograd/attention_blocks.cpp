#include "libtrain/autograd/attention_blocks.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace train {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();
using Range = std::pair<int64_t, int64_t>;  // empty where first >= second

// Runs of keys that each query sees.
std::vector<std::vector<Range>> visible_runs(int64_t tq, int64_t tk, const float* mask) {
  std::vector<std::vector<Range>> runs(static_cast<size_t>(tq));
  for (int64_t q = 0; q < tq; ++q, mask += tk)
    for (int64_t k = 0; k < tk; ++k) {
      if (mask[k] == kHidden) continue;
      const int64_t begin = k;
      while (k < tk && mask[k] != kHidden) ++k;
      runs[static_cast<size_t>(q)].emplace_back(begin, k);
    }
  return runs;
}

// The width of the grid that the first query's runs look like, or 1.
int64_t grid_width(const std::vector<Range>& runs, int64_t tokens) {
  if (runs.size() < 2) return 1;
  const int64_t width = runs[1].first - runs[0].first;
  return tokens % width == 0 ? width : 1;
}

// Tokens of a grid, down its columns.
std::vector<int64_t> by_columns(int64_t tokens, int64_t width) {
  std::vector<int64_t> order;
  for (int64_t x = 0; x < width; ++x)
    for (int64_t t = x; t < tokens; t += width) order.push_back(t);
  return order;
}

// The blocks' ranges with tokens in `order` (empty: as they are).
std::vector<AttentionBlocks::Block> ranges_of(const std::vector<std::vector<Range>>& runs,
                                              const std::vector<int64_t>& order, int64_t tk) {
  std::vector<int64_t> place(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    place[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  std::vector<AttentionBlocks::Block> blocks;
  const auto tq = static_cast<int64_t>(runs.size());
  for (int64_t q0 = 0; q0 < tq; q0 += AttentionBlocks::kRows) {
    AttentionBlocks::Block b{q0, std::min(tq, q0 + AttentionBlocks::kRows), tk, 0, -1};
    for (int64_t q = b.q0; q < b.q1; ++q)
      for (const auto& [begin, end] :
           runs[static_cast<size_t>(order.empty() ? q : order[static_cast<size_t>(q)])]) {
        if (order.empty())
          b.k0 = std::min(b.k0, begin), b.k1 = std::max(b.k1, end);
        else
          for (int64_t k = begin; k < end; ++k) {
            b.k0 = std::min(b.k0, place[static_cast<size_t>(k)]);
            b.k1 = std::max(b.k1, place[static_cast<size_t>(k)] + 1);
          }
      }
    if (b.k0 >= b.k1) b.k0 = b.k1 = 0;
    blocks.push_back(b);
  }
  return blocks;
}

int64_t scores_of(const std::vector<AttentionBlocks::Block>& blocks) {
  int64_t n = 0;
  for (const auto& b : blocks) n += (b.q1 - b.q0) * (b.k1 - b.k0);
  return n;
}

}  // namespace

AttentionBlocks::AttentionBlocks(int64_t tq, int64_t tk, const float* mask) {
  if (!mask) {
    for (int64_t q = 0; q < tq; q += kRows)
      blocks.push_back({q, std::min(tq, q + kRows), 0, tk, -1});
    return;
  }
  const auto runs = visible_runs(tq, tk, mask);
  blocks = ranges_of(runs, {}, tk);
  if (const int64_t width = tq == tk && tq > 0 ? grid_width(runs[0], tk) : 1; width > 1) {
    std::vector<int64_t> columns = by_columns(tk, width);
    auto other = ranges_of(runs, columns, tk);
    if (scores_of(other) < scores_of(blocks)) {
      blocks = std::move(other);
      order = std::move(columns);
    }
  }
  masks.reserve(static_cast<size_t>(scores_of(blocks)));
  for (Block& b : blocks) {
    const size_t at = masks.size();
    for (int64_t q = b.q0; q < b.q1; ++q)
      for (int64_t k = b.k0; k < b.k1; ++k) masks.push_back(mask[token(q) * tk + token(k)]);
    if (std::all_of(masks.begin() + static_cast<int64_t>(at), masks.end(),
                    [](float m) { return m == 0; }))
      masks.resize(at);
    else
      b.mask = static_cast<int64_t>(at);
  }
}

}  // namespace train
