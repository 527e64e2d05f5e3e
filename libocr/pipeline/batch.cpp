#include "libocr/pipeline/batch.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>

#include "libtrain/core/error.h"
#include "libtrain/core/thread_pool.h"

namespace ocr {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(50);  // how soon a stop is noticed while waiting

// A decoded page on its way to a worker.
struct Job {
  size_t input = 0;
  int page_count = 1;
  Page page;
};

class Batch {
 public:
  Batch(const Pipeline& pipeline, std::span<const BatchInput> inputs, const BatchOptions& options,
        const BatchEvents& events)
      : pipeline_(pipeline), inputs_(inputs), options_(options), events_(events) {
    const Options& o = pipeline.options();
    int64_t memory = parse_bytes(o.max_memory.value);
    if (memory == 0) memory = train::usable_memory() / 2;
    pixel_budget_ = std::max<int64_t>(memory / 4, 1 << 20);
    window_ = static_cast<size_t>(options.jobs) * 4 + 8;
  }

  void run() {
    const int decoders = options_.jobs > 1 ? (options_.jobs + 1) / 2 : 1;
    std::vector<std::thread> threads;
    decoding_ = decoders;
    for (int i = 0; i < decoders; ++i)
      threads.emplace_back([this] { guard([&] { decode(); }, true); });
    for (int i = 1; i < options_.jobs; ++i)
      threads.emplace_back([this] { guard([&] { work(); }, false); });
    guard([&] { work(); }, false);
    for (std::thread& t : threads) t.join();
    if (failure_) std::rethrow_exception(failure_);
    finish_partial();
  }

 private:
  struct Open {  // a document between its first page and its last
    DocumentResult result;
    int expected = -1;  // pages that will come; -1 until the decoder is through
    int done = 0;
    bool complete() const { return expected >= 0 && done == expected; }
  };

  bool stopped() const { return failed_ || (options_.stop && options_.stop->load()); }

  template <class F>
  void guard(F&& body, bool decoder) {
    try {
      body();
    } catch (...) {
      std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      failed_ = true;
    }
    std::lock_guard lock(mutex_);
    if (decoder) --decoding_;
    changed_.notify_all();
  }

  // Waits until `ready` or a stop; true when ready.
  template <class Ready>
  bool wait(std::unique_lock<std::mutex>& lock, Ready&& ready) {
    while (!ready()) {
      if (stopped()) return false;
      changed_.wait_for(lock, kPoll);
    }
    return !stopped();
  }

  void decode() {
    for (;;) {
      size_t input;
      {
        std::unique_lock lock(mutex_);
        // Not too far ahead of the document that is due: results wait in memory for their turn.
        if (!wait(lock, [&] { return next_ >= inputs_.size() || next_ < emitted_ + window_; }))
          return;
        if (next_ >= inputs_.size()) return;
        input = next_++;
        open_[input].result.path = inputs_[input].path;
      }
      decode_document(input);
      if (stopped()) return;
    }
  }

  void decode_document(size_t input) {
    int sent = 0;
    std::string error;
    try {
      const DecodeOptions d = decode_options(pipeline_.options());
      Document document = inputs_[input].bytes.empty()
                              ? open_document(inputs_[input].path, d)
                              : open_document(inputs_[input].bytes, inputs_[input].path, d);
      const std::vector<int> pages =
          parse_page_range(pipeline_.options().pages.value, document.page_count());
      if (pages.empty())
        throw train::FormatError(train::cat(inputs_[input].path, ": has ", document.page_count(),
                                            " pages, none of them in --pages ",
                                            pipeline_.options().pages.value));
      {
        std::lock_guard lock(mutex_);
        open_[input].result.page_count = document.page_count();
        if (events_.on_open) events_.on_open(input, static_cast<int>(pages.size()));
      }
      for (const int index : pages) {
        const PageInfo info = document.page_info(index);
        if (!reserve(int64_t{3} * info.width * info.height)) return;
        Page page;
        try {
          page = document.read_page(index);
        } catch (...) {
          release(int64_t{3} * info.width * info.height);
          throw;
        }
        {
          // What was reserved from the header is what was decoded, or is put right.
          std::lock_guard lock(mutex_);
          pixels_ += static_cast<int64_t>(page.image.pixels.size()) -
                     int64_t{3} * info.width * info.height;
          queue_.push_back({input, document.page_count(), std::move(page)});
          ++sent;
          changed_.notify_all();
        }
      }
    } catch (const train::Error& e) {
      error = e.what();
    } catch (const std::bad_alloc&) {
      error = inputs_[input].path + ": not enough memory to decode it";
    }
    std::lock_guard lock(mutex_);
    Open& o = open_[input];
    o.expected = sent;
    if (o.result.error.empty()) o.result.error = error;
    emit();
  }

  // Waits for room for a page's pixels. One page is always let in, however large.
  bool reserve(int64_t bytes) {
    std::unique_lock lock(mutex_);
    const size_t ahead = static_cast<size_t>(options_.jobs) + 1;
    if (!wait(lock, [&] {
          return pixels_ == 0 || (pixels_ + bytes <= pixel_budget_ && queue_.size() < ahead);
        }))
      return false;
    pixels_ += bytes;
    return true;
  }

  void release(int64_t bytes) {
    std::lock_guard lock(mutex_);
    pixels_ -= bytes;
    changed_.notify_all();
  }

  void work() {
    auto scratch = pipeline_.make_scratch(options_.threads);
    for (;;) {
      Job job;
      {
        std::unique_lock lock(mutex_);
        if (!wait(lock, [&] { return !queue_.empty() || decoding_ == 0; }) || queue_.empty())
          return;
        job = std::move(queue_.front());
        queue_.pop_front();
        changed_.notify_all();
      }
      const int64_t bytes = static_cast<int64_t>(job.page.image.pixels.size());
      try {
        read(job, *scratch);
      } catch (...) {
        job.page.image = Image();
        release(bytes);
        throw;
      }
      job.page.image = Image();
      release(bytes);
    }
  }

  void read(Job& job, Scratch& scratch) {
    PageResult result;
    std::string error;
    try {
      result = pipeline_.run(job.page.image.view(), scratch);
    } catch (const train::Error& e) {
      error = inputs_[job.input].path + ": " + e.what();
    } catch (const std::bad_alloc&) {
      error = inputs_[job.input].path + ": not enough memory to read it";
    }
    describe_page(job.page, result);
    if (error.empty() && events_.with_pixels)
      events_.with_pixels(job.input, job.page_count, job.page.image.view(), result);

    std::lock_guard lock(mutex_);
    Open& o = open_[job.input];
    ++o.done;
    if (error.empty()) {
      if (events_.on_page) events_.on_page(job.input, result);
      auto& pages = o.result.pages;
      const auto at = std::upper_bound(
          pages.begin(), pages.end(), result,
          [](const PageResult& a, const PageResult& b) { return a.index < b.index; });
      pages.insert(at, std::move(result));
    } else if (o.result.error.empty()) {
      o.result.error = error;
    }
    emit();
  }

  // Hands out finished documents in order. Under the lock.
  void emit() {
    for (auto it = open_.find(emitted_); it != open_.end() && it->second.complete();
         it = open_.find(emitted_)) {
      if (events_.on_document) events_.on_document(emitted_, it->second.result, true);
      open_.erase(it);
      ++emitted_;
    }
    changed_.notify_all();
  }

  // After a stop: first what is complete, though something before it is not, then what is begun.
  void finish_partial() {
    for (const bool complete : {true, false})
      for (auto& [input, o] : open_)
        if (events_.on_document && o.complete() == complete &&
            (complete || !o.result.pages.empty()))
          events_.on_document(input, o.result, complete);
    open_.clear();
  }

  const Pipeline& pipeline_;
  std::span<const BatchInput> inputs_;
  const BatchOptions& options_;
  const BatchEvents& events_;
  int64_t pixel_budget_ = 0;
  size_t window_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> queue_;
  std::map<size_t, Open> open_;
  size_t next_ = 0, emitted_ = 0;
  int64_t pixels_ = 0;  // bytes of decoded pages that are queued or in work
  int decoding_ = 0;
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_;
};

}  // namespace

DecodeOptions decode_options(const Options& o) {
  DecodeOptions d;
  d.exif_orientation = o.exif;
  d.dpi = o.dpi;
  return d;
}

void describe_page(const Page& page, PageResult& result) {
  result.index = page.index;
  result.dpi = page.info.dpi;
  result.exif_orientation = page.info.orientation;
  result.warnings.insert(result.warnings.begin(), page.warnings.begin(), page.warnings.end());
}

namespace {

// How many pages a batch has, as far as that decides between one page's threads and several pages.
size_t count_pages(const Pipeline& pipeline, std::span<const BatchInput> inputs) {
  if (inputs.size() != 1) return inputs.size();
  std::error_code e;  // a pipe can be read only once
  if (inputs[0].bytes.empty() && !std::filesystem::is_regular_file(inputs[0].path, e)) return 1;
  try {
    const DecodeOptions d = decode_options(pipeline.options());
    const Document document = inputs[0].bytes.empty()
                                  ? open_document(inputs[0].path, d)
                                  : open_document(inputs[0].bytes, inputs[0].path, d);
    return parse_page_range(pipeline.options().pages.value, document.page_count()).size();
  } catch (const train::Error&) {
    return 1;  // the batch will say what is wrong with it
  }
}

}  // namespace

void choose_workers(const Pipeline& pipeline, size_t pages, BatchOptions& options) {
  const Options& o = pipeline.options();
  const int cpus = train::usable_cpus();
  if (options.jobs == 0) options.jobs = o.jobs;
  if (options.threads == 0) options.threads = o.threads;
  if (options.jobs == 0) {
    // Pages side by side use the cores best, one thread each; a single page uses them all.
    options.jobs = pages <= 1 ? 1 : std::max(1, cpus / std::max(1, options.threads));
    options.jobs = static_cast<int>(std::min<size_t>(options.jobs, std::max<size_t>(pages, 1)));
    int64_t memory = parse_bytes(o.max_memory.value);
    if (memory == 0) memory = train::usable_memory() / 2;
    const int64_t each = std::max<int64_t>(pipeline.estimate_memory(1280, 960), 1);
    options.jobs = static_cast<int>(std::clamp<int64_t>(memory / 2 / each, 1, options.jobs));
  }
  if (options.threads == 0) options.threads = std::max(1, cpus / options.jobs);
}

void run_batch(const Pipeline& pipeline, std::span<const BatchInput> inputs, BatchOptions options,
               const BatchEvents& events) {
  if (options.jobs == 0 && pipeline.options().jobs == 0)
    choose_workers(pipeline, count_pages(pipeline, inputs), options);
  else
    choose_workers(pipeline, inputs.size(), options);
  Batch(pipeline, inputs, options, events).run();
}

}  // namespace ocr
