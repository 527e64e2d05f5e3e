#include "libocr/data/label_encode.h"

#include <algorithm>

#include "libocr/text/utf8.h"

namespace ocr {
namespace {

using train::cat;

// Python's lower() as far as it can lead into 0-9a-z.
void append_lower(char32_t c, std::u32string& out) {
  if (c == U'\u212A') {
    out += U'k';  // the Kelvin sign
  } else if (c == U'\u0130') {
    out += U"i\u0307";  // I with a dot
  } else {
    out += c >= U'A' && c <= U'Z' ? c + 32 : c;
  }
}

}  // namespace

TextEncoder::TextEncoder(Dictionary dictionary, int max_text_length, bool lower)
    : dictionary_(std::move(dictionary)), max_text_length_(max_text_length), lower_(lower) {
  if (max_text_length < 1)
    throw train::ConfigError("", 0, 0,
                             cat("max_text_length must be at least 1, got ", max_text_length));
}

TextEncoder TextEncoder::from_settings(const std::string& path, bool use_space_char,
                                       int max_text_length) {
  if (!path.empty())
    return {Dictionary::from_file(path, use_space_char ? SpaceClass::kAppend : SpaceClass::kNone),
            max_text_length, false};
  std::vector<std::string> characters;
  for (char c = '0'; c <= '9'; ++c) characters.emplace_back(1, c);
  for (char c = 'a'; c <= 'z'; ++c) characters.emplace_back(1, c);
  return {Dictionary::from_list(std::move(characters), SpaceClass::kNone, "0-9a-z"),
          max_text_length, true};
}

EncodedText TextEncoder::look_up(std::string_view text) const {
  EncodedText out;
  std::u32string points = to_code_points(text);
  if (lower_) {
    std::u32string folded;
    for (const char32_t c : points) append_lower(c, folded);
    points = std::move(folded);
  }
  std::string entry;
  for (const char32_t c : points) {
    entry.clear();
    append_utf8(c, &entry);
    const int64_t id = dictionary_.index_of(entry);
    if (id > 0)
      out.ids.push_back(id);
    else
      out.unknown.push_back(entry);
  }
  return out;
}

EncodedText TextEncoder::encode(std::string_view text, const std::string& file, long line) const {
  if (text.empty()) throw SkippedSample(Skip::kEmptyText, file, line, "the text is empty");
  const size_t length = count_code_points(text);
  if (length > static_cast<size_t>(max_text_length_))
    throw SkippedSample(
        Skip::kTooLong, file, line,
        cat("the text has ", length, " characters, max_text_length is ", max_text_length_));
  EncodedText out = look_up(text);
  if (out.ids.empty())
    throw SkippedSample(Skip::kNoKnownCharacter, file, line,
                        cat("no character of '", text, "' is in ", dictionary_.name()));
  return out;
}

std::vector<int64_t> TextEncoder::ctc(const EncodedText& text) const {
  std::vector<int64_t> out = text.ids;
  // Folding case can lengthen a text by a character; upstream's list then is longer, too.
  out.resize(std::max(out.size(), static_cast<size_t>(max_text_length_)), 0);
  return out;
}

std::vector<int64_t> TextEncoder::guide(const EncodedText& text, GuideHead head,
                                        const std::string& file, long line) const {
  if (static_cast<int64_t>(text.ids.size()) >= max_text_length_ - 1)
    throw SkippedSample(
        Skip::kTooLongForAttention, file, line,
        cat("the text has ", text.ids.size(), " characters; the attention head has ",
            "room for max_text_length - 2 = ", max_text_length_ - 2));
  const int64_t n = dictionary_.classes() - 1;
  const bool nrtr = head == GuideHead::kNrtr;
  std::vector<int64_t> out{nrtr ? 2 : n + 1};
  for (const int64_t id : text.ids) out.push_back(nrtr ? id + 3 : id - 1);
  out.push_back(nrtr ? 3 : n + 1);
  out.resize(static_cast<size_t>(max_text_length_), nrtr ? 0 : n + 2);
  return out;
}

std::string TextEncoder::seen_text(std::string_view text) const {
  std::string out;
  for (const int64_t id : look_up(text).ids) out += dictionary_.text(id);
  return out;
}

int64_t TextEncoder::classes(GuideHead head) const {
  return dictionary_.classes() + (head == GuideHead::kNrtr ? 3 : head == GuideHead::kSar ? 2 : 0);
}

int64_t ctc_steps_needed(const std::vector<int64_t>& ids) {
  auto steps = static_cast<int64_t>(ids.size());
  for (size_t i = 1; i < ids.size(); ++i) steps += ids[i] == ids[i - 1];
  return steps;
}

int class_of(std::string_view label, const std::vector<std::string>& label_list) {
  const auto it = std::find(label_list.begin(), label_list.end(), label);
  return it == label_list.end() ? -1 : static_cast<int>(it - label_list.begin());
}

}  // namespace ocr
