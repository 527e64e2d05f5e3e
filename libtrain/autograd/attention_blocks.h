// Which keys the queries of attention see: blocks of queries with a range of keys each.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace train {

/// Queries in blocks of a few, each with the smallest range of keys that holds all that a mask lets
/// them see. Where the tokens are a grid and a query sees a window of it, that range is short in
/// the order down the grid's columns but not along its rows: the order is part of the result, found
/// in the mask alone.
struct AttentionBlocks {
  struct Block {
    int64_t q0, q1, k0, k1;  // places of queries and keys
    int64_t mask;            // offset of [q1 - q0, k1 - k0] in masks; -1: all 0
  };
  static constexpr int64_t kRows = 24;  // queries of a block: their scores stay in the caches

  std::vector<int64_t> order;  // the token at each place, of queries and keys; empty: as they are
  std::vector<Block> blocks;
  std::vector<float> masks;

  /// `mask`: [tq, tk], added to the scores, -inf hides; null: every query sees every key.
  AttentionBlocks(int64_t tq, int64_t tk, const float* mask);

  /// The token at a place.
  int64_t token(int64_t place) const {
    return order.empty() ? place : order[static_cast<size_t>(place)];
  }
};

}  // namespace train
