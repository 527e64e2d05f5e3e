// Pipeline: models and settings made ready to read pages. Immutable and shared by any number of
// threads.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "libocr/image/image.h"
#include "libocr/pipeline/options.h"
#include "libocr/pipeline/result.h"

namespace ocr {

/// One thread's memory: the arena of the nets, their inputs, a pool of threads. It grows to the
/// largest page and is used again by the next.
class Scratch;

/// Called with what a page gave, while its pixels are still there. Runs on the working thread.
using PageHook = std::function<void(const ImageView& page, PageResult& result)>;

class Pipeline {
 public:
  /// Loads the models that the task needs; the text of a page then depends on the page and these
  /// options alone, never on batch size, threads or other pages. Settings that the options leave
  /// to the models are read from their metadata and from inference.yml beside them. Throws
  /// train::ConfigError (settings, missing models), train::FormatError (bad model files).
  static std::shared_ptr<const Pipeline> open(Options options,
                                              std::vector<std::string>* warnings = nullptr);
  ~Pipeline();

  /// Reads a page, or a crop with task rec and cls. Thread-safe: each call borrows a scratch.
  /// Throws train::Error (an impossible size, memory), std::bad_alloc.
  PageResult run(const ImageView& page) const;
  /// The same with the caller's own scratch, and without taking one from the shared store.
  PageResult run(const ImageView& page, Scratch& scratch) const;

  /// A scratch whose pool has `threads` threads (0 = as the options say).
  std::unique_ptr<Scratch, void (*)(Scratch*)> make_scratch(int threads = 0) const;

  const Options& options() const;
  /// Version, models with checksums, and the settings in force: what results are labelled with.
  const RunInfo& info() const;
  /// Bytes one scratch needs for a page of this size; an estimate from the detector's plans.
  int64_t estimate_memory(int width, int height) const;

 private:
  struct Impl;
  Pipeline();
  std::unique_ptr<Impl> impl_;
};

}  // namespace ocr
