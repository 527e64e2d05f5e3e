// CTC decoding of text lines: greedy text with scores, lost spaces found again, words and
// characters located.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libocr/geometry/crop.h"
#include "libocr/text/dictionary.h"

namespace ocr {

/// What decoding needs of one time step: its most probable class, that probability, and the
/// probability of the space class (0 when the dictionary has none).
struct CtcStep {
  int32_t index = 0;
  float prob = 0;
  float space_prob = 0;
};

/// Reduces probabilities [steps, classes], row stride `ld`, to `out[steps]`. Of equal maxima the
/// first wins; NaN never does. `space_class` may be -1.
void ctc_steps(const float* probs, int64_t ld, int64_t steps, int64_t classes, int64_t space_class,
               std::span<CtcStep> out);

/// Between two characters a space is inserted where the greatest P(space) of the steps between them
/// exceeds `tau` and their distance in steps exceeds `alpha` times the line's median distance.
struct SpaceRecovery {
  bool enabled = false;
  float tau = 0.1f;
  float alpha = 1.6f;
};

struct CtcChar {
  std::string text;        // the dictionary's entry; rarely empty or several code points
  int32_t index = 0;       // class
  int32_t first_step = 0;  // of its run of equal steps
  int32_t last_step = 0;
  float score = 0;         // probability at the first step; P(space) for a recovered space
  bool recovered = false;  // a space that the greedy path did not have
};

struct CtcLine {
  std::string text;
  double score = 0;  // mean over the first steps of all runs but blanks; 0 for an empty text
  std::vector<CtcChar> chars;
  int64_t steps = 0;
};

/// Greedy decoding: runs of one class collapse, blanks go. Recovered spaces do not change the
/// score. Throws train::ShapeError for a class that the dictionary does not have.
CtcLine ctc_decode(std::span<const CtcStep> steps, const Dictionary& dictionary,
                   const SpaceRecovery& spaces = {});

/// How time steps lie on a crop: `steps` of them cover `input_width` columns, of which the first
/// `text_width` show a crop of `crop_width` pixels.
struct StepScale {
  int64_t steps = 0;
  int input_width = 0, text_width = 0, crop_width = 0;
  /// Crop column that a step stands for: the first of its columns, not their middle, for
  /// recognisers answer half a step late (v4, v6 tiny and v6 small against labelled words).
  float centre(double step) const {
    if (steps <= 0 || text_width <= 0) return 0;
    return static_cast<float>(step * input_width / static_cast<double>(steps) * crop_width /
                              text_width);
  }
};

struct Columns {
  float x0 = 0, x1 = 0;  // pixels of the crop
};

/// Extent of each character: around its steps, half an advance to either side, a little more at the
/// ends of words, at most to the middle between it and its neighbour. Extents are ordered, do not
/// overlap, and stay in the crop.
std::vector<Columns> char_columns(const CtcLine& line, const StepScale& scale, int crop_height);

struct TextBox {
  std::string text;
  double score = 0;  // mean of its characters
  Quad quad;         // on the page, in reading order of the line
};

/// A box per character, spaces left out.
std::vector<TextBox> char_boxes(const CtcLine& line, const StepScale& scale, int crop_height,
                                const CropMapper& mapper);
/// A box per word: split at spaces, each CJK character a word of its own, and where CJK and other
/// writing meet.
std::vector<TextBox> word_boxes(const CtcLine& line, const StepScale& scale, int crop_height,
                                const CropMapper& mapper);

}  // namespace ocr
