// Labels as a network learns them: text to class indices for CTC and attention heads, a class name
// to its number.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libocr/data/skip.h"
#include "libocr/text/dictionary.h"

namespace ocr {

/// Attention heads that guide training beside CTC.
enum class GuideHead : uint8_t { kNone, kNrtr, kSar };

struct EncodedText {
  std::vector<int64_t> ids;  // CTC classes, without padding
  /// Characters that the dictionary does not have. Upstream deletes them in silence and keeps the
  /// sample; they are counted and reported here.
  std::vector<std::string> unknown;
};

/// Upstream's BaseRecLabelEncode and what derives from it. Immutable, safe from many threads.
class TextEncoder {
 public:
  /// `lower` folds case before the look-up, as upstream does when no dictionary is given.
  TextEncoder(Dictionary dictionary, int max_text_length, bool lower);
  /// From `Global`: without a path the characters are 0-9a-z and case is folded. Upstream adds no
  /// space to that list, whatever use_space_char says.
  static TextEncoder from_settings(const std::string& dictionary_path, bool use_space_char,
                                   int max_text_length);

  /// Classes of the text. Throws SkippedSample(kEmptyText, kTooLong or kNoKnownCharacter), placed
  /// at `file` and `line`. Length counts code points before unknown ones are dropped.
  EncodedText encode(std::string_view text, const std::string& file = "", long line = 0) const;

  /// The ids padded with zeros to max_text_length: CTCLabelEncode.
  std::vector<int64_t> ctc(const EncodedText& text) const;
  /// NRTRLabelEncode: 2, ids + 3, 3, zeros; SARLabelEncode: start, ids - 1, end, padding. Throws
  /// SkippedSample(kTooLongForAttention).
  std::vector<int64_t> guide(const EncodedText& text, GuideHead head, const std::string& file = "",
                             long line = 0) const;

  /// What decoding the encoded text gives: upstream's target in its metrics (unknown characters
  /// gone, case folded with `lower`).
  std::string seen_text(std::string_view text) const;

  const Dictionary& dictionary() const { return dictionary_; }
  int max_text_length() const { return max_text_length_; }
  bool lower() const { return lower_; }
  /// Outputs of each head: CTC has the dictionary's classes, NRTR three more, SAR two more.
  int64_t classes(GuideHead head) const;

 private:
  EncodedText look_up(std::string_view text) const;

  Dictionary dictionary_;
  int max_text_length_;
  bool lower_;
};

/// Least number of CTC steps in which `ids` can be written: one each, one more between equal ones.
int64_t ctc_steps_needed(const std::vector<int64_t>& ids);

/// ClsLabelEncode: the place of the label in `label_list`; -1 when it is not there.
int class_of(std::string_view label, const std::vector<std::string>& label_list);

}  // namespace ocr
