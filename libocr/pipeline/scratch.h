// What one thread needs to read pages: the nets' arena and a pool. Internal.
#pragma once
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "libocr/pipeline/stage_dump.h"
#include "libtrain/core/thread_pool.h"
#include "libtrain/graph/net.h"

namespace ocr {

class Scratch {
 public:
  explicit Scratch(int threads) : pool_(threads) {}

  train::ThreadPool& pool() { return pool_; }
  train::Context& context() { return context_; }
  StageDump* dump = nullptr;  // null: nothing is written

  /// Room for a dense channels-last input [n, 3, h, w] of the net that runs next; what the last run
  /// gave is lost.
  train::Feed input(const train::Net& net, int64_t n, int64_t h, int64_t w) {
    outputs_.clear();  // they hold the arena: a larger one would come beside it, not in its place
    return net.input(context_, train::Shape{n, 3, h, w}, train::Layout::kChannelsLast);
  }

  /// The scratch of one of the pool's threads, for work that runs side by side, one thread each.
  /// Only that thread may use it; to be made, by make_helpers(), before the threads start.
  Scratch& helper(int thread) { return *helpers_.at(static_cast<size_t>(thread)); }
  void make_helpers() {
    while (helpers_.size() < static_cast<size_t>(pool_.threads()))
      helpers_.push_back(std::make_unique<Scratch>(1));
  }

  /// To be called after each page: memory that only an unusually large page needed goes back. What
  /// one of the last pages needed stays, so that a run of large pages does not pay for it each
  /// time.
  void end_page() {
    for (const auto& helper : helpers_) helper->end_page();
    recent_[pages_++ % recent_.size()] = context_.take_peak();
    const size_t keep = std::max(kKeep, *std::max_element(recent_.begin(), recent_.end()));
    if (context_.arena_bytes() <= keep) return;
    outputs_.clear();
    context_.shrink(keep);
  }
  /// Bytes held from page to page.
  size_t held_bytes() const {
    size_t bytes = context_.arena_bytes();
    for (const auto& helper : helpers_) bytes += helper->held_bytes();
    return bytes;
  }

  /// Runs a net on one input and returns its first output, valid until the next run.
  const train::Tensor& run(const train::Net& net, const train::Feed& feed) {
    outputs_.clear();
    net.run(context_, std::span(&feed, 1), outputs_);
    return outputs_.at(0);
  }

 private:
  static constexpr size_t kKeep = size_t{256} << 20;

  train::ThreadPool pool_;
  train::Context context_;
  std::vector<train::Tensor> outputs_;
  std::vector<std::unique_ptr<Scratch>> helpers_;
  std::array<size_t, 4> recent_{};  // the largest block that each of the last pages needed
  size_t pages_ = 0;
};

}  // namespace ocr
