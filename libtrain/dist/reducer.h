// GradientReducer: averages gradients over ranks while the backward pass still runs.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "libtrain/dist/communicator.h"
#include "libtrain/nn/module.h"

namespace train::dist {

/// Gradients travel in buckets of neighbouring parameters, in reverse order of the model, which is
/// about the order in which backward finishes them. The main thread starts a bucket as soon as its
/// last gradient is final and moves requests on between backward ops; there is no other thread.
/// Buckets start in one fixed order on every rank, whatever finishes first.
class GradientReducer {
 public:
  GradientReducer(Communicator& communicator, std::span<const nn::Parameter> parameters,
                  size_t bucket_bytes = size_t{4} << 20);

  /// Hooks into the tape whose backward() comes next: with gradient accumulation, that of the last
  /// part only.
  void attach(Tape& tape);
  /// After backward(): waits for all buckets and replaces every gradient by the mean over ranks. A
  /// trainable parameter that no gradient reached on this rank counts as zero.
  void finish();
  /// Buckets whose sum had arrived before finish() was called, of the last pass.
  int64_t overlapped() const { return overlapped_; }
  size_t buckets() const { return buckets_.size(); }
  /// Seconds since the last call of this that went into gathering, moving on and waiting for sums.
  double take_seconds();

 private:
  struct Bucket {
    std::vector<size_t> members;  // indices into parameters_
    std::vector<int64_t> offsets;
    std::vector<float> data;
    size_t missing = 0;
    std::unique_ptr<Communicator::Request> request;
  };
  void ready(size_t parameter);
  void start_ready();
  void start(Bucket& bucket);

  Communicator& communicator_;
  std::vector<nn::Parameter> parameters_;
  std::vector<Bucket> buckets_;
  std::vector<size_t> bucket_of_;
  std::vector<bool> final_;
  size_t next_ = 0;  // the bucket to start
  int64_t overlapped_ = 0;
  double seconds_ = 0;
};

/// Makes all ranks start from rank 0's weights.
void broadcast_parameters(Communicator& communicator, std::span<nn::Parameter> parameters);

}  // namespace train::dist
