#include "libocr/image/glob.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>

namespace ocr {
namespace {

constexpr int kMaxDepth = 200;  // of folders under **

// Length in bytes of the character at the front: a UTF-8 sequence, or one byte where that is
// broken.
size_t character_length(std::string_view s) {
  const auto lead = static_cast<unsigned char>(s[0]);
  const size_t n = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (n > s.size()) return 1;
  for (size_t i = 1; i < n; i++)
    if ((static_cast<unsigned char>(s[i]) & 0xC0) != 0x80) return 1;
  return n;
}

// Matches the set that begins at pattern[0] == '['. Returns its length and whether c is in it;
// length 0: no set.
struct SetMatch {
  size_t length;
  bool inside;
};
SetMatch match_set(std::string_view pattern, unsigned char c) {
  size_t i = 1;
  const bool negated = i < pattern.size() && (pattern[i] == '!' || pattern[i] == '^');
  if (negated) i++;
  bool inside = false;
  for (bool first = true; i < pattern.size(); first = false) {
    if (pattern[i] == ']' && !first) return {i + 1, inside != negated};
    if (pattern[i] == '\\' && i + 1 < pattern.size()) i++;
    const auto low = static_cast<unsigned char>(pattern[i++]);
    unsigned char high = low;
    if (i + 1 < pattern.size() && pattern[i] == '-' && pattern[i + 1] != ']') {
      high = static_cast<unsigned char>(pattern[i + 1]);
      i += 2;
    }
    inside = inside || (low <= c && c <= high);
  }
  return {0, false};
}

// One step of pattern and name without *; returns false where they differ.
bool match_one(std::string_view& pattern, std::string_view& name) {
  if (pattern.empty() || name.empty()) return false;
  if (pattern[0] == '?') {
    pattern.remove_prefix(1);
    name.remove_prefix(character_length(name));
    return true;
  }
  if (pattern[0] == '[') {
    const SetMatch set = match_set(pattern, static_cast<unsigned char>(name[0]));
    if (set.length > 0) {
      if (!set.inside) return false;
      pattern.remove_prefix(set.length);
      name.remove_prefix(1);
      return true;
    }
  }
  if (pattern[0] == '\\' && pattern.size() > 1) pattern.remove_prefix(1);
  if (pattern[0] != name[0]) return false;
  pattern.remove_prefix(1);
  name.remove_prefix(1);
  return true;
}

std::string unquoted(std::string_view pattern) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); i++) {
    if (pattern[i] == '\\' && i + 1 < pattern.size()) i++;
    out += pattern[i];
  }
  return out;
}

struct Entry {
  std::string name;
  bool folder, link;
};

bool list_folder(const std::string& folder, std::vector<Entry>& entries) {
  DIR* dir = ::opendir(folder.empty() ? "." : folder.c_str());
  if (!dir) return false;
  while (const dirent* e = ::readdir(dir)) {
    const std::string_view name = e->d_name;
    if (name == "." || name == "..") continue;
    const std::string path = folder + std::string(name);
    struct stat info = {};
    Entry entry{std::string(name), false, false};
    if (::lstat(path.c_str(), &info) == 0) {
      entry.link = S_ISLNK(info.st_mode);
      entry.folder = S_ISDIR(info.st_mode) ||
                     (entry.link && ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode));
    }
    entries.push_back(std::move(entry));
  }
  ::closedir(dir);
  return true;
}

// `folder` ends in '/' or is empty; components[at..] are still to match.
void expand(const std::string& folder, const std::vector<std::string>& components, size_t at,
            int depth, std::vector<std::string>& found, std::vector<std::string>& unreadable) {
  const bool last = at + 1 == components.size();
  const std::string& component = components[at];
  if (!is_glob(component)) {
    const std::string path = folder + unquoted(component);
    struct stat info = {};
    if (::stat(path.c_str(), &info) != 0) return;
    if (last)
      found.push_back(path);
    else if (S_ISDIR(info.st_mode))
      expand(path + "/", components, at + 1, depth, found, unreadable);
    return;
  }
  const bool any_depth = component == "**";
  if (any_depth && !last) expand(folder, components, at + 1, depth, found, unreadable);
  std::vector<Entry> entries;
  if (!list_folder(folder, entries)) {
    unreadable.push_back(folder);
    return;
  }
  for (const Entry& e : entries) {
    const std::string path = folder + e.name;
    if (any_depth) {
      if (e.name[0] == '.') continue;
      if (last && !e.folder) found.push_back(path);
      if (e.folder && !e.link && depth < kMaxDepth)
        expand(path + "/", components, at, depth + 1, found, unreadable);
    } else if (match_component(component, e.name)) {
      if (last)
        found.push_back(path);
      else if (e.folder)
        expand(path + "/", components, at + 1, depth, found, unreadable);
    }
  }
}

}  // namespace

bool is_glob(std::string_view text) { return text.find_first_of("*?[") != text.npos; }

bool match_component(std::string_view pattern, std::string_view name) {
  if (!name.empty() && name[0] == '.' && !(pattern.starts_with('.') || pattern.starts_with("\\.")))
    return false;
  // On a mismatch, the latest * takes one more character: never more than pattern times name steps.
  std::string_view retry_pattern, retry_name;
  bool star = false;
  while (!name.empty() || !pattern.empty()) {
    if (!pattern.empty() && pattern[0] == '*') {
      pattern.remove_prefix(1);
      star = true;
      retry_pattern = pattern, retry_name = name;
      continue;
    }
    if (match_one(pattern, name)) continue;
    if (!star || retry_name.empty()) return false;
    retry_name.remove_prefix(character_length(retry_name));
    pattern = retry_pattern, name = retry_name;
  }
  return true;
}

std::vector<std::string> expand_glob(const std::string& pattern,
                                     std::vector<std::string>& unreadable) {
  std::vector<std::string> components;
  for (size_t start = 0; start <= pattern.size();) {
    const size_t slash = std::min(pattern.find('/', start), pattern.size());
    if (slash > start) components.push_back(pattern.substr(start, slash - start));
    start = slash + 1;
  }
  std::vector<std::string> found;
  if (!components.empty())
    expand(pattern[0] == '/' ? "/" : "", components, 0, 0, found, unreadable);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

std::string glob_root(const std::string& pattern) {
  size_t root = 0;
  for (size_t start = 0; start < pattern.size();) {
    const size_t slash = pattern.find('/', start);
    if (slash == pattern.npos || is_glob(std::string_view(pattern).substr(start, slash - start)))
      break;
    start = root = slash + 1;
  }
  return unquoted(pattern.substr(0, root));
}

}  // namespace ocr
