// PaddleOCR's settings that have no meaning in this program: accepted, with a word on why.
#pragma once
#include <string_view>

namespace ocr {

/// Why the setting (canonical name) has no effect here; null when it is not one of those.
const char* ignored_option(std::string_view name);

}  // namespace ocr
