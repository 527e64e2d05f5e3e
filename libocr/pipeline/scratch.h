// What one thread needs to read pages: the nets' arena, an input buffer, a pool. Internal.
#pragma once
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

  /// Room for a dense channels-last input [n, 3, h, w]; the last one's contents are lost.
  train::Feed input(int64_t n, int64_t h, int64_t w) {
    const train::Shape shape{n, 3, h, w};
    const size_t bytes = static_cast<size_t>(shape.numel()) * sizeof(float);
    if (!input_ || input_->bytes() < bytes) {
      input_.reset();  // freed before the larger one is taken
      input_ = std::make_shared<train::Storage>(bytes);
    }
    return {train::Tensor(input_, 0, shape, train::DType::kF32), train::Layout::kChannelsLast};
  }

  /// Runs a net on one input and returns its first output, valid until the next run.
  const train::Tensor& run(const train::Net& net, const train::Feed& feed) {
    net.run(context_, std::span(&feed, 1), outputs_);
    return outputs_.at(0);
  }

 private:
  train::ThreadPool pool_;
  train::Context context_;
  std::shared_ptr<train::Storage> input_;
  std::vector<train::Tensor> outputs_;
};

}  // namespace ocr
