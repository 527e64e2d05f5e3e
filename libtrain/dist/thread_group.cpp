// Ranks as threads: every operation is a numbered round to which each rank brings its data.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "libtrain/core/error.h"
#include "libtrain/dist/communicator.h"

namespace train::dist {
namespace {

using Clock = std::chrono::steady_clock;

// One operation of the whole group.
struct Round {
  std::vector<std::span<char>> data;  // by rank
  std::string what;                   // operation and size: equal on all ranks
  std::vector<bool> here;             // by rank
  int arrived = 0, left = 0;
  bool done = false;
  Clock::time_point ready;  // when a network would have delivered it
};

class Group {
 public:
  Group(int ranks, const ThreadGroupOptions& options) : ranks_(ranks), options_(options) {}

  // Joins round `number`; the last to come computes it.
  template <class Compute>
  void join(int64_t number, int rank, std::span<char> data, const std::string& what,
            Compute&& compute) {
    const std::lock_guard lock(mutex_);
    check_failed();
    Round& round = rounds_[number];
    if (round.data.empty()) {
      round.data.resize(static_cast<size_t>(ranks_));
      round.here.resize(static_cast<size_t>(ranks_));
      round.what = what;
    }
    if (round.what != what)
      fail_locked(cat("rank ", rank, " called ", what, " while another called ", round.what));
    round.data[static_cast<size_t>(rank)] = data;
    round.here[static_cast<size_t>(rank)] = true;
    if (++round.arrived < ranks_) return;
    compute(round.data);
    round.done = true;
    round.ready = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                     std::chrono::duration<double>(options_.latency_seconds));
    changed_.notify_all();
  }

  bool poll(int64_t number) {
    const std::lock_guard lock(mutex_);
    const Round& round = rounds_[number];
    if (!round.done) check_failed();
    return round.done && Clock::now() >= round.ready;
  }

  void wait(int64_t number, int rank) {
    std::unique_lock lock(mutex_);
    const auto timeout = std::chrono::duration<double>(options_.timeout_seconds);
    changed_.wait_for(lock, timeout, [&] { return !failure_.empty() || rounds_[number].done; });
    Round& round = rounds_[number];
    if (!round.done) check_failed();  // what was complete before the failure counts
    if (!round.done)
      fail_locked(cat("rank ", rank, " waited ", options_.timeout_seconds, " s in ", round.what,
                      " for", missing(round)));
    const auto ready = round.ready;
    if (++round.left == ranks_) rounds_.erase(number);
    lock.unlock();
    std::this_thread::sleep_until(ready);
  }

  void fail(const std::string& message) {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = message;
    changed_.notify_all();
  }
  int ranks() const { return ranks_; }

 private:
  void check_failed() const {
    if (!failure_.empty()) throw DeviceError(failure_);
  }
  static std::string missing(const Round& round) {
    std::string names;
    for (size_t r = 0; r < round.here.size(); ++r)
      if (!round.here[r]) names += cat(names.empty() ? " rank " : ", rank ", r);
    return names;
  }
  [[noreturn]] void fail_locked(const std::string& message) {
    if (failure_.empty()) failure_ = message;
    changed_.notify_all();
    throw DeviceError(message);
  }

  const int ranks_;
  const ThreadGroupOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int64_t, Round> rounds_;
  std::string failure_;
};

// Adds in the order of ranks and gives everybody the sum.
template <class T>
void sum_up(std::span<const std::span<char>> data) {
  const auto at = [](std::span<char> bytes) { return reinterpret_cast<T*>(bytes.data()); };
  const size_t n = data[0].size() / sizeof(T);
  T* const total = at(data[0]);
  for (size_t r = 1; r < data.size(); ++r)
    for (size_t i = 0; i < n; ++i) total[i] += at(data[r])[i];
  for (size_t r = 1; r < data.size(); ++r) std::memcpy(at(data[r]), total, n * sizeof(T));
}

void copy_first(std::span<const std::span<char>> data) {
  for (size_t r = 1; r < data.size(); ++r) std::ranges::copy(data[0], data[r].begin());
}

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(Group& group, int rank) : group_(group), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return group_.ranks(); }

  std::unique_ptr<Request> start_all_reduce(std::span<float> data) override {
    return std::make_unique<Pending>(group_, enter(data, "all_reduce(f32)", sum_up<float>), rank_);
  }
  void all_reduce(std::span<double> data) override {
    group_.wait(enter(data, "all_reduce(f64)", sum_up<double>), rank_);
  }
  void broadcast(std::span<char> data) override {
    group_.wait(enter(data, "broadcast", copy_first), rank_);
  }
  void barrier() override {
    group_.wait(enter(std::span<char>(), "barrier", [](auto) {}), rank_);
  }

 private:
  struct Pending final : Request {
    Pending(Group& group, int64_t number, int rank) : group(group), number(number), rank(rank) {}
    bool poll() override { return done || group.poll(number); }
    void wait() override {
      if (!done) group.wait(number, rank);
      done = true;
    }
    Group& group;
    int64_t number;
    int rank;
    bool done = false;
  };

  template <class T, class Compute>
  int64_t enter(std::span<T> data, const char* what, Compute compute) {
    const std::span<char> bytes(reinterpret_cast<char*>(data.data()), data.size_bytes());
    group_.join(next_, rank_, bytes, cat(what, " of ", data.size(), " elements"), compute);
    return next_++;
  }

  Group& group_;
  const int rank_;
  int64_t next_ = 0;
};

}  // namespace

void run_ranks(int ranks, const std::function<void(Communicator&)>& body,
               const ThreadGroupOptions& options) {
  if (ranks < 1) throw ConfigError("", 0, 0, cat("the number of ranks must be positive: ", ranks));
  Group group(ranks, options);
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      ThreadCommunicator communicator(group, rank);
      try {
        body(communicator);
      } catch (const std::exception& e) {
        {
          const std::lock_guard lock(mutex);
          if (!first) first = std::current_exception();
        }
        group.fail(cat("rank ", rank, " failed: ", e.what()));
      }
    });
  for (std::thread& t : threads) t.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace train::dist
