// Samples that cannot be used: every one is counted with its reason and place, none vanishes.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "libtrain/core/error.h"

namespace ocr {

enum class Skip : uint8_t {
  kNoDelimiter,
  kManyDelimiters,
  kNotUtf8,
  kNoPath,
  kImageMissing,
  kImageUnreadable,
  kBadLabel,  // no JSON of boxes, a class that is not in label_list
  kNoBoxes,   // a page without one box
  kEmptyText,
  kTooLong,              // longer than max_text_length
  kTooLongForAttention,  // NRTR and SAR need two places for their marks
  kNoKnownCharacter,
  kTooLongForSteps,  // CTC needs a step per character and one between equal ones
};
constexpr int kSkipKinds = 13;
/// "no tab in the line", "image not found", ...
const char* skip_name(Skip reason);

/// What a transform throws for a sample that cannot be used.
class SkippedSample : public train::DataError {
 public:
  SkippedSample(Skip reason, const std::string& file, long line, const std::string& message)
      : DataError(file, line, message), reason(reason) {}
  Skip reason;
};

/// Counts by reason, with the first few of each.
class SkipReport {
 public:
  static constexpr size_t kExamples = 5;

  void add(const SkippedSample& sample) { add(sample.reason, sample.what()); }
  void add(Skip reason, const std::string& message);
  void merge(const SkipReport& other);
  int64_t total() const;
  int64_t count(Skip reason) const { return counts_[static_cast<size_t>(reason)]; }
  const std::vector<std::string>& examples(Skip reason) const {
    return examples_[static_cast<size_t>(reason)];
  }
  /// "3 of 120 samples cannot be used: 2 image not found (a.txt:3: ...), 1 ..."; "" when none.
  std::string summary(int64_t samples) const;

 private:
  std::array<int64_t, kSkipKinds> counts_{};
  std::array<std::vector<std::string>, kSkipKinds> examples_;
};

}  // namespace ocr
