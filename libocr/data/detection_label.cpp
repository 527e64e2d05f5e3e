#include "libocr/data/detection_label.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "libtrain/core/error.h"

namespace ocr {

using nlohmann::json;
using train::cat;
using train::FormatError;

namespace {

TextBoxLabel parse_box(const json& box, size_t index) {
  const auto bad = [&](const std::string& why) {
    return FormatError(cat("box ", index + 1, ": ", why));
  };
  if (!box.is_object()) throw bad("not an object with transcription and points");
  const auto text = box.find("transcription"), points = box.find("points");
  if (text == box.end() || !text->is_string()) throw bad("no text named 'transcription'");
  if (points == box.end() || !points->is_array()) throw bad("no list named 'points'");
  if (points->size() < 3) throw bad(cat(points->size(), " points; a box has at least 3"));
  if (points->size() > 10'000) throw bad("more than 10,000 points");
  TextBoxLabel out;
  out.text = text->get<std::string>();
  for (const json& p : *points) {
    if (!p.is_array() || p.size() != 2 || !p[0].is_number() || !p[1].is_number())
      throw bad("a point is not [x, y]");
    const auto x = p[0].get<double>(), y = p[1].get<double>();
    if (!(std::abs(x) < 1e7) || !(std::abs(y) < 1e7)) throw bad("a coordinate beyond 10,000,000");
    out.points.emplace_back(x, y);
  }
  return out;
}

// nlohmann's parser recurses per level; labels have three.
void check_depth(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\') {
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == '[' || c == '{')) {
      if (++depth > 64) throw FormatError("nested too deeply for a label");
    } else if (!quoted && (c == ']' || c == '}')) {
      --depth;
    }
  }
}

json number(double v) {
  if (v == std::floor(v)) return static_cast<int64_t>(v);
  return v;
}

}  // namespace

std::vector<TextBoxLabel> parse_detection_label(std::string_view text) {
  check_depth(text);
  json list;
  try {
    list = json::parse(text);
  } catch (const json::parse_error& e) {
    throw FormatError(cat("not JSON at character ", e.byte));
  } catch (const json::exception&) {
    throw FormatError("not JSON that can be read");
  }
  if (!list.is_array()) throw FormatError("not a list of boxes");
  std::vector<TextBoxLabel> boxes;
  boxes.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) boxes.push_back(parse_box(list[i], i));
  return boxes;
}

std::string write_detection_label(const std::vector<TextBoxLabel>& boxes) {
  json list = json::array();
  for (const TextBoxLabel& box : boxes) {
    json points = json::array();
    for (const cv::Point2d& p : box.points) points.push_back({number(p.x), number(p.y)});
    list.push_back({{"transcription", box.text}, {"points", std::move(points)}});
  }
  return list.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace ocr
