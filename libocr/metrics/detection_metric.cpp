#include "libocr/metrics/detection_metric.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libocr/metrics/recognition_metric.h"
#include "libocr/text/edit_distance.h"
#include "libocr/text/utf8.h"
#include "libtrain/core/error.h"

namespace ocr {
namespace {

using Json = nlohmann::ordered_json;

double cross(Point2f o, Point2f a, Point2f b) {
  return (static_cast<double>(a.x) - o.x) * (static_cast<double>(b.y) - o.y) -
         (static_cast<double>(a.y) - o.y) * (static_cast<double>(b.x) - o.x);
}

bool on_segment(Point2f a, Point2f b, Point2f p) {
  return cross(a, b, p) == 0 && std::min(a.x, b.x) <= p.x && p.x <= std::max(a.x, b.x) &&
         std::min(a.y, b.y) <= p.y && p.y <= std::max(a.y, b.y);
}

bool segments_meet(Point2f a, Point2f b, Point2f c, Point2f d) {
  const double p = cross(a, b, c), q = cross(a, b, d), r = cross(c, d, a), s = cross(c, d, b);
  if (((p > 0) != (q > 0)) && ((r > 0) != (s > 0)) && p != 0 && q != 0 && r != 0 && s != 0)
    return true;
  return on_segment(a, b, c) || on_segment(a, b, d) || on_segment(c, d, a) || on_segment(c, d, b);
}

struct Matching {
  std::vector<size_t> targets, boxes;  // those that are valid
  std::vector<uint8_t> ignored_target, ignored_box;
  std::vector<int> box_of;  // of each valid target; -1: none
};

Matching match(const std::vector<PageText>& targets, const std::vector<Polygon>& boxes) {
  Matching m;
  for (size_t i = 0; i < targets.size(); ++i) {
    if (!is_simple_polygon(targets[i].points)) continue;
    m.targets.push_back(i);
    m.ignored_target.push_back(targets[i].ignore);
  }
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (!is_simple_polygon(boxes[i])) continue;
    m.boxes.push_back(i);
    const double area = polygon_area(boxes[i]);
    bool ignored = false;
    for (const size_t t : m.targets)
      if (targets[t].ignore && !ignored)
        ignored = area > 0 && intersection_area(targets[t].points, boxes[i]) / area > 0.5;
    m.ignored_box.push_back(ignored);
  }
  m.box_of.assign(m.targets.size(), -1);
  std::vector<uint8_t> taken(m.boxes.size());
  for (size_t t = 0; t < m.targets.size(); ++t) {
    if (m.ignored_target[t]) continue;
    for (size_t b = 0; b < m.boxes.size(); ++b) {
      if (taken[b] || m.ignored_box[b]) continue;
      if (!(polygon_iou(targets[m.targets[t]].points, boxes[m.boxes[b]]) > 0.5)) continue;
      taken[b] = 1;
      m.box_of[t] = static_cast<int>(b);
      break;
    }
  }
  return m;
}

std::string height_of(const Polygon& p) {
  const float h = min_area_rect(p).short_side;
  if (h < 10) return "height 00-09";
  if (h < 20) return "height 10-19";
  if (h < 40) return "height 20-39";
  if (h < 80) return "height 40-79";
  return "height 80+";
}

Json as_json(const PrecisionRecall& p) {
  return {{"precision", p.precision()}, {"recall", p.recall()}, {"hmean", p.hmean()},
          {"targets", p.targets},       {"found", p.found},     {"matched", p.matched}};
}

std::string row(const char* name, const PrecisionRecall& p) {
  char text[160];
  std::snprintf(text, sizeof text,
                "  %-14s precision %.4f   recall %.4f   hmean %.4f   (%lld of %lld, %lld found)\n",
                name, p.precision(), p.recall(), p.hmean(), static_cast<long long>(p.matched),
                static_cast<long long>(p.targets), static_cast<long long>(p.found));
  return text;
}

double part(int64_t of, int64_t whole) {
  return whole > 0 ? static_cast<double>(of) / static_cast<double>(whole) : 0;
}

void count_words(const std::string& text, std::map<std::string, int64_t>& bag, int64_t& total) {
  std::string word;
  const auto end = [&] {
    if (!word.empty()) ++bag[word], ++total;
    word.clear();
  };
  for (const char32_t c : to_code_points(text)) {
    if (is_space(c)) {
      end();
    } else if (is_cjk(c)) {
      end();
      append_utf8(c, &word);
      end();
    } else {
      append_utf8(c, &word);
    }
  }
  end();
}

}  // namespace

double PrecisionRecall::precision() const { return part(matched, found); }
double PrecisionRecall::recall() const { return part(matched, targets); }
double PrecisionRecall::hmean() const {
  const double p = precision(), r = recall();
  return p + r > 0 ? 2 * p * r / (p + r) : 0;
}

bool is_simple_polygon(const Polygon& p) {
  const size_t n = p.size();
  if (n < 3) return false;
  // Points padded to a common count repeat the last one: an edge of no length is no crossing.
  Polygon q;
  for (const Point2f& v : p)
    if (q.empty() || !(q.back() == v)) q.push_back(v);
  if (q.size() > 1 && q.front() == q.back()) q.pop_back();
  const size_t m = q.size();
  if (m < 3 || !(polygon_area(q) > 0)) return false;
  for (size_t i = 0; i < m; ++i)
    for (size_t j = i + 1; j < m; ++j) {
      const Point2f a = q[i], b = q[(i + 1) % m], c = q[j], d = q[(j + 1) % m];
      if (j == i + 1 || (i == 0 && j == m - 1)) {
        // Neighbours share a corner; folding back on each other is what they must not do.
        const Point2f far = j == i + 1 ? d : c, corner = j == i + 1 ? b : a;
        const Point2f other = j == i + 1 ? a : b;
        if (on_segment(corner, other, far) || on_segment(corner, far, other)) return false;
      } else if (segments_meet(a, b, c, d)) {
        return false;
      }
    }
  return true;
}

PageDetection DetectionMetric::add(const std::string& name, const std::vector<PageText>& targets,
                                   const std::vector<Polygon>& boxes) {
  const Matching m = match(targets, boxes);
  PageDetection page{name, {}};
  for (size_t t = 0; t < m.targets.size(); ++t) {
    if (m.ignored_target[t]) continue;
    PrecisionRecall& slice = by_height_[height_of(targets[m.targets[t]].points)];
    ++slice.targets;
    ++page.counts.targets;
    if (m.box_of[t] < 0) continue;
    ++slice.matched;
    ++slice.found;
    ++page.counts.matched;
  }
  page.counts.found = std::count(m.ignored_box.begin(), m.ignored_box.end(), 0);
  total_.targets += page.counts.targets;
  total_.found += page.counts.found;
  total_.matched += page.counts.matched;
  pages_.push_back(page);
  return page;
}

std::vector<PageDetection> DetectionMetric::worst(size_t count) const {
  std::vector<PageDetection> pages;
  for (const PageDetection& p : pages_)
    if (p.counts.targets + p.counts.found > 0) pages.push_back(p);
  std::stable_sort(pages.begin(), pages.end(), [](const PageDetection& a, const PageDetection& b) {
    return a.counts.hmean() < b.counts.hmean();
  });
  if (pages.size() > count) pages.resize(count);
  return pages;
}

std::string DetectionMetric::json() const {
  Json j = as_json(total_);
  j["pages"] = pages_.size();
  for (const auto& [name, counts] : by_height_)
    j["slices"][name] = {{"targets", counts.targets}, {"recall", counts.recall()}};
  j["worst"] = Json::array();
  for (const PageDetection& p : worst(20)) {
    Json page = as_json(p.counts);
    page["name"] = p.name;
    j["worst"].push_back(page);
  }
  return j.dump(2, ' ', false, Json::error_handler_t::replace);
}

std::string DetectionMetric::text() const {
  std::string out = row("all", total_);
  for (const auto& [name, counts] : by_height_) {
    char line[96];
    std::snprintf(line, sizeof line, "  %-14s recall %.4f   (%lld of %lld)\n", name.c_str(),
                  counts.recall(), static_cast<long long>(counts.matched),
                  static_cast<long long>(counts.targets));
    out += line;
  }
  return out;
}

void EndToEndMetric::add(const std::vector<PageText>& targets, const std::vector<PageText>& read) {
  std::vector<Polygon> boxes;
  for (const PageText& r : read) boxes.push_back(r.points);
  const Matching m = match(targets, boxes);
  const auto seen = [&](const std::string& t) { return fold_ ? fold_text(t) : t; };
  std::map<std::string, int64_t> wanted, got;
  std::vector<uint8_t> used(m.boxes.size());
  for (size_t t = 0; t < m.targets.size(); ++t) {
    if (m.ignored_target[t]) continue;
    const std::string target = seen(targets[m.targets[t]].text);
    const auto length = static_cast<int64_t>(count_code_points(target));
    ++lines_.targets;
    characters_ += length;
    count_words(target, wanted, words_.targets);
    if (m.box_of[t] < 0) {
      edits_ += length;
      continue;
    }
    used[static_cast<size_t>(m.box_of[t])] = 1;
    const std::string text = seen(read[m.boxes[static_cast<size_t>(m.box_of[t])]].text);
    lines_.matched += text == target;
    edits_ += edit_distance(target, text);
  }
  for (size_t b = 0; b < m.boxes.size(); ++b) {
    if (m.ignored_box[b]) continue;
    const std::string text = seen(read[m.boxes[b]].text);
    ++lines_.found;
    count_words(text, got, words_.found);
    if (!used[b]) edits_ += static_cast<int64_t>(count_code_points(text));
  }
  for (const auto& [word, n] : wanted)
    if (const auto it = got.find(word); it != got.end()) words_.matched += std::min(n, it->second);
}

double EndToEndMetric::cer() const { return part(edits_, characters_); }

std::string EndToEndMetric::json() const {
  Json j{{"lines", as_json(lines_)},
         {"words", as_json(words_)},
         {"cer", cer()},
         {"case_folded", fold_}};
  return j.dump(2);
}

std::string EndToEndMetric::text() const {
  char cer_line[64];
  std::snprintf(cer_line, sizeof cer_line, "  %-14s %.4f\n", "CER", cer());
  return row("lines read", lines_) + row("words", words_) + cer_line;
}

}  // namespace ocr
