// PaddleOCR's settings that have no meaning in this program: accepted, with a word on why.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace ocr {

/// Why the setting (canonical name) has no effect here; null when it is not one of those.
const char* ignored_option(std::string_view name);

/// One of those settings; a boolean one may stand on a command line without a value.
struct IgnoredOption {
  std::string name;
  bool boolean;
};
std::vector<IgnoredOption> ignored_options();

}  // namespace ocr
