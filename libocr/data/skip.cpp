#include "libocr/data/skip.h"

#include <numeric>

namespace ocr {

const char* skip_name(Skip reason) {
  constexpr std::array<const char*, kSkipKinds> names{"without a delimiter",
                                                      "with more than one delimiter",
                                                      "not UTF-8",
                                                      "without a path",
                                                      "image not found",
                                                      "image not readable",
                                                      "label not understood",
                                                      "page without boxes",
                                                      "empty text",
                                                      "text too long",
                                                      "text too long for the attention head",
                                                      "no character in the dictionary",
                                                      "text too long for the network's steps"};
  return names[static_cast<size_t>(reason)];
}

void SkipReport::add(Skip reason, const std::string& message) {
  const auto i = static_cast<size_t>(reason);
  ++counts_[i];
  if (examples_[i].size() < kExamples) examples_[i].push_back(message);
}

void SkipReport::merge(const SkipReport& other) {
  for (size_t i = 0; i < counts_.size(); ++i) {
    counts_[i] += other.counts_[i];
    for (const std::string& e : other.examples_[i])
      if (examples_[i].size() < kExamples) examples_[i].push_back(e);
  }
}

int64_t SkipReport::total() const {
  return std::accumulate(counts_.begin(), counts_.end(), int64_t{0});
}

std::string SkipReport::summary(int64_t samples) const {
  if (total() == 0) return "";
  std::string text = train::cat(total(), " of ", samples, " samples cannot be used:");
  const char* separator = " ";
  for (int i = 0; i < kSkipKinds; ++i) {
    const auto reason = static_cast<Skip>(i);
    if (count(reason) == 0) continue;
    text += train::cat(separator, count(reason), " ", skip_name(reason), " (",
                       examples(reason).front(), ")");
    separator = "; ";
  }
  return text;
}

}  // namespace ocr
