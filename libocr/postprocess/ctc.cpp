#include "libocr/postprocess/ctc.h"

#include <algorithm>
#include <cmath>

#include "libocr/text/utf8.h"
#include "libtrain/core/error.h"

namespace ocr {
namespace {

// How far letters reach beyond half an advance at the ends of a word, in line heights: the mean of
// what three recognisers (v4, v6 tiny, v6 small) fell short of labelled words.
constexpr double kWordEndMargin = 0.15;

// The greatest of n values; lanes let the compiler use vector maxima.
float max_of(const float* v, int64_t n) {
  constexpr int64_t kLanes = 16;
  float lanes[kLanes];
  std::fill(lanes, lanes + kLanes, -INFINITY);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) lanes[l] = v[i + l] > lanes[l] ? v[i + l] : lanes[l];
  }
  for (; i < n; ++i) lanes[0] = v[i] > lanes[0] ? v[i] : lanes[0];
  return *std::max_element(lanes, lanes + kLanes);
}

bool is_space_text(const std::string& text) { return !text.empty() && is_blank(text); }

bool is_cjk_text(const std::string& text) {
  const std::u32string points = to_code_points(text);
  return !points.empty() && is_cjk(points[0]);
}

// Middle of the distances between neighbours, the mean of the two middle ones for an even count.
double median_gap(const std::vector<CtcChar>& chars) {
  std::vector<int32_t> gaps;
  for (size_t i = 1; i < chars.size(); ++i) {
    gaps.push_back(chars[i].first_step - chars[i - 1].first_step);
  }
  std::sort(gaps.begin(), gaps.end());
  const size_t n = gaps.size();
  return n % 2 ? gaps[n / 2] : (gaps[n / 2 - 1] + gaps[n / 2]) / 2.0;
}

void recover_spaces(std::span<const CtcStep> steps, const SpaceRecovery& spaces, int64_t space,
                    std::vector<CtcChar>* chars) {
  if (chars->size() < 2) return;
  const double least_gap = spaces.alpha * median_gap(*chars);
  std::vector<CtcChar> out;
  out.reserve(chars->size() + 8);
  for (CtcChar& next : *chars) {
    if (!out.empty() && !is_space_text(out.back().text) && !is_space_text(next.text) &&
        next.first_step - out.back().first_step > least_gap) {
      int32_t best = out.back().first_step;
      float prob = 0;
      for (int32_t t = best + 1; t < next.first_step; ++t) {
        const float p = steps[static_cast<size_t>(t)].space_prob;
        if (p > prob) {
          prob = p;
          best = t;
        }
      }
      if (prob > spaces.tau) {
        out.push_back({" ", static_cast<int32_t>(space), best, best, prob, true});
      }
    }
    out.push_back(std::move(next));
  }
  *chars = std::move(out);
}

// Typical distance in pixels between the centres of neighbours that no space parts.
double typical_advance(const std::vector<CtcChar>& chars, const std::vector<double>& centres,
                       int crop_height) {
  std::vector<double> gaps;
  for (size_t i = 1; i < chars.size(); ++i) {
    if (!is_space_text(chars[i].text) && !is_space_text(chars[i - 1].text)) {
      gaps.push_back(centres[i] - centres[i - 1]);
    }
  }
  if (!gaps.empty()) {
    std::nth_element(gaps.begin(), gaps.begin() + static_cast<int64_t>(gaps.size() / 2),
                     gaps.end());
    return gaps[gaps.size() / 2];
  }
  // A lone character: square when CJK, half as wide otherwise.
  return !chars.empty() && is_cjk_text(chars[0].text) ? crop_height : crop_height / 2.0;
}

TextBox make_box(const CtcLine& line, const std::vector<Columns>& columns, size_t first,
                 size_t last, const CropMapper& mapper) {
  TextBox box;
  for (size_t i = first; i <= last; ++i) {
    box.text += line.chars[i].text;
    box.score += line.chars[i].score;
  }
  box.score /= static_cast<double>(last - first + 1);
  box.quad = mapper.column_box(columns[first].x0, columns[last].x1);
  return box;
}

}  // namespace

void ctc_steps(const float* probs, int64_t ld, int64_t steps, int64_t classes, int64_t space_class,
               std::span<CtcStep> out) {
  if (classes <= 0 || ld < classes || static_cast<int64_t>(out.size()) < steps ||
      space_class >= classes) {
    throw train::ShapeError(train::cat("probabilities of ", steps, " steps x ", classes,
                                       " classes do not fit the decoder"));
  }
  for (int64_t t = 0; t < steps; ++t) {
    const float* row = probs + t * ld;
    const float best = max_of(row, classes);
    const float* at = std::find(row, row + classes, best);
    CtcStep& step = out[static_cast<size_t>(t)];
    // All NaN: no maximum was found, and the blank says nothing wrong.
    step.index = at == row + classes ? 0 : static_cast<int32_t>(at - row);
    step.prob = at == row + classes ? 0.0f : best;
    step.space_prob = space_class >= 0 ? row[space_class] : 0.0f;
  }
}

CtcLine ctc_decode(std::span<const CtcStep> steps, const Dictionary& dictionary,
                   const SpaceRecovery& spaces) {
  CtcLine line;
  line.steps = static_cast<int64_t>(steps.size());
  double sum = 0;
  int32_t previous = -1;
  for (size_t t = 0; t < steps.size(); ++t) {
    const int32_t index = steps[t].index;
    if (index < 0 || index >= dictionary.classes()) {
      throw train::ShapeError(train::cat("the recogniser answered class ", index,
                                         ", but dictionary ", dictionary.name(), " has ",
                                         dictionary.classes(), " classes"));
    }
    const int32_t now = static_cast<int32_t>(t);
    if (index == previous && index != Dictionary::kBlank) {
      line.chars.back().last_step = now;
    } else if (index != Dictionary::kBlank) {
      line.chars.push_back({dictionary.text(index), index, now, now, steps[t].prob, false});
      sum += steps[t].prob;
    }
    previous = index;
  }
  if (!line.chars.empty()) line.score = sum / static_cast<double>(line.chars.size());
  if (spaces.enabled && dictionary.space() >= 0) {
    recover_spaces(steps, spaces, dictionary.space(), &line.chars);
  }
  for (const CtcChar& c : line.chars) line.text += c.text;
  return line;
}

std::vector<Columns> char_columns(const CtcLine& line, const StepScale& scale, int crop_height) {
  const std::vector<CtcChar>& chars = line.chars;
  const size_t n = chars.size();
  std::vector<double> centres;
  std::vector<bool> space;
  for (const CtcChar& c : chars) {
    centres.push_back(scale.centre((c.first_step + c.last_step) / 2.0));
    space.push_back(is_space_text(c.text));
  }
  const double half = typical_advance(chars, centres, crop_height) / 2;
  const double end_margin = kWordEndMargin * crop_height;
  std::vector<Columns> out(n);
  double previous_end = 0;
  for (size_t i = 0; i < n; ++i) {
    const double run = scale.centre(chars[i].last_step) - scale.centre(chars[i].first_step);
    const double reach = std::max(half, run / 2);
    const bool starts = i == 0 || space[i - 1], ends = i + 1 == n || space[i + 1];
    double x0 = centres[i] - reach - (starts ? end_margin : 0);
    double x1 = centres[i] + reach + (ends ? end_margin : 0);
    // A word may reach to the middle of the space beside it, a character half the way to the next.
    if (i > 0) x0 = std::max(x0, starts ? centres[i - 1] : (centres[i - 1] + centres[i]) / 2);
    if (i + 1 < n) x1 = std::min(x1, ends ? centres[i + 1] : (centres[i] + centres[i + 1]) / 2);
    if (space[i]) x0 = previous_end;
    x0 = std::clamp(x0, previous_end, std::max<double>(previous_end, scale.crop_width));
    x1 = std::clamp(x1, x0, std::max<double>(x0, scale.crop_width));
    out[i] = {static_cast<float>(x0), static_cast<float>(x1)};
    previous_end = x1;
  }
  return out;
}

std::vector<TextBox> char_boxes(const CtcLine& line, const StepScale& scale, int crop_height,
                                const CropMapper& mapper) {
  const std::vector<Columns> columns = char_columns(line, scale, crop_height);
  std::vector<TextBox> out;
  for (size_t i = 0; i < line.chars.size(); ++i) {
    if (!is_blank(line.chars[i].text)) out.push_back(make_box(line, columns, i, i, mapper));
  }
  return out;
}

std::vector<TextBox> word_boxes(const CtcLine& line, const StepScale& scale, int crop_height,
                                const CropMapper& mapper) {
  const std::vector<Columns> columns = char_columns(line, scale, crop_height);
  std::vector<TextBox> out;
  size_t first = 0;
  bool open = false;
  for (size_t i = 0; i < line.chars.size(); ++i) {
    const std::string& text = line.chars[i].text;
    const bool space = is_blank(text), cjk = is_cjk_text(text);
    if (open && (space || cjk)) {
      out.push_back(make_box(line, columns, first, i - 1, mapper));
      open = false;
    }
    if (space) continue;
    if (cjk) {
      out.push_back(make_box(line, columns, i, i, mapper));
    } else if (!open) {
      open = true;
      first = i;
    }
  }
  if (open) out.push_back(make_box(line, columns, first, line.chars.size() - 1, mapper));
  return out;
}

}  // namespace ocr
