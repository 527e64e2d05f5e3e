#include "libocr/text/dictionary.h"

#include <fstream>

#include "libocr/text/utf8.h"
#include "libtrain/core/error.h"

namespace ocr {
namespace {

using train::cat;
using train::FormatError;

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::string read_limited(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw FormatError(cat(path, ": cannot open this dictionary; check the path"));
  std::string text;
  std::string block(1 << 16, '\0');
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0) {
    text.append(block, 0, static_cast<size_t>(file.gcount()));
    if (text.size() > Dictionary::kMaxBytes) {
      throw FormatError(cat(path, ": larger than ", Dictionary::kMaxBytes >> 20,
                            " MiB, which no dictionary is; is this the right file?"));
    }
  }
  if (file.bad()) throw FormatError(cat(path, ": cannot be read as a dictionary"));
  return text;
}

}  // namespace

Dictionary::Dictionary(std::vector<std::string> entries, SpaceClass space, std::string name)
    : name_(std::move(name)),
      appended_space_(space == SpaceClass::kAppend),
      entries_(std::move(entries)) {
  if (entries_.empty()) throw FormatError(cat(name_, ": the dictionary is empty"));
  if (entries_.size() > kMaxEntries) {
    throw FormatError(cat(name_, ": ", entries_.size(), " entries; the limit is ", kMaxEntries));
  }
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!is_valid_utf8(entries_[i])) {
      throw FormatError(
          cat(name_, ":", i + 1, ": not UTF-8; save the dictionary in that encoding"));
    }
  }
  if (appended_space_) entries_.emplace_back(" ");
  index_.reserve(entries_.size());
  for (size_t i = 0; i < entries_.size(); ++i) index_[entries_[i]] = static_cast<int64_t>(i) + 1;
  space_ = index_of(" ");
}

Dictionary Dictionary::from_file(const std::string& path, SpaceClass space) {
  return from_text(read_limited(path), space, path);
}

Dictionary Dictionary::from_text(std::string_view text, SpaceClass space, const std::string& name) {
  if (text.size() > kMaxBytes) {
    throw FormatError(
        cat(name, ": a dictionary of ", text.size(), " bytes; the limit is ", kMaxBytes));
  }
  // A mark alone on the first line is an entry; before other text it is an editor's leftover.
  if (text.starts_with(kByteOrderMark) && text.size() > 3 && text[3] != '\n' && text[3] != '\r') {
    text.remove_prefix(kByteOrderMark.size());
  }
  std::vector<std::string> entries;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    while (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    while (!line.empty() && line.front() == '\r') line.remove_prefix(1);
    entries.emplace_back(line);
    if (entries.size() > kMaxEntries) {
      throw FormatError(cat(name, ": more than ", kMaxEntries, " lines; is this a dictionary?"));
    }
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return from_list(std::move(entries), space, name);
}

Dictionary Dictionary::from_list(std::vector<std::string> entries, SpaceClass space,
                                 const std::string& name) {
  return Dictionary(std::move(entries), space, name);
}

const std::string& Dictionary::text(int64_t index) const {
  static const std::string empty;
  return index <= 0 ? empty : entries_.at(static_cast<size_t>(index) - 1);
}

int64_t Dictionary::index_of(std::string_view entry) const {
  const auto found = index_.find(std::string(entry));
  return found == index_.end() ? -1 : found->second;
}

void Dictionary::check_classes(int64_t model_classes, const std::string& model_name) const {
  if (model_classes == classes()) return;
  const int64_t missing = model_classes - classes();
  std::string message =
      cat(model_name, " has ", model_classes, " output classes, but dictionary ", name_, " gives ",
          classes(), " (", entries_.size() - (appended_space_ ? 1 : 0), " entries, ",
          appended_space_ ? "a space, " : "no added space, ", "the blank)");
  if (missing == 1 && !appended_space_) {
    message +=
        "; one is missing: the model was probably trained with a space class, so set "
        "use_space_char to true";
  } else if (missing == -1 && appended_space_) {
    message +=
        "; one is too many: the model was probably trained without a space class, so set "
        "use_space_char to false";
  } else {
    message += "; give the dictionary that this model was trained with";
  }
  throw FormatError(message);
}

}  // namespace ocr
