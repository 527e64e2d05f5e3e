#include "libtrain/data/loader.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "libtrain/core/error.h"
#include "libtrain/core/thread_pool.h"

namespace train::data {

// A batch that is being read. What a worker writes, it writes to places of its own.
struct DataLoader::Slot {
  BatchPlan plan;
  int64_t epoch = 0, number = 0;
  std::vector<Sample> samples;
  std::vector<std::string> failures;  // one per sample, empty where it is good
  std::vector<std::string> broken;    // the same for what is no fault of the sample
  std::exception_ptr fatal;           // of making the batch
  std::vector<Tensor> fields;
  size_t taken = 0, done = 0;  // samples
  bool ready = false;
};

struct DataLoader::Impl {
  std::mutex mutex;
  std::condition_variable work, ready;
  std::deque<std::shared_ptr<Slot>> window;  // batches [position_, ...) in order
  std::vector<std::thread> workers;
  bool stop = false;
};

DataLoader::DataLoader(const Dataset& dataset, const BatchSampler& sampler,
                       const LoaderOptions& options)
    : dataset_(dataset), sampler_(sampler), options_(options) {
  if (options.workers < 0 || options.workers > 1024 || options.prefetch < 1)
    throw ConfigError("", 0, 0,
                      cat("a data loader needs 0 to 1024 workers and a prefetch of 1 or "
                          "more, not ",
                          options.workers, " and ", options.prefetch));
  if (options.workers == 0) return;
  impl_ = std::make_unique<Impl>();
  for (int w = 0; w < options.workers; ++w)
    impl_->workers.emplace_back([this] {
      flush_denormals();
      Impl& s = *impl_;
      std::unique_lock lock(s.mutex);
      for (;;) {
        std::shared_ptr<Slot> slot;
        s.work.wait(lock, [&] {
          if (s.stop) return true;
          const auto open = std::ranges::find_if(s.window, [](const auto& candidate) {
            return candidate->taken < candidate->samples.size();
          });
          if (open == s.window.end()) return false;
          slot = *open;
          return true;
        });
        if (s.stop) return;
        const size_t i = slot->taken++;
        lock.unlock();
        read(*slot, i);
        lock.lock();
        if (++slot->done < slot->samples.size()) continue;
        lock.unlock();
        finish(*slot);
        lock.lock();
        slot->ready = true;
        s.ready.notify_one();
      }
    });
}

DataLoader::~DataLoader() {
  if (!impl_) return;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stop = true;
  }
  impl_->work.notify_all();
  for (std::thread& t : impl_->workers) t.join();
}

void DataLoader::start(int64_t epoch, int64_t first_batch) {
  if (impl_) {  // a worker may still read for the old window: nobody will look at it
    const std::lock_guard lock(impl_->mutex);
    impl_->window.clear();
  }
  plans_ = sampler_.epoch(epoch);
  epoch_ = epoch;
  if (first_batch < 0 || first_batch > batches())
    throw Error(cat("batch ", first_batch, " of an epoch of ", batches(), " batches"));
  position_ = first_batch;
}

int64_t DataLoader::batches() const { return static_cast<int64_t>(plans_.size()); }

std::shared_ptr<DataLoader::Slot> DataLoader::make_slot(int64_t number) const {
  auto slot = std::make_shared<Slot>();
  slot->plan = plans_[static_cast<size_t>(number)];
  slot->epoch = epoch_;
  slot->number = number;
  slot->samples.resize(slot->plan.indices.size());
  slot->failures.resize(slot->samples.size());
  slot->broken.resize(slot->samples.size());
  slot->ready = slot->samples.empty();
  return slot;
}

void DataLoader::read(Slot& slot, size_t i) const try {
  const int64_t index = slot.plan.indices[i];
  slot.samples[i] =
      dataset_.get({index, slot.epoch, sample_random(options_.seed, slot.epoch, index),
                    slot.plan.height, slot.plan.width});
} catch (const Error& e) {
  slot.failures[i] = *e.what() ? e.what() : "unknown error";
} catch (const std::exception& e) {  // out of memory, a bug
  slot.broken[i] = *e.what() ? e.what() : "unknown error";
}

void DataLoader::finish(Slot& slot) const try {
  std::vector<Sample> good;
  for (size_t i = 0; i < slot.samples.size(); ++i)
    if (slot.failures[i].empty() && slot.broken[i].empty())
      good.push_back(std::move(slot.samples[i]));
  if (!good.empty()) slot.fields = dataset_.collate(good);
} catch (...) {
  slot.fatal = std::current_exception();
}

void DataLoader::note_bad(int64_t index, std::string reason) {
  if (!bad_indices_.insert(index).second) return;  // known from an earlier epoch
  BadSample bad{dataset_.name(index), std::move(reason), epoch_};
  if (bad.reason.starts_with(bad.name + ": ")) bad.reason.erase(0, bad.name.size() + 2);
  bad_.push_back(std::move(bad));
  const auto count = static_cast<int64_t>(bad_.size());
  if (count > options_.max_bad)
    throw DataError(
        bad_.back().name, 0,
        cat(bad_.back().reason, " (bad sample ", count, ", allowed ", options_.max_bad, ")"));
}

std::optional<Batch> DataLoader::deliver(Slot& slot) {
  Batch batch;
  for (size_t i = 0; i < slot.failures.size(); ++i) {
    const int64_t index = slot.plan.indices[i];
    if (!slot.broken[i].empty()) throw Error(dataset_.name(index) + ": " + slot.broken[i]);
    if (slot.failures[i].empty())
      batch.indices.push_back(index);
    else
      note_bad(index, slot.failures[i]);
  }
  if (slot.fatal) std::rethrow_exception(slot.fatal);
  if (batch.indices.empty()) {
    if (options_.whole)
      throw DataError(dataset_.name(slot.plan.indices.at(0)), 0,
                      cat("all samples of batch ", slot.number,
                          " of this rank are bad; other "
                          "ranks wait for it"));
    return {};
  }
  batch.fields = std::move(slot.fields);
  batch.epoch = slot.epoch;
  batch.number = slot.number;
  batch.height = slot.plan.height;
  batch.width = slot.plan.width;
  return batch;
}

std::optional<Batch> DataLoader::next() {
  while (position_ < batches()) {
    const auto begin = std::chrono::steady_clock::now();
    std::shared_ptr<Slot> slot;
    if (!impl_) {
      slot = make_slot(position_);
      for (size_t i = 0; i < slot->samples.size(); ++i) read(*slot, i);
      finish(*slot);
    } else {
      std::unique_lock lock(impl_->mutex);
      // The batch wanted and those ahead of it.
      for (auto at = static_cast<int64_t>(impl_->window.size());
           at <= options_.prefetch && position_ + at < batches(); ++at)
        impl_->window.push_back(make_slot(position_ + at));
      impl_->work.notify_all();
      slot = impl_->window.front();
      impl_->ready.wait(lock, [&] { return slot->ready; });
      impl_->window.pop_front();
    }
    wait_seconds_ +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    ++position_;
    if (auto batch = deliver(*slot)) return batch;
  }
  return {};
}

double DataLoader::take_wait_seconds() { return std::exchange(wait_seconds_, 0); }

}  // namespace train::data
