// Where results go: standard output, one file, or a folder that mirrors the inputs; and what a run
// had finished, so that it can be resumed.
#pragma once
#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "libocr/image/collect.h"
#include "libocr/pipeline/result.h"
#include "libocr/pipeline/writers.h"

namespace app {

/// Remembers finished inputs in a small file beside the outputs: one line each, appended when its
/// results are on disk. A run with other settings, models or format begins anew.
class Journal {
 public:
  /// `path` empty: remembers nothing. With `resume`, entries of an equal run are kept.
  Journal(std::string path, const std::string& fingerprint, bool resume);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  /// True when this input was finished and has not changed since.
  bool finished(const std::string& input) const;
  /// `length`: of the single output file after this input's results, 0 in a folder.
  void add(const std::string& input, int64_t length);
  /// The length recorded last; 0 without one.
  int64_t length() const { return length_; }
  bool empty() const { return entries_.empty(); }

 private:
  std::string path_;
  std::map<std::string, std::string> entries_;  // input -> "size mtime"
  int64_t length_ = 0;
  int fd_ = -1;
};

struct OutputOptions {
  ocr::Format format = ocr::Format::kText;
  std::string target;  // "" or "-": standard output; else a folder, or a file by its extension
  bool resume = false;
  size_t documents = 1;  // how many inputs there are
};

class Outputs {
 public:
  Outputs(const OutputOptions& options, const ocr::RunInfo& run);
  ~Outputs();
  /// True when --resume may skip this input.
  bool finished(const ocr::InputJob& job) const;
  /// Writes one document. `complete` false: it was cut short by an interrupt.
  void write(const ocr::InputJob& job, const ocr::DocumentResult& document, bool complete);
  /// Ends the output; in a folder writes the summary.
  void finish(const ocr::RunSummary& summary);
  bool to_terminal() const;

 private:
  enum class Kind { kStdout, kFile, kFolder };
  std::string key_of(const ocr::InputJob& job) const;
  std::string file_of(const ocr::InputJob& job, bool complete) const;
  std::string render(const ocr::InputJob& job, const ocr::DocumentResult& document) const;
  void put(const std::string& text);
  void open_file(const std::string& path, bool resume);

  OutputOptions options_;
  const ocr::RunInfo& run_;
  Kind kind_ = Kind::kStdout;
  std::string folder_;
  std::unique_ptr<Journal> journal_;
  int fd_ = 1;
  int64_t length_ = 0;
  size_t written_ = 0;
};

/// Whether -o names a file rather than a folder.
bool names_a_file(const std::string& target);

/// The format that such a file's name speaks of; "text" for any other target.
std::string format_of_name(const std::string& target);

/// What results depend on, as a checksum: equal runs have equal ones.
std::string fingerprint_of(const ocr::RunInfo& run, ocr::Format format);

}  // namespace app
