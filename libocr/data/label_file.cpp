#include "libocr/data/label_file.h"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "libocr/text/utf8.h"
#include "libtrain/core/philox.h"

namespace ocr {
namespace {

using train::cat;

constexpr int64_t kMaxBytes = int64_t{4} << 30;

// Splits off the text before the first delimiter; false when there is none.
bool split(std::string_view& rest, std::string_view delimiter, std::string_view& field) {
  const size_t at = rest.find(delimiter);
  if (at == rest.npos) return false;
  field = rest.substr(0, at);
  rest.remove_prefix(at + delimiter.size());
  return true;
}

double number(std::string_view text) {
  double v = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  return error == std::errc() && end == text.data() + text.size() && v > 0 && v < 1e9 ? v : 0;
}

void parse_line(LabelFile& file, std::string_view text, long number_of_line,
                const LabelFileOptions& options) {
  const auto skip = [&](Skip reason, const std::string& message) {
    file.skips.add(SkippedSample(reason, file.name, number_of_line, message));
  };
  LabelLine line;
  line.line = number_of_line;
  const std::string shown = options.delimiter == "\t" ? "tab" : "'" + options.delimiter + "'";
  if (!is_valid_utf8(text)) return skip(Skip::kNotUtf8, "the line is not UTF-8");
  if (!split(text, options.delimiter, line.path))
    return skip(Skip::kNoDelimiter, cat("no ", shown, " between path and label"));
  if (line.path.empty()) return skip(Skip::kNoPath, cat("no path before the ", shown));
  line.label = text;
  if (options.sizes) {
    std::string_view width;
    if (!split(text, options.delimiter, line.label) || !split(text, options.delimiter, width) ||
        number(width) <= 0 || number(text) <= 0)
      return skip(Skip::kBadLabel, "ds_width needs the columns path, label, width, height");
    line.aspect = number(width) / number(text);
  }
  if (line.label.find(options.delimiter) != line.label.npos)
    return skip(Skip::kManyDelimiters,
                cat("more than one ", shown, "; a label cannot contain one"));
  file.lines.push_back(line);
}

}  // namespace

LabelFile parse_label_file(std::string text, const std::string& name,
                           const LabelFileOptions& options) {
  if (options.delimiter.empty())
    throw train::ConfigError("", 0, 0, "the delimiter of a label file cannot be empty");
  LabelFile file;
  file.name = name;
  file.text = std::make_shared<const std::string>(std::move(text));
  std::string_view rest = *file.text;
  if (rest.starts_with("\xef\xbb\xbf")) rest.remove_prefix(3);
  for (long number = 1; !rest.empty(); ++number) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) parse_line(file, line, number, options);
  }
  return file;
}

LabelFile read_label_file(const std::string& path, const LabelFileOptions& options) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  const int64_t size = in ? static_cast<int64_t>(in.tellg()) : -1;
  if (size < 0) throw train::FormatError(cat(path, ": cannot be read: ", std::strerror(errno)));
  if (size > kMaxBytes)
    throw train::FormatError(
        cat(path, ": a label file may have 4 GB; split it and list the parts"));
  std::string text(static_cast<size_t>(size), '\0');
  in.seekg(0);
  if (!in.read(text.data(), size))
    throw train::FormatError(cat(path, ": cannot be read: ", std::strerror(errno)));
  return parse_label_file(std::move(text), path, options);
}

std::vector<std::string> label_paths(std::string_view path) {
  if (path.starts_with('[')) {
    const nlohmann::json list = nlohmann::json::parse(path, nullptr, false);
    std::vector<std::string> paths;
    if (list.is_array())
      for (const nlohmann::json& p : list)
        if (p.is_string()) paths.push_back(p.get<std::string>());
    if (!paths.empty() && paths.size() == list.size()) return paths;
  }
  return {std::string(path)};
}

std::vector<int64_t> draw_lines(int64_t count, double ratio, uint64_t seed, int epoch, int file) {
  const auto wanted = std::clamp<int64_t>(
      static_cast<int64_t>(std::nearbyint(static_cast<double>(count) * ratio)), 0, count);
  std::vector<int64_t> drawn;
  drawn.reserve(static_cast<size_t>(wanted));
  const train::RandomStream random(seed, train::stream_of(cat("lines/", epoch, "/", file)));
  // Selection sampling (Knuth 3.4.2 S): each line is taken with the chance that keeps the count.
  for (int64_t i = 0; i < count && static_cast<int64_t>(drawn.size()) < wanted; ++i) {
    const auto left = static_cast<double>(wanted - static_cast<int64_t>(drawn.size()));
    const double u = (random.bits(static_cast<uint64_t>(i)) + 0.5) * 0x1p-32;
    if (static_cast<double>(count - i) * u < left) drawn.push_back(i);
  }
  return drawn;
}

}  // namespace ocr
