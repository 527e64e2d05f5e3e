// LMDB sets as PaddleOCR, CRNN and many data sets have them: `num-samples`, `image-%09d` (an
// encoded image) and `label-%09d` (text), counted from 1.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ocr {

/// The sets in a folder and the folders below it (those without sub-folders), in bytewise order.
/// Reads only, takes no lock. get() may be called from many threads.
class LmdbReader {
 public:
  /// Throws train::FormatError when there is no set, or one without `num-samples`.
  explicit LmdbReader(const std::string& folder);
  ~LmdbReader();
  LmdbReader(LmdbReader&&) noexcept;

  int64_t size() const;
  struct Record {
    std::string image, label;
  };
  /// Sample `index` in [0, size()). Throws train::DataError naming set and key when it is missing.
  Record get(int64_t index) const;
  std::string label(int64_t index) const;
  /// "folder/label-000000012": what messages call a sample.
  std::string name(int64_t index) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Writes a set; the folder must not hold one. `num-samples` is written by finish(), so that a set
/// that was cut short is not taken for whole.
class LmdbWriter {
 public:
  explicit LmdbWriter(const std::string& folder);
  ~LmdbWriter();
  void add(std::string_view image, std::string_view label);
  void finish();
  int64_t size() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ocr
