// Right-to-left scripts: from the order of the picture to the order of reading.
#pragma once
#include <string>
#include <string_view>

namespace ocr {

/// Recognisers answer from left to right. For a right-to-left script the characters are reversed,
/// runs of Latin letters, digits, spaces and " :*./%+-" kept as they are: PaddleOCR's rule, which
/// it applies to dictionaries with "arabic" in their name.
std::string reverse_right_to_left(std::string_view text);

/// Whether a dictionary's name asks for that order.
bool is_right_to_left_dictionary(std::string_view name);

}  // namespace ocr
