// The character dictionary of a recogniser: class index <-> text, with PaddleOCR's exact rules.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ocr {

/// Whether a space class follows the listed characters (`use_space_char`).
enum class SpaceClass { kNone, kAppend };

/// Class 0 is the CTC blank; class i >= 1 is entry i - 1. Entries are never trimmed, de-duplicated
/// or dropped, for each is a class of the network: an empty line, a second space line, U+3000 and a
/// multi-code-point entry all keep their place. Only the line ends CR and LF are taken off, and a
/// byte order mark in front of other text. Immutable once made, so safe from many threads.
class Dictionary {
 public:
  static constexpr int64_t kBlank = 0;
  static constexpr size_t kMaxBytes = 16 << 20;  // of a file; real ones are under 0.2 MB
  static constexpr size_t kMaxEntries = 1'000'000;

  /// Reads one entry per line. Throws train::FormatError naming file and line when the file cannot
  /// be read, is not UTF-8, or exceeds the limits.
  static Dictionary from_file(const std::string& path, SpaceClass space);
  /// The same from text in memory, e.g. a model's metadata value `character`. `name` is what errors
  /// call it. Lines end at LF alone: other Unicode line separators may be entries.
  static Dictionary from_text(std::string_view text, SpaceClass space, const std::string& name);
  /// From a list, e.g. `PostProcess.character_dict` of an inference.yml.
  static Dictionary from_list(std::vector<std::string> entries, SpaceClass space,
                              const std::string& name);

  /// Number of classes: the blank, the entries, and the space if it was appended.
  int64_t classes() const { return static_cast<int64_t>(entries_.size()) + 1; }
  /// Text of a class; empty for the blank. `index` must be below classes().
  const std::string& text(int64_t index) const;
  /// Class that encodes `entry`: the last one of equal entries, as upstream's encoder has it; -1
  /// when there is none.
  int64_t index_of(std::string_view entry) const;
  /// Class of " ", -1 when the dictionary has none.
  int64_t space() const { return space_; }
  const std::vector<std::string>& entries() const { return entries_; }
  /// Whether the last entry is a space that was appended.
  bool appended_space() const { return appended_space_; }
  const std::string& name() const { return name_; }

  /// Throws train::FormatError when a model has another number of outputs than this dictionary has
  /// classes; the message gives both numbers and the likely remedy.
  void check_classes(int64_t model_classes, const std::string& model_name) const;

 private:
  Dictionary(std::vector<std::string> entries, SpaceClass space, std::string name);

  std::string name_;
  bool appended_space_;
  std::vector<std::string> entries_;
  std::unordered_map<std::string, int64_t> index_;
  int64_t space_ = -1;
};

}  // namespace ocr
