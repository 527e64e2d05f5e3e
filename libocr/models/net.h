// The parts that PaddleOCR builds every net from: a backbone, a neck and a head.
#pragma once
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libocr/models/layers.h"

namespace ocr::models {

/// What a head gives, by PaddleOCR's names. Evaluation: "maps" [N, 1, H, W] (detection), "ctc" [N,
/// T, classes] or "cls" [N, classes], all of them probabilities. Training: "maps" [N, 3, H, W]
/// (shrink, threshold and binary map), the same of auxiliary heads as "aux_maps_p4", "_p3", "_p2",
/// "cbn_maps" [N, 1, H, W] of a head that refines its map, "ctc" and "cls" as logits.
using Outputs = std::map<std::string, Variable, std::less<>>;

/// From images [N, 3, H, W] to features of one or more scales, finest first.
class Backbone : public Block {
 public:
  virtual std::vector<Variable> operator()(Tape& tape, const Variable& images) const = 0;
  const std::vector<int64_t>& channels() const { return channels_; }
  /// The only size of image that it takes; nothing: any that its strides divide.
  virtual std::optional<Size> image_size() const { return std::nullopt; }

 protected:
  std::vector<int64_t> channels_;  // of each feature
};

/// The last step of PP-OCR's recognition backbones: features a few pixels high become one row. In
/// training the row is 40 wide whatever the image's width; else every 3 x 2 pixels become one.
inline Variable row_of(Tape& tape, const Variable& x, bool training) {
  return training ? adaptive_row_pool(tape, x, 40)
                  : train::average_pool(tape, x, padded_window({3, 2}, {3, 2}, 0));
}

/// What a neck gives.
struct Features {
  Features(Variable main) : main(std::move(main)) {}  // NOLINT(google-explicit-constructor)
  Variable main;
  /// In training, of RepLKFPN, LKPAN and RepLKPAN: the pyramid's sums at kAuxLevels, for auxiliary
  /// heads.
  std::vector<Variable> levels;
};
constexpr std::array<const char*, 3> kAuxLevels{"p2", "p3", "p4"};  // at 1/4, 1/8 and 1/16

class Neck : public Block {
 public:
  virtual Features operator()(Tape& tape, const std::vector<Variable>& features) const = 0;
  int64_t channels() const { return channels_; }

 protected:
  int64_t channels_ = 0;
};

class Head : public Block {
 public:
  virtual Outputs operator()(Tape& tape, const Features& features) const = 0;
  /// The same with the outputs of branches that only guide a training, from the text so far:
  /// `tokens` i64 [N, T] of NRTRLabelEncode. Heads without such a branch ignore it.
  virtual Outputs guided(Tape& tape, const Features& features, const Variable& /*tokens*/) const {
    return (*this)(tape, features);
  }
  /// Whether guided() gives more: "nrtr" logits [N, T, classes].
  virtual bool has_guide() const { return false; }
};

}  // namespace ocr::models
