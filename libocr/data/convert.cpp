#include "libocr/data/convert.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>

#include "libocr/data/label_file.h"
#include "libocr/text/utf8.h"
#include "libtrain/core/error.h"

namespace ocr {
namespace {

namespace fs = std::filesystem;
using train::cat;

constexpr size_t kMaxFile = size_t{64} << 20;

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(kMaxFile + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() > kMaxFile) throw train::FormatError(cat(path.string(), ": over 64 MB"));
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);
  return text;
}

std::optional<double> number(std::string_view t) {
  while (!t.empty() && t.front() == ' ') t.remove_prefix(1);
  while (!t.empty() && t.back() == ' ') t.remove_suffix(1);
  double v = 0;
  const auto [end, error] = std::from_chars(t.data(), t.data() + t.size(), v);
  if (t.empty() || error != std::errc() || end != t.data() + t.size() || !(std::abs(v) < 1e7))
    return std::nullopt;
  return v;
}

PolygonD rectangle(double x0, double y0, double x1, double y1) {
  return {{x0, y0}, {x1, y0}, {x1, y1}, {x0, y1}};
}

// A tag of XML and what its attributes say; text between tags is handed out by the scanner.
struct Tag {
  std::string name;  // without a namespace's prefix; "/name" for an end
  std::map<std::string, std::string> attributes;
  bool empty = false;  // <a/>
};

std::string unescaped(std::string_view t) {
  std::string out;
  for (size_t i = 0; i < t.size();) {
    const size_t end = t[i] == '&' ? t.find(';', i) : t.npos;
    if (end == t.npos || end - i > 10) {
      out += t[i++];
      continue;
    }
    const std::string_view name = t.substr(i + 1, end - i - 1);
    uint32_t code = 0;
    if (name == "amp")
      code = '&';
    else if (name == "lt")
      code = '<';
    else if (name == "gt")
      code = '>';
    else if (name == "quot")
      code = '"';
    else if (name == "apos")
      code = '\'';
    else if (name.starts_with("#")) {
      const bool hex = name.size() > 1 && (name[1] == 'x' || name[1] == 'X');
      const std::string_view digits = name.substr(hex ? 2 : 1);
      std::from_chars(digits.data(), digits.data() + digits.size(), code, hex ? 16 : 10);
    }
    if (code) append_utf8(code, &out);
    i = end + 1;
  }
  return out;
}

// A scanner, not a parser: enough for files that programs write. Nothing is loaded, no entity of a
// DOCTYPE is followed, so that hostile files can only be wrong.
class XmlScanner {
 public:
  explicit XmlScanner(std::string_view text) : rest_(text) {}

  /// The next tag; `text` is what stood before it.
  std::optional<Tag> next(std::string& text) {
    text.clear();
    for (;;) {
      const size_t open = rest_.find('<');
      if (open == rest_.npos) return std::nullopt;
      text += unescaped(rest_.substr(0, open));
      rest_.remove_prefix(open);
      if (rest_.starts_with("<!--")) {
        skip("-->");
      } else if (rest_.starts_with("<![CDATA[")) {
        const size_t end = std::min(rest_.find("]]>"), rest_.size());
        text += rest_.substr(9, end > 9 ? end - 9 : 0);
        skip("]]>");
      } else if (rest_.starts_with("<!") || rest_.starts_with("<?")) {
        skip(">");
      } else {
        return tag();
      }
    }
  }

 private:
  void skip(std::string_view end) {
    const size_t at = rest_.find(end);
    rest_.remove_prefix(at == rest_.npos ? rest_.size() : at + end.size());
  }
  static bool is_space_char(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
  std::optional<Tag> tag() {
    size_t end = 1;
    for (char quote = 0; end < rest_.size() && (quote || rest_[end] != '>'); ++end) {
      if (quote && rest_[end] == quote)
        quote = 0;
      else if (!quote && (rest_[end] == '"' || rest_[end] == '\''))
        quote = rest_[end];
    }
    if (end >= rest_.size()) return std::nullopt;
    std::string_view body = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    Tag tag;
    tag.empty = body.ends_with('/');
    if (tag.empty) body.remove_suffix(1);
    size_t at = 0;
    while (at < body.size() && !is_space_char(body[at])) ++at;
    std::string_view name = body.substr(0, at);
    const bool closing = name.starts_with('/');
    if (closing) name.remove_prefix(1);
    if (const size_t colon = name.find(':'); colon != name.npos) name.remove_prefix(colon + 1);
    tag.name = (closing ? "/" : "") + std::string(name);
    attributes(body.substr(at), tag);
    return tag;
  }
  static void attributes(std::string_view body, Tag& tag) {
    while (!body.empty()) {
      const size_t equals = body.find('=');
      if (equals == body.npos) return;
      std::string_view key = body.substr(0, equals);
      while (!key.empty() && is_space_char(key.front())) key.remove_prefix(1);
      while (!key.empty() && is_space_char(key.back())) key.remove_suffix(1);
      const size_t open = body.find_first_of("\"'", equals);
      const size_t close = open == body.npos ? open : body.find(body[open], open + 1);
      if (close == body.npos) return;
      tag.attributes[std::string(key)] = unescaped(body.substr(open + 1, close - open - 1));
      body.remove_prefix(close + 1);
    }
  }
  std::string_view rest_;
};

double attribute(const Tag& t, const char* name) {
  const auto it = t.attributes.find(name);
  return it == t.attributes.end() ? 0 : number(it->second).value_or(0);
}

PolygonD points_of(const std::string& text) {
  PolygonD points;
  std::istringstream in(text);
  for (std::string pair; in >> pair;) {
    const size_t comma = pair.find(',');
    if (comma == pair.npos) return {};
    const auto x = number(std::string_view(pair).substr(0, comma));
    const auto y = number(std::string_view(pair).substr(comma + 1));
    if (!x || !y) return {};
    points.emplace_back(*x, *y);
  }
  return points;
}

std::string trimmed(std::string_view t) {
  const auto space = [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; };
  while (!t.empty() && space(t.front())) t.remove_prefix(1);
  while (!t.empty() && space(t.back())) t.remove_suffix(1);
  return std::string(t);
}

constexpr const char* kEndings[] = {".jpg",  ".png", ".jpeg", ".tif",
                                    ".tiff", ".bmp", ".webp", ".JPG"};

std::optional<fs::path> picture_of(const fs::path& folder, const std::string& stem) {
  std::error_code error;
  for (const char* ending : kEndings)
    if (fs::path p = folder / (stem + ending); fs::is_regular_file(p, error)) return p;
  return std::nullopt;
}

std::string relative_to(const fs::path& path, const std::string& base) {
  std::error_code error;
  const fs::path r = fs::relative(path, base, error);
  return error || r.empty() ? path.string() : r.string();
}

// PPOCRLabel writes paths relative to the folder above the one that it labelled.
std::vector<LabelledImage> read_ppocrlabel(const std::string& input, const std::string& images,
                                           const std::string& base, SkipReport& skips) {
  const LabelFile file = read_label_file(input);
  skips.merge(file.skips);
  const fs::path folder = fs::path(input).parent_path();
  std::vector<LabelledImage> out;
  for (const LabelLine& line : file.lines) {
    const fs::path name{std::string(line.path)};
    std::optional<fs::path> found;
    std::error_code error;
    for (const fs::path& p :
         {images.empty() ? folder / name : fs::path(images) / name, folder.parent_path() / name,
          folder / name.filename(), fs::path(images) / name.filename()})
      if (!found && fs::is_regular_file(p, error)) found = p;
    if (!found) {
      skips.add(SkippedSample(Skip::kImageMissing, file.name, line.line,
                              cat(name.string(), ": not found; name its folder with --images")));
      continue;
    }
    out.push_back({relative_to(*found, base), std::string(line.label)});
  }
  return out;
}

// The stem of the picture that a label file belongs to; nothing for other files.
std::optional<std::string> stem_of(LabelFormat format, const fs::path& file) {
  const std::string name = file.filename().string();
  if (format == LabelFormat::kIcdar && name.starts_with("gt_") && name.ends_with(".txt"))
    return name.substr(3, name.size() - 7);
  if (format == LabelFormat::kGtTxt && name.ends_with(".gt.txt"))
    return name.substr(0, name.size() - 7);
  if (format == LabelFormat::kXml && name.ends_with(".xml")) return name.substr(0, name.size() - 4);
  return std::nullopt;
}

std::string label_of(LabelFormat format, const std::string& text, const std::string& name) {
  if (format == LabelFormat::kIcdar) return write_detection_label(parse_icdar(text, name));
  if (format == LabelFormat::kXml) return write_detection_label(parse_layout_xml(text, name));
  std::string line = trimmed(text);
  if (line.find_first_of("\n\t") != line.npos)
    throw train::FormatError(cat(name, ": more than one line, or a tab"));
  return line;
}

}  // namespace

std::vector<TextBoxLabel> parse_icdar(std::string_view text, const std::string& name) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  std::vector<TextBoxLabel> boxes;
  for (long line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view row = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (row.ends_with('\r')) row.remove_suffix(1);
    if (row.empty()) continue;
    if (!is_valid_utf8(row)) throw train::DataError(name, line, "not UTF-8");
    std::vector<double> v;
    std::string_view rest = row;
    while (v.size() < 8) {
      const size_t comma = rest.find(',');
      const std::optional<double> n = number(rest.substr(0, comma));
      if (comma == rest.npos || !n) break;
      v.push_back(*n);
      rest.remove_prefix(comma + 1);
    }
    TextBoxLabel box;
    if (v.size() == 8) {
      for (size_t i = 0; i < 8; i += 2) box.points.emplace_back(v[i], v[i + 1]);
    } else if (v.size() == 4) {
      box.points = rectangle(v[0], v[1], v[2], v[3]);
    } else {
      throw train::DataError(name, line, "not x1,y1,x2,y2,x3,y3,x4,y4,text nor x1,y1,x2,y2,text");
    }
    if (rest.starts_with(' ')) rest.remove_prefix(1);
    if (rest.size() >= 2 && rest.front() == '"' && rest.back() == '"')
      rest = rest.substr(1, rest.size() - 2);
    box.text = rest;
    boxes.push_back(std::move(box));
  }
  return boxes;
}

std::vector<TextBoxLabel> parse_layout_xml(std::string_view text, const std::string& name) {
  XmlScanner scanner(text);
  std::vector<TextBoxLabel> lines;
  TextBoxLabel line;
  bool known = false, inside = false, in_word = false;
  std::string between;
  while (const std::optional<Tag> tag = scanner.next(between)) {
    if (tag->name == "alto" || tag->name == "PcGts") known = true;
    if (tag->name == "TextLine") {
      line = {};
      inside = !tag->empty;
      if (tag->attributes.count("HPOS")) {
        const double x = attribute(*tag, "HPOS"), y = attribute(*tag, "VPOS");
        line.points = rectangle(x, y, x + attribute(*tag, "WIDTH"), y + attribute(*tag, "HEIGHT"));
      }
    } else if (inside && tag->name == "Word") {
      in_word = true;
    } else if (tag->name == "/Word") {
      in_word = false;
    } else if (inside && !in_word && tag->name == "Coords" && line.points.empty()) {
      line.points = points_of(tag->attributes.count("points") ? tag->attributes.at("points") : "");
    } else if (inside && tag->name == "String") {
      const auto content = tag->attributes.find("CONTENT");
      if (content == tag->attributes.end()) continue;
      line.text += (line.text.empty() ? "" : " ") + content->second;
    } else if (inside && !in_word && tag->name == "/Unicode") {
      line.text = trimmed(between);
    } else if (tag->name == "/TextLine" && inside) {
      inside = false;
      std::replace(line.text.begin(), line.text.end(), '\t', ' ');
      std::replace(line.text.begin(), line.text.end(), '\n', ' ');
      if (line.points.size() >= 3) lines.push_back(std::move(line));
    }
  }
  if (!known) throw train::FormatError(cat(name, ": neither ALTO nor PAGE"));
  return lines;
}

std::vector<LabelledImage> read_labels_of(LabelFormat format, const std::string& input,
                                          const std::string& images, const std::string& base,
                                          SkipReport& skips) {
  if (format == LabelFormat::kPpocrlabel) return read_ppocrlabel(input, images, base, skips);
  std::vector<fs::path> files;
  std::error_code error;
  if (fs::is_directory(input, error)) {
    for (const fs::directory_entry& e : fs::directory_iterator(input, error))
      files.push_back(e.path());
  } else {
    files.emplace_back(input);
  }
  if (error) throw train::FormatError(cat(input, ": cannot be read: ", error.message()));
  std::sort(files.begin(), files.end());
  std::vector<LabelledImage> out;
  for (const fs::path& file : files) {
    const std::optional<std::string> stem = stem_of(format, file);
    if (!stem) continue;
    const fs::path folder = images.empty() ? file.parent_path() : fs::path(images);
    const std::optional<fs::path> picture = picture_of(folder, *stem);
    if (!picture) {
      skips.add(SkippedSample(Skip::kImageMissing, file.string(), 0,
                              cat("no picture ", (folder / *stem).string(), ".jpg, .png, ...")));
      continue;
    }
    try {
      out.push_back(
          {relative_to(*picture, base), label_of(format, read_text(file), file.string())});
    } catch (const train::Error& e) {
      skips.add(Skip::kBadLabel, e.what());
    }
  }
  return out;
}

uint32_t crc32(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int k = 0; k < 8; ++k) crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

std::string page_key(std::string_view path) {
  if (const size_t slash = path.rfind('/'); slash != path.npos) path.remove_prefix(slash + 1);
  if (const size_t dot = path.rfind('.'); dot != path.npos && dot > 0) path = path.substr(0, dot);
  if (const size_t crop = path.rfind("_crop_"); crop != path.npos && crop > 0)
    path = path.substr(0, crop);
  return std::string(path);
}

bool held_back(std::string_view path, uint32_t parts) {
  return crc32(page_key(path)) % std::max(1u, parts) == 0;
}

}  // namespace ocr
