#include "libocr/metrics/recognition_metric.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "libocr/text/edit_distance.h"
#include "libocr/text/utf8.h"

namespace ocr {
namespace {

constexpr size_t kWorst = 100;

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  bool inside = false;
  for (const char32_t c : to_code_points(text)) {
    if (is_space(c)) {
      inside = false;
      continue;
    }
    if (!inside) words.emplace_back();
    inside = true;
    append_utf8(c, &words.back());
  }
  return words;
}

double part(double of, int64_t whole) { return whole > 0 ? of / static_cast<double>(whole) : 0; }

std::string without_spaces(std::string_view text) {
  std::string out(text);
  std::erase(out, ' ');
  return out;
}

// Upstream's _normalize_text: ASCII letters and digits, lower case.
std::string filtered(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c >= 'A' && c <= 'Z') out += static_cast<char>(c + 32);
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) out += c;
  }
  return out;
}

// Names sort in the order of their sizes.
std::string length_slice(size_t n) {
  if (n <= 1) return "length 01";
  if (n <= 5) return "length 02-05";
  if (n <= 10) return "length 06-10";
  if (n <= 25) return "length 11-25";
  return "length 26+";
}
std::string height_slice(int h) {
  if (h < 16) return "height 00-15";
  if (h < 24) return "height 16-23";
  if (h < 32) return "height 24-31";
  if (h < 48) return "height 32-47";
  return "height 48+";
}

nlohmann::ordered_json as_json(const TextScore& s) {
  return {{"lines", s.lines},
          {"acc", s.accuracy()},
          {"norm_edit_dis", s.norm_edit_dis()},
          {"cer", s.cer()},
          {"wer", s.wer()}};
}

void write_row(std::ostream& out, const std::string& name, const TextScore& s) {
  char row[160];
  std::snprintf(row, sizeof row,
                "  %-16s %7lld lines   acc %.4f   1-NED %.4f   CER %.4f   WER %.4f\n", name.c_str(),
                static_cast<long long>(s.lines), s.accuracy(), s.norm_edit_dis(), s.cer(), s.wer());
  out << row;
}

}  // namespace

void TextScore::add(std::string_view target, std::string_view prediction) {
  ++lines;
  exact += target == prediction;
  characters += static_cast<int64_t>(count_code_points(target));
  similarity += edit_similarity(target, prediction);
  const std::vector<std::string> wanted = words_of(target);
  words += static_cast<int64_t>(wanted.size());
  if (target == prediction) return;
  char_edits += edit_distance(target, prediction);
  word_edits += edit_distance(std::span<const std::string>(wanted),
                              std::span<const std::string>(words_of(prediction)));
}

void TextScore::merge(const TextScore& o) {
  lines += o.lines, exact += o.exact;
  characters += o.characters, char_edits += o.char_edits;
  words += o.words, word_edits += o.word_edits;
  similarity += o.similarity;
}

double TextScore::accuracy() const { return part(static_cast<double>(exact), lines); }
double TextScore::norm_edit_dis() const { return part(similarity, lines); }
double TextScore::cer() const { return part(static_cast<double>(char_edits), characters); }
double TextScore::wer() const { return part(static_cast<double>(word_edits), words); }

void RecognitionMetric::add(const ReadLine& line) {
  strict_.add(line.target, line.prediction);
  folded_.add(fold_text(line.target), fold_text(line.prediction));
  std::string target = line.seen_target, prediction = line.prediction;
  if (options_.ignore_space) {
    target = without_spaces(target);
    prediction = without_spaces(prediction);
  }
  if (options_.is_filter) {
    target = filtered(target);
    prediction = filtered(prediction);
  }
  lenient_.add(target, prediction);
  confusions_.add(line.target, line.prediction);
  const size_t length = count_code_points(line.target);
  slices_[length_slice(length)].add(line.target, line.prediction);
  if (line.height > 0) slices_[height_slice(line.height)].add(line.target, line.prediction);
  slices_["script " + script_of(line.target)].add(line.target, line.prediction);
  if (line.target == line.prediction) return;
  const auto edits = static_cast<double>(edit_distance(line.target, line.prediction));
  worst_.emplace(edits / static_cast<double>(std::max<size_t>(1, length)), line);
  if (worst_.size() > kWorst) worst_.erase(worst_.begin());
}

std::vector<ReadLine> RecognitionMetric::worst(size_t count) const {
  std::vector<ReadLine> lines;
  for (auto it = worst_.rbegin(); it != worst_.rend() && lines.size() < count; ++it)
    lines.push_back(it->second);
  return lines;
}

std::string RecognitionMetric::json() const {
  nlohmann::ordered_json j{
      {"strict", as_json(strict_)}, {"folded", as_json(folded_)}, {"lenient", as_json(lenient_)}};
  for (const auto& [name, score] : slices_) j["slices"][name] = as_json(score);
  j["confusions"] = nlohmann::ordered_json::array();
  for (const Confusions::Pair& p : confusions_.top(100))
    j["confusions"].push_back(
        {{"target", p.reference}, {"read", p.hypothesis}, {"count", p.count}});
  j["worst"] = nlohmann::ordered_json::array();
  for (const ReadLine& l : worst(20))
    j["worst"].push_back(
        {{"name", l.name}, {"target", l.target}, {"read", l.prediction}, {"score", l.score}});
  return j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string RecognitionMetric::text() const {
  std::ostringstream out;
  write_row(out, "strict", strict_);
  write_row(out, "case folded", folded_);
  write_row(out, "as PaddleOCR", lenient_);
  for (const auto& [name, score] : slices_) write_row(out, name, score);
  const std::vector<Confusions::Pair> pairs = confusions_.top(12);
  if (!pairs.empty()) out << "  read for:";
  for (const Confusions::Pair& p : pairs)
    out << "  '" << p.hypothesis << "' for '" << p.reference << "' " << p.count;
  if (!pairs.empty()) out << "\n";
  return out.str();
}

std::string script_of(std::string_view text) {
  const char* found = nullptr;
  for (const char32_t c : to_code_points(text)) {
    const char* script = nullptr;
    if (c >= '0' && c <= '9') {
      if (!found) found = "digits";
      continue;
    }
    if ((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= 0xC0 && c < 0x250) ||
        (c >= 0x1E00 && c < 0x1F00))
      script = "Latin";
    else if (is_cjk(c))
      script = "CJK";
    else if (c >= 0x400 && c < 0x530)
      script = "Cyrillic";
    else if (c >= 0x600 && c < 0x700)
      script = "Arabic";
    else if (c >= 0x250 && !(c >= 0x2000 && c < 0x2BFF))
      script = "other";
    if (!script) continue;
    if (found && std::string_view(found) != "digits" && std::string_view(found) != script)
      return "mixed";
    found = script;
  }
  return found ? found : "signs";
}

std::string fold_text(std::string_view text) {
  std::string out;
  for (const std::string& word : words_of(text)) {
    if (!out.empty()) out += ' ';
    for (const char c : word) out += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  }
  return out;
}

}  // namespace ocr
