// YAML in and out of config::Node; yaml-cpp stays behind this file.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "libtrain/config/node.h"

namespace train::config {

constexpr size_t kMaxYamlBytes = size_t{4} << 20;
constexpr int kMaxYamlDepth = 64;
constexpr size_t kMaxYamlNodes = 1 << 20;  // aliases count as often as they are used

/// Parses a document; an empty one is null. Anchors, aliases and merge keys (`<<`) are resolved. Of
/// a key that stands twice in a map the last value counts, as in Python, and a warning is added.
/// `name` is the file in messages. Throws ConfigError with line and column, FormatError past the
/// limits.
Node parse_yaml(std::string_view text, const std::string& name,
                std::vector<std::string>* warnings = nullptr);

/// Reads and parses a file; FormatError when it cannot be read.
Node load_yaml(const std::string& path, std::vector<std::string>* warnings = nullptr);

/// YAML text that parses to an equal node. Comments and anchors are not kept.
std::string to_yaml(const Node& node);

/// One `Section.key.key=value` of -o. It is split at the first '=', the value is read as YAML. A
/// step of the path may be the number of a list's item, or the name of a transform in a list of
/// them
/// (`Train.dataset.transforms.RecAug.tia_prob=0`). The section must exist, so must every step but
/// the last. Throws ConfigError that names the override and the nearest key.
void apply_override(Node& root, const std::string& assignment);

}  // namespace train::config
