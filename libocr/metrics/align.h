// Alignment of two texts, character by character, and the confusions counted from it.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ocr {

/// One column of an alignment: a character of each text; 0 where the text has none.
struct AlignedPair {
  char32_t reference = 0, hypothesis = 0;
  bool same() const { return reference == hypothesis; }
};

/// A minimal alignment by edit distance. Texts over 4,096 characters are cut there.
std::vector<AlignedPair> align_texts(std::string_view reference, std::string_view hypothesis);

/// What was read for what, with counts. "" stands for nothing: a lost or an added character.
class Confusions {
 public:
  void add(std::string_view reference, std::string_view hypothesis);
  struct Pair {
    std::string reference, hypothesis;
    int64_t count = 0;
  };
  /// The commonest first; equal counts in order of the characters.
  std::vector<Pair> top(size_t count) const;

 private:
  std::map<std::pair<char32_t, char32_t>, int64_t> counts_;
};

}  // namespace ocr
