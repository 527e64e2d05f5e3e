// How well lines were read: accuracy, edit distances, CER and WER, strictly and as PaddleOCR
// counts.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "libocr/metrics/align.h"

namespace ocr {

/// One line that was read.
struct ReadLine {
  std::string name;    // picture, file and line
  std::string target;  // as labelled
  std::string prediction;
  /// Upstream's target: encoded and decoded, so that characters outside the dictionary are gone.
  std::string seen_target;
  double score = 0;
  int width = 0, height = 0;  // of the picture; 0 unknown
};

/// Sums over lines under one way of comparing.
struct TextScore {
  int64_t lines = 0, exact = 0;
  int64_t characters = 0, char_edits = 0;  // of the targets; edits that turn prediction to target
  int64_t words = 0, word_edits = 0;
  double similarity = 0;  // sum of 1 - edits / longer length

  void add(std::string_view target, std::string_view prediction);
  void merge(const TextScore& other);
  double accuracy() const;       // 0 without lines
  double norm_edit_dis() const;  // mean similarity
  double cer() const;            // edits per character of the targets; can exceed 1
  double wer() const;
};

struct RecognitionOptions {
  bool ignore_space = true;  // PaddleOCR's default; of the lenient numbers only
  bool is_filter = false;    // likewise: ASCII letters and digits, in lower case
};

class RecognitionMetric {
 public:
  explicit RecognitionMetric(const RecognitionOptions& options = {}) : options_(options) {}
  void add(const ReadLine& line);

  /// Raw label against raw text: spaces, case and every character count, each sample once.
  const TextScore& strict() const { return strict_; }
  /// Case folded (ASCII), runs of white space as one space.
  const TextScore& folded() const { return folded_; }
  /// As PaddleOCR's RecMetric: against seen_target, spaces dropped if ignore_space.
  const TextScore& lenient() const { return lenient_; }
  const Confusions& confusions() const { return confusions_; }
  /// Strict scores of parts: "length 1-5", "height < 16", "script Latin", ... in a fixed order.
  const std::map<std::string, TextScore>& slices() const { return slices_; }
  /// Lines with most edits per character first, at most 100 of those that are not exact.
  std::vector<ReadLine> worst(size_t count = 100) const;
  /// All of it as JSON, and as lines of text for a person.
  std::string json() const;
  std::string text() const;

 private:
  RecognitionOptions options_;
  TextScore strict_, folded_, lenient_;
  Confusions confusions_;
  std::map<std::string, TextScore> slices_;
  std::multimap<double, ReadLine> worst_;  // by error per character, the least first
};

/// "Latin", "digits", "CJK", "Cyrillic", "Arabic", "other" or "mixed": by the letters of a text.
std::string script_of(std::string_view text);
/// ASCII upper case lowered, runs of white space one space, none at the ends.
std::string fold_text(std::string_view text);

}  // namespace ocr
