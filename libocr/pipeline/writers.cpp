#include "libocr/pipeline/writers.h"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "libocr/text/utf8.h"
#include "libtrain/core/error.h"

namespace ocr {
namespace {

using Json = nlohmann::ordered_json;

// Five decimals are more than the networks' own noise, and keep the files small.
double rounded(double v, double scale = 1e5) { return std::round(v * scale) / scale; }

Json number(double v) {
  const double r = rounded(v, 100);  // coordinates: hundredths of a pixel
  if (r == std::floor(r)) return static_cast<int64_t>(r);
  return r;
}

template <class Points>
Json points_json(const Points& points) {
  Json out = Json::array();
  for (const Point2f& p : points) out.push_back(Json::array({number(p.x), number(p.y)}));
  return out;
}

// Corners as whole pixels, as PaddleOCR's tools expect them.
template <class Points>
Json whole_points(const Points& points) {
  Json out = Json::array();
  for (const Point2f& p : points) out.push_back(Json::array({std::lround(p.x), std::lround(p.y)}));
  return out;
}

std::string dump(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

Json parts_json(const std::vector<TextPart>& parts) {
  Json out = Json::array();
  for (const TextPart& p : parts) {
    Json j;
    j["text"] = p.text;
    j["score"] = rounded(p.score);
    j["points"] = points_json(p.box);
    if (p.recovered) j["recovered"] = true;
    out.push_back(std::move(j));
  }
  return out;
}

Json line_json(const TextLine& line, const std::string& task) {
  Json j;
  if (task == "e2e" || task == "det") {
    j["points"] = points_json(line.points);
    j["det_score"] = rounded(line.det_score);
  }
  if (task == "e2e" || task == "rec") {
    j["text"] = line.text;
    j["score"] = rounded(line.score);
    if (line.vertical) j["vertical"] = true;
  }
  if (task == "cls" || line.angle_score > 0) {
    j["angle"] = line.angle;
    j["angle_score"] = rounded(line.angle_score);
  }
  if (!line.words.empty()) j["words"] = parts_json(line.words);
  if (!line.chars.empty()) j["chars"] = parts_json(line.chars);
  return j;
}

Json page_json(const PageResult& page, const RunInfo& run) {
  Json j;
  j["page"] = page.index + 1;
  j["width"] = page.width;
  j["height"] = page.height;
  if (page.dpi > 0)
    j["dpi"] = rounded(page.dpi, 100);
  else
    j["dpi"] = nullptr;
  j["exif_orientation"] = page.exif_orientation;
  j["rotation"] = page.rotation;
  if (page.rotation_score > 0) j["rotation_score"] = rounded(page.rotation_score);
  if (page.tiles > 1) j["tiles"] = page.tiles;
  if (!page.warnings.empty()) j["warnings"] = page.warnings;
  j["lines"] = Json::array();
  for (const TextLine& line : page.lines) j["lines"].push_back(line_json(line, run.task));
  return j;
}

Json run_json(const RunInfo& run) {
  Json j;
  j["schema"] = kSchema;
  j["program"] = "ocr " + run.version;
  j["task"] = run.task;
  j["models"] = Json::object();
  for (const ModelNote& m : run.models)
    j["models"][m.kind] = Json{{"path", m.path}, {"sha256", m.sha256}, {"precision", m.precision}};
  j["settings"] = Json::object();
  for (const OptionText& o : run.settings) {
    if (!o.affects_text) continue;  // equal pages give equal files, whatever the thread count
    Json s;
    s["value"] = Json::parse(o.json);
    s["from"] = name_of(o.source);
    if (!o.where.empty()) s["where"] = o.where;
    j["settings"][o.name] = std::move(s);
  }
  return j;
}

Json document_json(const DocumentResult& document, const RunInfo& run) {
  Json j = run_json(run);
  j["file"] = document.path;
  if (!document.error.empty()) j["error"] = document.error;
  j["pages"] = Json::array();
  for (const PageResult& page : document.pages) j["pages"].push_back(page_json(page, run));
  return j;
}

// PaddleOCR 2.x: name<TAB>[{"transcription": ..., "points": ...}, ...]
std::string paddle_line(const PageResult& page, const std::string& key) {
  Json list = Json::array();
  for (const TextLine& line : page.lines) {
    Json j;
    j["transcription"] = line.text;
    j["points"] = whole_points(line.points);
    j["difficult"] = false;
    list.push_back(std::move(j));
  }
  return repair_utf8(key) + "\t" + dump(list) + "\n";
}

// PaddleOCR 3.x: the fields of its result JSON.
Json paddle3_json(const DocumentResult& document, const PageResult& page, const RunInfo& run) {
  Json j;
  j["input_path"] = document.path;
  if (document.page_count > 1)
    j["page_index"] = page.index;
  else
    j["page_index"] = nullptr;
  j["model_settings"] =
      Json{{"use_doc_preprocessor", page.rotation_score > 0}, {"use_textline_orientation", false}};
  for (const OptionText& o : run.settings) {
    if (o.name == "use_angle_cls")
      j["model_settings"]["use_textline_orientation"] = o.json != "\"false\"";
    if (o.name == "drop_score") j["text_rec_score_thresh"] = Json::parse(o.json);
  }
  j["dt_polys"] = j["rec_polys"] = j["rec_texts"] = j["rec_scores"] = j["rec_boxes"] =
      j["textline_orientation_angles"] = Json::array();
  for (const Polygon& p : page.detected) j["dt_polys"].push_back(whole_points(p));
  for (const TextLine& line : page.lines) {
    j["rec_polys"].push_back(whole_points(line.points));
    j["rec_texts"].push_back(line.text);
    j["rec_scores"].push_back(rounded(line.score));
    j["textline_orientation_angles"].push_back(line.angle == 180 ? 1 : 0);
    if (line.points.empty()) continue;
    float x0 = line.points[0].x, y0 = line.points[0].y, x1 = x0, y1 = y0;
    for (const Point2f& p : line.points) {
      x0 = std::min(x0, p.x), x1 = std::max(x1, p.x);
      y0 = std::min(y0, p.y), y1 = std::max(y1, p.y);
    }
    j["rec_boxes"].push_back(
        Json::array({std::lround(x0), std::lround(y0), std::lround(x1), std::lround(y1)}));
  }
  return j;
}

// A field of a tab-separated line cannot hold tabs or line ends.
std::string field(const std::string& s) {
  std::string out = repair_utf8(s);
  for (char& c : out)
    if (c == '\t' || c == '\n' || c == '\r') c = ' ';
  return out;
}

std::string score_text(double score) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.4f", score);
  return buffer;
}

std::string tsv_lines(const PageResult& page, const RunInfo& run, const std::string& key) {
  std::string out;
  int n = 0;
  const bool angle = run.task == "cls";  // in place of text
  for (const TextLine& line : page.lines) {
    out += field(key) + "\t" + std::to_string(page.index + 1) + "\t" + std::to_string(++n) + "\t" +
           score_text(angle ? line.angle_score : line.score) + "\t" +
           dump(points_json(line.points)) + "\t" +
           (angle ? std::to_string(line.angle) : field(line.text)) + "\n";
  }
  return out;
}

std::string text_lines(const PageResult& page, const RunInfo& run, const std::string& key) {
  std::string out;
  for (const TextLine& line : page.lines) {
    if (run.task == "rec")
      out += field(key) + "\t" + field(line.text) + "\t" + score_text(line.score) + "\n";
    else if (run.task == "cls")
      out += field(key) + "\t" + std::to_string(line.angle) + "\t" + score_text(line.angle_score) +
             "\n";
    else if (run.task == "det")
      out += dump(points_json(line.points)) + "\n";
    else
      out += field(line.text) + "\n";
  }
  return out;
}

}  // namespace

Format parse_format(std::string_view name) {
  constexpr std::pair<const char*, Format> names[] = {
      {"text", Format::kText},      {"txt", Format::kText},       {"json", Format::kJson},
      {"jsonl", Format::kJsonl},    {"tsv", Format::kTsv},        {"paddle", Format::kPaddle},
      {"paddle2", Format::kPaddle}, {"paddle3", Format::kPaddle3}};
  for (const auto& [n, f] : names)
    if (name == n) return f;
  throw train::ConfigError(
      "", 0, 0,
      train::cat("there is no format '", name, "': text, json, jsonl, tsv, paddle or paddle3"));
}

const char* extension_of(Format format) {
  switch (format) {
    case Format::kJson:
    case Format::kPaddle3:
      return ".json";
    case Format::kJsonl:
      return ".jsonl";
    case Format::kTsv:
      return ".tsv";
    default:
      return ".txt";
  }
}

std::string header_of(Format format) {
  return format == Format::kTsv ? "file\tpage\tline\tscore\tpoints\ttext\n" : "";
}

std::string page_key(const DocumentResult& document, const PageResult& page,
                     const std::string& key) {
  return document.page_count > 1 ? key + "#" + std::to_string(page.index + 1) : key;
}

std::string write_page(const DocumentResult& document, const PageResult& page, const RunInfo& run,
                       Format format, const std::string& key) {
  switch (format) {
    case Format::kText:
      return text_lines(page, run, key);
    case Format::kTsv:
      return tsv_lines(page, run, key);
    case Format::kPaddle:
      return paddle_line(page, page_key(document, page, key));
    case Format::kPaddle3:
      return dump(paddle3_json(document, page, run)) + "\n";
    case Format::kJsonl: {
      Json j;
      j["file"] = document.path;
      j.update(page_json(page, run));
      return dump(j) + "\n";
    }
    default:
      return dump(document_json(document, run), 1) + "\n";
  }
}

std::string write_document(const DocumentResult& document, const RunInfo& run, Format format,
                           const std::string& key) {
  std::string out;
  if (format == Format::kJson) return dump(document_json(document, run), 1) + "\n";
  if (format == Format::kPaddle3 && document.page_count != 1) {
    Json list = Json::array();
    for (const PageResult& page : document.pages) list.push_back(paddle3_json(document, page, run));
    return dump(list, 1) + "\n";
  }
  for (const PageResult& page : document.pages) {
    if (format == Format::kText && !out.empty() && run.task == "e2e") out += "\n";
    out += write_page(document, page, run, format, key);
  }
  return out;
}

std::string write_error_line(const DocumentResult& document) {
  return dump(Json{{"file", document.path}, {"error", document.error}}) + "\n";
}

std::string write_summary(const RunSummary& summary, const RunInfo& run) {
  Json j = run_json(run);
  j["documents"] = summary.documents;
  j["pages"] = summary.pages;
  j["lines"] = summary.lines;
  j["failed"] = summary.failed;
  j["skipped"] = summary.skipped;
  j["interrupted"] = summary.interrupted;
  j["seconds"] = rounded(summary.seconds, 1000);
  j["errors"] = Json::array();
  for (const auto& [path, message] : summary.errors)
    j["errors"].push_back(Json{{"file", path}, {"error", message}});
  return dump(j, 1) + "\n";
}

}  // namespace ocr
