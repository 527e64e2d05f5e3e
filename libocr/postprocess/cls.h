// Decisions from the orientation classifiers: does a line stand on its head, and is a page turned.
#pragma once
#include <span>

namespace ocr {

struct ClassScore {
  int label = 0;
  float score = 0;
};
/// The most probable class; of equal ones the first, NaN never. Empty input gives {0, 0}.
ClassScore top_class(std::span<const float> probs);

/// What a class stands for: how far, clockwise, the line or page was turned from upright.
struct AngleScore {
  int degrees = 0;
  float score = 0;
};

/// PaddleOCR 2.x and RapidOCR turn a line when 180 degrees score *above* 0.9; 3.x takes the class
/// alone (threshold 0).
bool is_upside_down(AngleScore top, double threshold);

/// One detected line as evidence for the turn of its page.
struct LineVote {
  float width = 0, height = 0;  // of the line's quad on the page
  bool upside_down = false;     // of its crop, after standing lines were turned counter-clockwise
  float score = 1;              // of that classification
};
struct PageTurn {
  int degrees = 0;   // clockwise turn that sets the page upright: 0, 90, 180 or 270
  double share = 0;  // part of the vote for it, 0..1
};
/// Votes weighted by score and length of line. Another turn than 0 needs at least `min_share` of
/// the vote. Lines nearly square say nothing about standing or lying and count half. Not for pages
/// in vertical writing, whose lines stand although the page is upright.
PageTurn vote_page_turn(std::span<const LineVote> votes, double min_share = 0.6);

}  // namespace ocr
