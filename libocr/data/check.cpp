#include "libocr/data/check.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "libocr/data/image_io.h"
#include "libocr/text/utf8.h"
#include "libtrain/core/error.h"

namespace ocr {

using train::cat;

void Finding::add(const std::string& example) {
  ++count;
  if (examples.size() < SkipReport::kExamples) examples.push_back(example);
}

namespace {

uint64_t digest(const std::string& bytes) {
  return train::stream_of(bytes) ^ (static_cast<uint64_t>(bytes.size()) << 40);
}

bool crosses_itself(const PolygonD& p) {
  const auto cross = [](cv::Point2d o, cv::Point2d a, cv::Point2d b) {
    return (a - o).cross(b - o);
  };
  const size_t n = p.size();
  for (size_t i = 0; i < n; ++i)
    for (size_t j = i + 2; j < n; ++j) {
      if (i == 0 && j == n - 1) continue;
      const cv::Point2d a = p[i], b = p[(i + 1) % n], c = p[j], d = p[(j + 1) % n];
      if (cross(a, b, c) * cross(a, b, d) < 0 && cross(c, d, a) * cross(c, d, b) < 0) return true;
    }
  return false;
}

// What is learnt of one sample without the others; put together in order afterwards.
struct Seen {
  uint64_t picture = 0;
  std::string place, label;
  bool skipped = false, oriented = false;
  Skip reason = Skip::kBadLabel;
  std::string message;
  std::vector<std::string> unknown, outside, odd;
  std::vector<int64_t> ids;
  int64_t boxes = 0, ignored = 0;
};

void look_at_boxes(const Sample& s, const cv::Mat& image, Seen& seen) {
  std::vector<TextBoxLabel> boxes;
  try {
    boxes = parse_detection_label(s.label);
  } catch (const train::FormatError& e) {
    throw SkippedSample(Skip::kBadLabel, s.file, s.line, e.what());
  }
  if (boxes.empty()) throw SkippedSample(Skip::kNoBoxes, s.file, s.line, "the page has no box");
  for (size_t i = 0; i < boxes.size(); ++i) {
    const TextBoxLabel& b = boxes[i];
    ++seen.boxes;
    seen.ignored += b.ignore();
    double y0 = 1e9, y1 = -1e9, x0 = 1e9, x1 = -1e9;
    for (const cv::Point2d& p : b.points) {
      x0 = std::min(x0, p.x), x1 = std::max(x1, p.x);
      y0 = std::min(y0, p.y), y1 = std::max(y1, p.y);
    }
    const std::string place = cat(seen.place, ": box ", i + 1);
    if (x0 < -1 || y0 < -1 || x1 > image.cols + 1 || y1 > image.rows + 1)
      seen.outside.push_back(cat(place, " reaches to ", x0, ",", y0, " - ", x1, ",", y1,
                                 "; the picture has ", image.cols, " x ", image.rows));
    if (crosses_itself(b.points) || std::min(x1 - x0, y1 - y0) < 2)
      seen.odd.push_back(cat(place, " crosses itself or is under 2 pixels high"));
  }
}

// Time steps that the net gives for a line; `aspect` 0: not known.
int64_t steps_of(const CheckOptions& o, double aspect) {
  if (o.step_columns == 0 || o.height == 0 || aspect <= 0) return o.ctc_steps;
  // As MultiScaleSampler makes widths; the mean of a batch of like lines is near each.
  const double widest = o.max_width > 0 ? static_cast<double>(o.max_width) / o.height : aspect;
  const int64_t squares = std::max<int64_t>(1, std::llround(std::min(aspect, widest)));
  return squares * o.height / o.step_columns;
}

void look_at(const OcrDataset& set, const CheckOptions& o, int64_t index, double aspect,
             Seen& seen) {
  seen.place = set.name(index);
  const Sample s = set.raw(index);
  seen.label = s.label;
  if (s.line > 0) seen.place = cat(s.file, ":", s.line);
  seen.picture = digest(s.encoded);
  const cv::Mat image = decode_sample(s, true);
  if (o.kind == TaskKind::kDetection) return look_at_boxes(s, image, seen);
  if (o.kind == TaskKind::kClassification) {
    if (class_of(s.label, o.classes) < 0)
      throw SkippedSample(Skip::kBadLabel, s.file, s.line,
                          cat("'", s.label, "' is not in label_list"));
    return;
  }
  if (!set.encoder()) return;
  EncodedText text = set.encoder()->encode(s.label, s.file, s.line);
  if (o.attention) set.encoder()->guide(text, GuideHead::kNrtr, s.file, s.line);
  const int64_t needed = ctc_steps_needed(text.ids);
  if (const int64_t steps = steps_of(o, aspect); steps > 0 && needed > steps)
    throw SkippedSample(Skip::kTooLongForSteps, s.file, s.line,
                        cat("the text needs ", needed, " CTC steps, the network has ", steps));
  seen.unknown = std::move(text.unknown);
  seen.ids = std::move(text.ids);
}

void put_together(const Seen& s, CheckReport& report, std::vector<int64_t>& counts,
                  std::map<uint64_t, std::pair<std::string, std::string>>& pictures,
                  const CheckOptions& o) {
  if (s.skipped) {
    report.skips.add(s.reason, s.message);
  } else {
    if (!s.unknown.empty()) {
      std::string list;
      for (const std::string& c : s.unknown) list += " '" + c + "'";
      report.unknown.add(cat(s.place, ": not in the dictionary:", list));
      for (const std::string& c : s.unknown) ++report.unknown_characters[c];
    }
    for (const std::string& m : s.outside) report.outside.add(m);
    for (const std::string& m : s.odd) report.odd_boxes.add(m);
    for (const int64_t id : s.ids) ++counts[static_cast<size_t>(id)];
    report.characters += static_cast<int64_t>(s.ids.size());
    report.boxes += s.boxes;
    report.ignored_boxes += s.ignored;
    if (o.kind == TaskKind::kClassification) ++report.class_counts[s.label];
  }
  if (!s.picture) return;
  const auto [it, fresh] = pictures.try_emplace(s.picture, s.place, s.label);
  report.pictures.try_emplace(s.picture, s.place);
  if (fresh) return;
  if (it->second.second == s.label)
    report.duplicates.add(cat(s.place, ": the same picture and label as ", it->second.first));
  else
    report.conflicts.add(
        cat(s.place, ": the same picture as ", it->second.first, " with another label"));
}

}  // namespace

CheckReport check_dataset(const OcrDataset& set, const std::string& name, const CheckOptions& o) {
  CheckReport report;
  report.name = name;
  report.samples = set.size() + set.skips().total();
  report.skips.merge(set.skips());
  std::vector<Seen> seen(static_cast<size_t>(set.size()));
  std::atomic<int64_t> next = 0;
  std::exception_ptr failure;
  std::mutex mutex;
  const std::vector<double> aspects = o.step_columns > 0 ? set.aspects() : std::vector<double>();
  const auto work = [&] {
    for (int64_t i; (i = next++) < set.size();) {
      if (o.progress) {
        const std::lock_guard lock(mutex);
        o.progress(1);
      }
      Seen& s = seen[static_cast<size_t>(i)];
      try {
        look_at(set, o, i, aspects.empty() ? 0 : aspects[static_cast<size_t>(i)], s);
      } catch (const SkippedSample& e) {
        s.skipped = true;
        s.reason = e.reason;
        s.message = e.what();
      } catch (const train::DataError& e) {  // a key that an LMDB set has not
        s.skipped = true;
        s.reason = Skip::kImageMissing;
        s.message = e.what();
      } catch (...) {
        const std::lock_guard lock(mutex);
        failure = std::current_exception();
        next = set.size();
      }
    }
  };
  std::vector<std::thread> threads;
  for (int t = 1; t < o.threads; ++t) threads.emplace_back(work);
  work();
  for (std::thread& t : threads) t.join();
  if (failure) std::rethrow_exception(failure);

  const int64_t classes = set.encoder() ? set.encoder()->dictionary().classes() : 0;
  std::vector<int64_t> counts(static_cast<size_t>(classes));
  std::map<uint64_t, std::pair<std::string, std::string>> pictures;
  for (const Seen& s : seen) put_together(s, report, counts, pictures, o);
  report.classes = std::max<int64_t>(0, classes - 1);
  for (int64_t c = 1; c < classes; ++c) {
    const int64_t n = counts[static_cast<size_t>(c)];
    if (n == 0)
      ++report.never_seen;
    else if (n < o.rare)
      report.rare[set.encoder()->dictionary().text(c)] = n;
  }
  return report;
}

Finding find_leakage(const CheckReport& train, const CheckReport& eval) {
  Finding f;
  for (const auto& [digest, place] : eval.pictures)
    if (const auto it = train.pictures.find(digest); it != train.pictures.end())
      f.add(cat(place, ": the same picture as ", it->second));
  return f;
}

namespace {

void write(std::string& out, const char* what, const Finding& f) {
  if (f.count == 0) return;
  out += cat("  ", f.count, " ", what, "\n");
  for (const std::string& e : f.examples) out += cat("      ", e, "\n");
}

// The commonest first, at most 20.
std::string listed(const std::map<std::string, int64_t>& counts) {
  std::vector<std::pair<int64_t, std::string>> order;
  for (const auto& [text, n] : counts) order.emplace_back(-n, text);
  std::sort(order.begin(), order.end());
  std::string out;
  for (size_t i = 0; i < order.size() && i < 20; ++i)
    out += cat(" '", order[i].second, "' ", -order[i].first);
  return order.size() > 20 ? out + " ..." : out;
}

}  // namespace

std::string CheckReport::text() const {
  std::string out =
      cat(name, ": ", samples, " samples, ", lost(), " would be lost or learnt wrongly\n");
  for (int i = 0; i < kSkipKinds; ++i) {
    const auto reason = static_cast<Skip>(i);
    if (skips.count(reason) == 0) continue;
    out += cat("  ", skips.count(reason), " ", skip_name(reason), "\n");
    for (const std::string& e : skips.examples(reason)) out += cat("      ", e, "\n");
  }
  write(out, "with characters that the dictionary has not; training would drop these characters",
        unknown);
  if (!unknown_characters.empty()) out += cat("  unknown:", listed(unknown_characters), "\n");
  write(out, "boxes beyond the picture", outside);
  write(out, "boxes of an odd shape", odd_boxes);
  write(out, "duplicates", duplicates);
  write(out, "pictures with two labels", conflicts);
  if (boxes > 0) out += cat("  ", boxes, " boxes, ", ignored_boxes, " of them to be ignored\n");
  if (classes > 0)
    out += cat("  ", characters, " characters; of ", classes, " in the dictionary ", never_seen,
               " are never seen, ", rare.size(), " rarely\n");
  if (!rare.empty()) out += cat("  rare:", listed(rare), "\n");
  if (!class_counts.empty()) out += cat("  classes:", listed(class_counts), "\n");
  return out;
}

std::string CheckReport::json() const {
  using Json = nlohmann::ordered_json;
  const auto finding = [](const Finding& f) {
    return Json{{"count", f.count}, {"examples", f.examples}};
  };
  Json j{{"name", name}, {"samples", samples}, {"lost", lost()}};
  for (int i = 0; i < kSkipKinds; ++i) {
    const auto reason = static_cast<Skip>(i);
    if (skips.count(reason) > 0)
      j["skipped"][skip_name(reason)] = {{"count", skips.count(reason)},
                                         {"examples", skips.examples(reason)}};
  }
  j["unknown_characters"] = {{"samples", finding(unknown)}, {"characters", unknown_characters}};
  j["boxes"] = {{"count", boxes},
                {"ignored", ignored_boxes},
                {"outside", finding(outside)},
                {"odd", finding(odd_boxes)}};
  j["duplicates"] = finding(duplicates);
  j["conflicts"] = finding(conflicts);
  j["dictionary"] = {{"classes", classes}, {"never_seen", never_seen}, {"rare", rare}};
  j["classes"] = class_counts;
  return j.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ocr
