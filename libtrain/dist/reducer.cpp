#include "libtrain/dist/reducer.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace train::dist {
namespace {

using Clock = std::chrono::steady_clock;

// Adds the time of its life.
struct Timed {
  explicit Timed(double& seconds) : seconds(seconds) {}
  ~Timed() { seconds += std::chrono::duration<double>(Clock::now() - begin).count(); }
  double& seconds;
  Clock::time_point begin = Clock::now();
};

}  // namespace

GradientReducer::GradientReducer(Communicator& communicator,
                                 std::span<const nn::Parameter> parameters, size_t bucket_bytes)
    : communicator_(communicator), final_(parameters.size()) {
  for (const nn::Parameter& p : parameters) parameters_.push_back(p);
  bucket_of_.assign(parameters_.size(), 0);
  size_t bytes = bucket_bytes;  // full: the first parameter opens a bucket
  for (size_t i = parameters_.size(); i-- > 0;) {
    if (!parameters_[i].variable.requires_grad()) continue;
    const size_t size = parameters_[i].variable.value().bytes();
    if (buckets_.empty() || bytes + size > bucket_bytes) {
      buckets_.emplace_back();
      bytes = 0;
    }
    Bucket& bucket = buckets_.back();
    bucket_of_[i] = buckets_.size() - 1;
    bucket.members.push_back(i);
    bucket.offsets.push_back(static_cast<int64_t>(bytes / sizeof(float)));
    bytes += size;
    bucket.data.resize(bytes / sizeof(float));
  }
}

void GradientReducer::attach(Tape& tape) {
  next_ = 0;
  overlapped_ = 0;
  final_.assign(parameters_.size(), false);
  for (Bucket& b : buckets_) b.missing = b.members.size();
  std::vector<Variable> leaves;
  for (const nn::Parameter& p : parameters_) leaves.push_back(p.variable);
  tape.watch(std::move(leaves), [this](int64_t leaf) {
    const Timed timed(seconds_);
    if (leaf >= 0) ready(static_cast<size_t>(leaf));
    start_ready();
    for (size_t b = 0; b < next_; ++b)
      if (buckets_[b].request) buckets_[b].request->poll();
  });
}

void GradientReducer::ready(size_t parameter) {
  if (final_[parameter] || !parameters_[parameter].variable.requires_grad()) return;
  final_[parameter] = true;
  --buckets_[bucket_of_[parameter]].missing;
}

void GradientReducer::start_ready() {
  while (next_ < buckets_.size() && buckets_[next_].missing == 0) start(buckets_[next_++]);
}

void GradientReducer::start(Bucket& bucket) {
  for (size_t m = 0; m < bucket.members.size(); ++m) {
    const Variable& v = parameters_[bucket.members[m]].variable;
    float* to = bucket.data.data() + bucket.offsets[m];
    const auto n = static_cast<size_t>(v.value().numel());
    if (v.grad().defined())
      std::memcpy(to, v.grad().data<float>(), n * sizeof(float));
    else
      std::fill_n(to, n, 0.f);
  }
  bucket.request = communicator_.start_all_reduce(bucket.data);
}

double GradientReducer::take_seconds() { return std::exchange(seconds_, 0); }

void GradientReducer::finish() {
  const Timed timed(seconds_);
  for (size_t b = 0; b < next_; ++b) overlapped_ += buckets_[b].request->poll();
  while (next_ < buckets_.size()) start(buckets_[next_++]);
  const float factor = 1.f / static_cast<float>(communicator_.size());
  for (Bucket& bucket : buckets_) {
    bucket.request->wait();
    bucket.request.reset();
    for (size_t m = 0; m < bucket.members.size(); ++m) {
      Variable& v = parameters_[bucket.members[m]].variable;
      if (!v.grad().defined()) v.set_grad(Tensor::zeros(v.shape()));
      const float* from = bucket.data.data() + bucket.offsets[m];
      float* to = v.writable_grad().data<float>();
      for (int64_t i = 0; i < v.value().numel(); ++i) to[i] = from[i] * factor;
    }
  }
}

void broadcast_parameters(Communicator& communicator, std::span<nn::Parameter> parameters) {
  for (nn::Parameter& p : parameters) {
    Tensor& t = p.variable.writable();
    communicator.broadcast({static_cast<char*>(t.raw()), t.bytes()});
  }
}

}  // namespace train::dist
