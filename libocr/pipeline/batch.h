// Many documents through one pipeline: decoding overlaps with reading, memory stays bounded, and
// results come out in the order of the inputs.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "libocr/image/decode.h"
#include "libocr/pipeline/pipeline.h"

namespace ocr {

struct BatchInput {
  std::string path;                 // shown in results; read unless `bytes` are given
  std::vector<uint8_t> bytes = {};  // an encoded file in memory
};

struct BatchOptions {
  int jobs = 0;     // pages at once; 0 = from the CPUs, the inputs and the memory
  int threads = 0;  // threads of each page; 0 = the CPUs divided by the jobs
  /// Set from anywhere, e.g. a signal handler: pages in work are finished, no more are begun.
  const std::atomic<bool>* stop = nullptr;
};

/// All are called under one lock, from any thread. on_document comes in input order; after a
/// stop, documents finished out of turn follow, then those cut short with `complete` false.
struct BatchEvents {
  std::function<void(size_t input, DocumentResult& document, bool complete)> on_document;
  std::function<void(size_t input, const PageResult& page)> on_page;
  /// A document was opened: how many of its pages will be read.
  std::function<void(size_t input, int pages)> on_open;
  /// Not under the lock: runs on the page's own thread while its pixels exist.
  std::function<void(size_t input, int page_count, const ImageView& page, PageResult& result)>
      with_pixels;
};

/// How pages are to be decoded under these settings.
DecodeOptions decode_options(const Options& options);
/// Copies what the decoder knows of a page (index, resolution, orientation, warnings).
void describe_page(const Page& page, PageResult& result);

/// How many jobs and threads run_batch would choose for so many pages.
void choose_workers(const Pipeline& pipeline, size_t pages, BatchOptions& options);

/// A file that cannot be read gives a DocumentResult with `error`; it never ends the batch.
/// Throws what an event throws, after the threads have ended.
void run_batch(const Pipeline& pipeline, std::span<const BatchInput> inputs, BatchOptions options,
               const BatchEvents& events);

}  // namespace ocr
