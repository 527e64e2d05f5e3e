// Path patterns: *, ?, [abc], ** across folders; matched here so that they work the same
// everywhere.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace ocr {

/// Whether `text` holds a character that makes it a pattern.
bool is_glob(std::string_view text);

/// Whether one path component matches: * any run, ? one character (one UTF-8 sequence), [a-z] and
/// [!a-z] one byte of a set, \ quotes. A leading dot must be matched by a dot.
bool match_component(std::string_view pattern, std::string_view name);

/// Existing paths that match, sorted bytewise. A component ** stands for any number of folders,
/// none included. Hidden names only match patterns that begin with a dot; symbolic links to folders
/// are not followed by **. Folders that cannot be read are appended to `unreadable`.
std::vector<std::string> expand_glob(const std::string& pattern,
                                     std::vector<std::string>& unreadable);

/// The folder before the first component that is a pattern: "a/b/" of "a/b/*.png", "" of "*.png".
std::string glob_root(const std::string& pattern);

}  // namespace ocr
