#include "libocr/pipeline/options.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <type_traits>

#include "libocr/text/edit_distance.h"
#include "libtrain/core/error.h"

namespace ocr {
namespace {

using train::cat;
using train::ConfigError;

[[noreturn]] void fail(const std::string& where, const std::string& message) {
  throw ConfigError("", 0, 0, (where.empty() ? "" : where + ": ") + message);
}

std::string trimmed(std::string_view s) {
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.front()))) s.remove_prefix(1);
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.back()))) s.remove_suffix(1);
  return std::string(s);
}

// A whole number or a decimal one, all of the text; locale does not matter.
template <class T>
bool parse_number(std::string_view text, T& value) {
  const std::string s = trimmed(text);
  const char* begin = s.c_str() + (s.starts_with("+") ? 1 : 0);
  const auto [end, error] = std::from_chars(begin, s.data() + s.size(), value);
  if (error != std::errc() || end != s.data() + s.size()) return false;
  if constexpr (std::is_floating_point_v<T>) return std::isfinite(value);
  return true;
}

void check_range(const OptionSpec& spec, double value, const std::string& where) {
  if (spec.min == spec.max || (value >= spec.min && value <= spec.max)) return;
  fail(where, cat(spec.name, " must be between ", spec.min, " and ", spec.max, ", not ", value));
}

void parse_value(const OptionSpec& spec, std::string_view text, const std::string& where,
                 bool& out) {
  const int b = parse_bool(text);
  if (b < 0) fail(where, cat(spec.name, " is true or false, not '", text, "'"));
  out = b == 1;
}

template <class T>
requires(std::is_same_v<T, int> ||
         std::is_same_v<T, double>) void parse_value(const OptionSpec& spec, std::string_view text,
                                                     const std::string& where, T& out) {
  T value{};
  if (!parse_number(text, value))
    fail(where, cat(spec.name, " must be a ", std::is_same_v<T, int> ? "whole number" : "number",
                    ", not '", text, "'"));
  check_range(spec, value, where);
  out = value;
}

void parse_value(const OptionSpec& spec, std::string_view text, const std::string& where,
                 std::string& out) {
  out = std::string(text);
  if (spec.choices.empty()) return;
  // Words are compared in lower case; true/false among the choices admits all spellings of bools.
  std::string word = trimmed(text);
  std::transform(word.begin(), word.end(), word.begin(), ::tolower);
  for (const char* c : spec.choices)
    if (word == c) return void(out = word);
  const int b = parse_bool(word);
  for (const char* c : spec.choices)
    if (b >= 0 && std::string_view(c) == (b ? "true" : "false")) return void(out = c);
  std::string list;
  for (const char* c : spec.choices) list += cat(list.empty() ? "" : ", ", c);
  fail(where, cat(spec.name, " is one of ", list, ", not '", text, "'"));
}

// What PaddleOCR puts around the numbers of its lists: '0', "180", 90_degree.
std::string bare_number(std::string_view text) {
  std::string s = trimmed(text);
  if (s.size() >= 2 && (s.front() == '\'' || s.front() == '"') && s.back() == s.front())
    s = s.substr(1, s.size() - 2);
  if (s.ends_with("_degree")) s.resize(s.size() - 7);
  return s;
}

// "3,48,320", also in brackets as PaddleOCR and YAML write lists.
template <class T>
void parse_value(const OptionSpec& spec, std::string_view text, const std::string& where,
                 std::vector<T>& out) {
  std::vector<T> values;
  std::string s = trimmed(text);
  if (s.size() >= 2 && s.front() == '[' && s.back() == ']') s = s.substr(1, s.size() - 2);
  for (size_t at = 0; at <= s.size();) {
    const size_t comma = std::min(s.find(',', at), s.size());
    T value{};
    if (!parse_number(bare_number(std::string_view(s).substr(at, comma - at)), value))
      fail(where, cat(spec.name, " must be numbers like ", spec.value, ", not '", text, "'"));
    values.push_back(value);
    at = comma + 1;
  }
  if (spec.numbers > 0 && static_cast<int>(values.size()) != spec.numbers)
    fail(where, cat(spec.name, " takes ", spec.numbers, " numbers, not '", text, "'"));
  const int least = spec.min == spec.max ? 1 : static_cast<int>(spec.min);
  const int most = spec.min == spec.max ? 4096 : static_cast<int>(spec.max);
  for (T v : values)
    if (std::is_same_v<T, int> && (v < least || v > most))
      fail(where, cat(spec.name, ": ", v, " is out of range"));
  out = values;
}

std::string quoted(const std::string& s) {
  std::string out = "\"";
  for (const char c : s) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) out += c;
  }
  return out + '"';
}
std::string number_text(double v) {
  char buffer[32];
  const auto r = std::to_chars(buffer, buffer + sizeof buffer, v);
  return {buffer, r.ptr};
}
std::string json_text(bool v) { return v ? "true" : "false"; }
std::string json_text(int v) { return std::to_string(v); }
std::string json_text(double v) { return number_text(v); }
std::string json_text(const std::string& v) { return quoted(v); }
template <class T>
std::string json_text(const std::vector<T>& v) {
  std::string out = "[";
  for (size_t i = 0; i < v.size(); ++i) out += (i ? ", " : "") + json_text(v[i]);
  return out + "]";
}

// Every setting with its spec, in the order of the help text: visit(spec, setting).
template <class Self, class Visit>
void each(Self& s, Visit&& v) {
  using S = OptionSpec;

  v(S{"models",
      "Models",
      "SET|DIR",
      "model set: fast (PP-OCRv6 tiny), accurate (PP-OCRv6 small), or a folder",
      {},
      {}},
    s.models);
  v(S{"det_model_dir",
      "Models",
      "PATH",
      "detector: an .onnx file or the folder it is in",
      {},
      {"det_model", "text_detection_model_dir"}},
    s.det_model_dir);
  v(S{"rec_model_dir",
      "Models",
      "PATH",
      "recogniser: an .onnx file or the folder it is in",
      {},
      {"rec_model", "text_recognition_model_dir"}},
    s.rec_model_dir);
  v(S{"cls_model_dir",
      "Models",
      "PATH",
      "line angle classifier (0/180 degrees)",
      {},
      {"cls_model", "textline_orientation_model_dir"}},
    s.cls_model_dir);
  v(S{"doc_model_dir",
      "Models",
      "PATH",
      "page orientation classifier (0/90/180/270 degrees)",
      {},
      {"doc_orientation_classify_model_dir"}},
    s.doc_model_dir);
  v(S{"rec_char_dict_path",
      "Models",
      "FILE",
      "dictionary, when the recogniser has none inside",
      {},
      {"rec_keys_path"}},
    s.rec_char_dict_path);
  v(S{"preset",
      "Models",
      "NAME",
      "settings of another program: ppocr2, ppocr3, rapidocr; none = the model's own",
      {"none", "ppocr2", "ppocr3", "rapidocr"},
      {}},
    s.preset);
  v(S{"task",
      "Task",
      "TASK",
      "e2e: whole pages; det: boxes; rec: crops of lines; cls: angles",
      {"e2e", "det", "rec", "cls"},
      {}},
    s.task);
  v(S{"use_angle_cls",
      "Task",
      "BOOL",
      "turn lines that are upside down: true, false, or auto (only lines that read badly)",
      {"true", "false", "auto"},
      {"use_textline_orientation", "use_cls"}},
    s.use_angle_cls);
  v(S{"use_doc_orientation_classify",
      "Task",
      "BOOL",
      "turn pages that lie on their side or head; coordinates stay those of the file",
      {},
      {"use_doc_orientation", "doc_orientation"}},
    s.use_doc_orientation_classify);
  v(S{"doc_thresh",
      "Task",
      "P",
      "below this the lines' own angles vote on a page's turn; 0: never",
      {},
      {},
      0,
      1},
    s.doc_thresh);
  v(S{"doc_label_list",
      "Task",
      "D,D,..",
      "degrees that the page classifier's classes stand for",
      {},
      {},
      0,
      359,
      true,
      0},
    s.doc_label_list);
  v(S{"det_limit_side_len",
      "Detection",
      "N",
      "the side that det_limit_type speaks of, in pixels",
      {},
      {"text_det_limit_side_len"},
      32,
      20000},
    s.det_limit_side_len);
  v(S{"det_limit_type",
      "Detection",
      "TYPE",
      "min: the short side is at least det_limit_side_len; max: the long side is at most that",
      {"min", "max", "resize_long"},
      {"text_det_limit_type"}},
    s.det_limit_type);
  v(S{"det_max_side_limit",
      "Detection",
      "N",
      "the long side never passes this",
      {},
      {"max_side_limit"},
      32,
      100000},
    s.det_max_side_limit);
  v(S{"det_resize_long",
      "Detection",
      "N",
      "instead of det_limit_*: the long side becomes this, sides are whole multiples of 128; 0 = "
      "no",
      {},
      {"resize_long"},
      0,
      20000},
    s.det_resize_long);
  v(S{"det_image_shape",
      "Detection",
      "H,W",
      "instead of det_limit_*: every page is resized to this; also C,H,W",
      {},
      {"text_det_input_shape"},
      1,
      20000,
      true,
      0},
    s.det_image_shape);
  v(S{"det_keep_ratio",
      "Detection",
      "BOOL",
      "with det_image_shape: its height, and the width that keeps the page's proportions",
      {},
      {}},
    s.det_keep_ratio);
  v(S{"det_db_thresh",
      "Detection",
      "P",
      "a pixel is text above this probability",
      {},
      {"text_det_thresh", "det_thresh"},
      0,
      1},
    s.det_db_thresh);
  v(S{"det_db_box_thresh",
      "Detection",
      "P",
      "a box is kept from this mean probability on",
      {},
      {"text_det_box_thresh", "det_box_thresh", "box_thresh"},
      0,
      1},
    s.det_db_box_thresh);
  v(S{"det_db_unclip_ratio",
      "Detection",
      "R",
      "how far a box grows around its core",
      {},
      {"text_det_unclip_ratio", "det_unclip_ratio", "unclip_ratio"},
      0,
      10},
    s.det_db_unclip_ratio);
  v(S{"det_max_candidates",
      "Detection",
      "N",
      "contours looked at per page",
      {},
      {"max_candidates"},
      1,
      1000000},
    s.det_max_candidates);
  v(S{"use_dilation",
      "Detection",
      "BOOL",
      "thicken the text map by a 2x2 kernel",
      {},
      {"det_use_dilation"}},
    s.use_dilation);
  v(S{"det_db_score_mode",
      "Detection",
      "MODE",
      "mean over the rectangle (fast) or contour (slow)",
      {"fast", "slow"},
      {"score_mode"}},
    s.det_db_score_mode);
  v(S{"det_box_type", "Detection", "TYPE", "quadrilaterals or polygons", {"quad", "poly"}, {}},
    s.det_box_type);
  v(S{"det_mean",
      "Detection",
      "A,B,C",
      "mean taken from each channel (blue, green, red) / 255",
      {},
      {}},
    s.det_mean);
  v(S{"det_std", "Detection", "A,B,C", "what each channel is divided by after that", {}, {}},
    s.det_std);
  v(S{"det_rescale",
      "Detection",
      "HOW",
      "rapidocr: bring the page to 30..2000 px and letterbox strips first",
      {"none", "rapidocr"},
      {}},
    s.det_rescale);
  v(S{"det_scale",
      "Detection",
      "HOW",
      "auto: a page with large letters is searched smaller, unless a det_limit_* is given; full",
      {"auto", "full"},
      {}},
    s.det_scale);
  v(S{"det_tile",
      "Detection",
      "WHEN",
      "search in overlapping tiles: auto (the page is too large for one piece), on, off",
      {"auto", "on", "off"},
      {}},
    s.det_tile);
  v(S{"det_tile_size", "Detection", "N", "side of a tile in pixels", {}, {}, 256, 8192},
    s.det_tile_size);
  v(S{"rec_image_shape",
      "Recognition",
      "C,H,W",
      "input of the recogniser; where you give it, W is the rec_min_width",
      {},
      {"text_rec_input_shape"}},
    s.rec_image_shape);
  v(S{"rec_min_width",
      "Recognition",
      "N",
      "shorter lines are padded to this width",
      {},
      {},
      8,
      4096},
    s.rec_min_width);
  v(S{"rec_keep_ratio",
      "Recognition",
      "BOOL",
      "false: every line is stretched or squashed to the width of rec_image_shape",
      {},
      {}},
    s.rec_keep_ratio);
  v(S{"rec_batch_num",
      "Recognition",
      "N",
      "lines of equal width computed at once; the text does not depend on it",
      {},
      {"text_recognition_batch_size", "rec_batch_size"},
      1,
      1024,
      false},
    s.rec_batch_num);
  v(S{"use_space_char", "Recognition", "BOOL", "the model's last class is the space", {}, {}},
    s.use_space_char);
  v(S{"rec_right_to_left",
      "Recognition",
      "BOOL",
      "text runs from right to left: true, false, or auto (a dictionary with arabic in its name)",
      {"true", "false", "auto"},
      {}},
    s.rec_right_to_left);
  v(S{"rec_recover_spaces",
      "Recognition",
      "BOOL",
      "put back spaces that the recogniser saw but did not say",
      {},
      {"recover_spaces"}},
    s.rec_recover_spaces);
  v(S{"rec_space_prob", "Recognition", "P", "least probability of such a space", {}, {}, 0, 1},
    s.rec_space_prob);
  v(S{"rec_space_gap", "Recognition", "R", "least gap, in median gaps of the line", {}, {}, 0, 100},
    s.rec_space_gap);
  v(S{"drop_score",
      "Recognition",
      "P",
      "lines that score less are left out",
      {},
      {"text_rec_score_thresh", "text_score"},
      0,
      1},
    s.drop_score);
  v(S{"cls_image_shape", "Angle classifier", "C,H,W", "its input", {}, {}}, s.cls_image_shape);
  v(S{"label_list",
      "Angle classifier",
      "D,D",
      "degrees that its classes stand for",
      {},
      {"cls_label_list"},
      0,
      359,
      true,
      0},
    s.label_list);
  v(S{"cls_batch_num",
      "Angle classifier",
      "N",
      "lines at once",
      {},
      {"textline_orientation_batch_size"},
      1,
      1024,
      false},
    s.cls_batch_num);
  v(S{"cls_thresh",
      "Angle classifier",
      "P",
      "a line is turned above this probability",
      {},
      {},
      0,
      1},
    s.cls_thresh);
  v(S{"reading_order",
      "Results",
      "ORDER",
      "columns: column by column; rows: top to bottom, then left to right",
      {"columns", "rows"},
      {}},
    s.reading_order);
  v(S{"return_word_box",
      "Results",
      "BOOL",
      "boxes of words and characters in the JSON",
      {},
      {"word_boxes"}},
    s.return_word_box);
  v(S{"dpi", "Pages", "N", "resolution at which PDF pages are drawn", {}, {}, 36, 1200}, s.dpi);
  v(S{"pages", "Pages", "RANGE", "pages of PDF and TIFF files, e.g. 1-3,7 (default: all)", {}, {}},
    s.pages);
  v(S{"exif", "Pages", "BOOL", "honour the camera's orientation mark", {}, {"use_exif"}}, s.exif);
  v(S{"precision",
      "Resources",
      "TYPE",
      "arithmetic of the nets: fp32, bf16 with AVX512-BF16, or auto: bf16 for recognisers known to "
      "read alike",
      {"auto", "fp32", "bf16", "fp16", "int8"},
      {}},
    s.precision);
  v(S{"threads",
      "Resources",
      "N",
      "threads that work on one page (0 = choose)",
      {},
      {"cpu_threads", "num_threads"},
      0,
      1024,
      false},
    s.threads);
  v(S{"jobs",
      "Resources",
      "N",
      "pages worked on at once (0 = choose)",
      {},
      {"total_process_num"},
      0,
      1024,
      false},
    s.jobs);
  v(S{"max_memory",
      "Resources",
      "BYTES",
      "memory to stay within, e.g. 1500M (0 = choose)",
      {},
      {"max_mem"},
      0,
      0,
      false},
    s.max_memory);
  v(S{"dump_stages",
      "Debugging",
      "DIR",
      "write what each stage of the pipeline made",
      {},
      {},
      0,
      0,
      false},
    s.dump_stages);
}

bool has_name(const OptionSpec& spec, std::string_view name) {
  if (name == spec.name) return true;
  return std::any_of(spec.aliases.begin(), spec.aliases.end(),
                     [&](const char* a) { return name == a; });
}

struct PresetValue {
  const char* preset;
  const char* name;
  const char* value;
};
// PaddleOCR 2.x predict_system, PaddleOCR 3.x pipelines, RapidOCR 3.10.
constexpr PresetValue kPresets[] = {
    {"ppocr2", "det_limit_side_len", "960"},
    {"ppocr2", "det_limit_type", "max"},
    {"ppocr2", "rec_min_width", "320"},
    {"ppocr2", "rec_recover_spaces", "false"},
    {"ppocr2", "use_angle_cls", "false"},
    {"ppocr2", "reading_order", "rows"},
    {"ppocr2", "drop_score", "0.5"},
    {"ppocr2", "precision", "fp32"},
    {"ppocr3", "det_limit_side_len", "64"},
    {"ppocr3", "det_limit_type", "min"},
    {"ppocr3", "det_max_side_limit", "4000"},
    {"ppocr3", "rec_min_width", "320"},
    {"ppocr3", "rec_recover_spaces", "false"},
    {"ppocr3", "use_angle_cls", "true"},
    {"ppocr3", "cls_thresh", "0"},
    {"ppocr3", "doc_thresh", "0"},
    {"ppocr3", "reading_order", "rows"},
    {"ppocr3", "drop_score", "0"},
    {"ppocr3", "precision", "fp32"},
    {"rapidocr", "det_limit_side_len", "736"},
    {"rapidocr", "det_limit_type", "min"},
    {"rapidocr", "det_max_side_limit", "100000"},
    {"rapidocr", "det_mean", "0.5,0.5,0.5"},
    {"rapidocr", "det_std", "0.5,0.5,0.5"},
    {"rapidocr", "det_db_thresh", "0.3"},
    {"rapidocr", "det_db_box_thresh", "0.5"},
    {"rapidocr", "det_db_unclip_ratio", "1.6"},
    {"rapidocr", "det_max_candidates", "1000"},
    {"rapidocr", "use_dilation", "true"},
    {"rapidocr", "det_db_score_mode", "fast"},
    {"rapidocr", "det_rescale", "rapidocr"},
    {"rapidocr", "rec_min_width", "320"},
    {"rapidocr", "rec_recover_spaces", "false"},
    {"rapidocr", "use_angle_cls", "true"},
    {"rapidocr", "precision", "fp32"},
    {"rapidocr", "cls_thresh", "0.9"},
    {"rapidocr", "reading_order", "rows"},
    {"rapidocr", "drop_score", "0.5"},
};

}  // namespace

const char* name_of(Source source) {
  constexpr const char* names[] = {"default", "preset", "inference.yml", "metadata",
                                   "preset",  "config", "flag"};
  return names[static_cast<int>(source)];
}

std::vector<OptionSpec> option_specs() {
  std::vector<OptionSpec> specs;
  Options options;
  each(options, [&](const OptionSpec& spec, auto&) { specs.push_back(spec); });
  return specs;
}

bool set_option(Options& options, std::string_view name, std::string_view text, Source source,
                const std::string& where) {
  const std::string key = canonical_name(name);
  bool found = false;
  each(options, [&](const OptionSpec& spec, auto& setting) {
    if (found || !has_name(spec, key)) return;
    found = true;
    auto value = setting.value;
    parse_value(spec, text, where, value);  // a wrong value is an error even where it would lose
    if (source < setting.source) return;
    setting.value = std::move(value);
    setting.source = source;
    setting.where = where;
  });
  return found;
}

void apply_preset(Options& options, std::string_view preset) {
  if (preset == "none") return;
  bool known = false;
  for (const PresetValue& p : kPresets)
    if (preset == p.preset) {
      known = true;
      // RapidOCR does not read inference.yml, so its values must stand above the model's files.
      const Source source = preset == "rapidocr" ? Source::kPinned : Source::kPreset;
      set_option(options, p.name, p.value, source, std::string(preset));
    }
  if (!known) fail("", cat("there is no preset '", preset, "': ppocr2, ppocr3 or rapidocr"));
}

std::string nearest_name(std::string_view name, std::span<const std::string> known) {
  std::string best;
  int64_t least = 1 + std::clamp<int64_t>(static_cast<int64_t>(name.size()) / 4, 1, 3);
  for (const std::string& k : known) {
    const int64_t d = edit_distance(name, std::string_view(k));
    if (d < least) least = d, best = k;
  }
  // Two letters swapped are one slip, though two edits.
  if (best.empty())
    for (const std::string& k : known)
      if (k.size() == name.size() && k.size() >= 3) {
        const auto at =
            static_cast<size_t>(std::mismatch(k.begin(), k.end(), name.begin()).first - k.begin());
        if (at + 1 < k.size() && k[at] == name[at + 1] && k[at + 1] == name[at] &&
            std::string_view(k).substr(at + 2) == name.substr(at + 2))
          best = k;
      }
  // A word left out or added (det_limit_side, limit_side_len) is a likely slip, too.
  if (best.empty() && name.size() >= 5)
    for (const std::string& k : known)
      if ((k.find(name) != k.npos || std::string(name).find(k) != k.npos) &&
          (best.empty() || k.size() < best.size()) && k.size() >= 5)
        best = k;
  return best;
}

std::string canonical_name(std::string_view name) {
  std::string out(name);
  for (char& c : out) c = c == '-' ? '_' : static_cast<char>(std::tolower(c));
  return out;
}

int parse_bool(std::string_view text) {
  std::string s = trimmed(text);
  std::transform(s.begin(), s.end(), s.begin(), ::tolower);
  for (const char* yes : {"true", "1", "yes", "on", "t", "y"})
    if (s == yes) return 1;
  for (const char* no : {"false", "0", "no", "off", "f", "n"})
    if (s == no) return 0;
  return -1;
}

int64_t parse_bytes(std::string_view text) {
  std::string s = trimmed(text);
  std::transform(s.begin(), s.end(), s.begin(), ::toupper);
  if (s.ends_with("IB"))
    s.resize(s.size() - 2);
  else if (s.ends_with("B"))
    s.resize(s.size() - 1);
  double scale = 1;
  const std::string_view units = "KMGT";
  if (!s.empty() && units.find(s.back()) != units.npos) {
    scale = std::exp2(10.0 * static_cast<double>(units.find(s.back()) + 1));
    s.pop_back();
  }
  double value = 0;
  if (!parse_number(s, value) || value < 0 || value * scale > 1e15)
    fail("", cat("'", text, "' is not an amount of memory; write e.g. 1500M or 2G"));
  return static_cast<int64_t>(value * scale);
}

std::vector<OptionText> describe_options(const Options& options) {
  std::vector<OptionText> out;
  each(options, [&](const OptionSpec& spec, const auto& s) {
    out.push_back({spec.name, json_text(s.value), s.where, s.source, spec.affects_text});
  });
  return out;
}

}  // namespace ocr
