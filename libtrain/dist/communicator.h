// Communicator: the few collective operations that data-parallel training needs.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace train::dist {

/// One rank's end of a group. Every rank calls the same operations in the same order. Called by one
/// thread per rank. Sums are added in an order that depends on the number of ranks alone, so that
/// all ranks get the same bits and a run repeats. When a rank fails or does not answer in time, the
/// others throw DeviceError saying so instead of waiting for ever.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// An all-reduce under way. poll() moves it on without waiting; wait() ends it. The data belongs
  /// to the operation until it has ended.
  class Request {
   public:
    virtual ~Request() = default;
    virtual bool poll() = 0;
    virtual void wait() = 0;
  };
  /// Starts the sum of `data` over the ranks, in place on all.
  virtual std::unique_ptr<Request> start_all_reduce(std::span<float> data) = 0;
  virtual void all_reduce(std::span<double> data) = 0;
  /// Rank 0's bytes to all; of equal size on all.
  virtual void broadcast(std::span<char> data) = 0;
  /// Waits until every rank is here.
  virtual void barrier() = 0;

  void all_reduce(std::span<float> data) { start_all_reduce(data)->wait(); }
  double sum(double v) {
    all_reduce(std::span<double>(&v, 1));
    return v;
  }
};

struct ThreadGroupOptions {
  double timeout_seconds = 60;
  double latency_seconds = 0;  // of every all-reduce, as a network would have: for tests
};

/// Runs `body` on `ranks` threads of this process, each with its communicator; for tests and for
/// machines without MPI. Rethrows the exception of the rank that failed first.
void run_ranks(int ranks, const std::function<void(Communicator&)>& body,
               const ThreadGroupOptions& options = {});

}  // namespace train::dist
