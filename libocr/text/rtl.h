// Right-to-left scripts: from the order of the picture to the order of reading.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ocr {

/// Recognisers answer from left to right. For a right-to-left script the characters are reversed,
/// runs of Latin letters, digits, spaces and " :*./%+-" kept as they are: PaddleOCR's rule, which
/// it applies to dictionaries with "arabic" in their name.
std::string reverse_right_to_left(std::string_view text);

/// The same rule for the parts of a line (its words, or its characters): their indices in the order
/// of reading. Neighbours made of kept characters alone stay in their order.
std::vector<size_t> right_to_left_order(std::span<const std::string> parts);

/// Whether a dictionary's name, or that of the folder it lies in, asks for that order. Folders
/// further up are not looked at: a project may be called so without its models being.
bool is_right_to_left_dictionary(std::string_view path);

}  // namespace ocr
