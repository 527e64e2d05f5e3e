// A net built from the `Architecture` section of a PaddleOCR configuration.
#pragma once
#include <memory>

#include "libocr/models/net.h"
#include "libocr/models/transforms.h"
#include "libtrain/config/training.h"

namespace ocr::models {

/// Transform, backbone, neck and head. State dict names are PaddleOCR's: "transform.", "backbone.",
/// "neck.", "head.".
class Model final : public Block {
 public:
  /// `transform` and `neck` may be null.
  Model(std::unique_ptr<Layer> transform, std::unique_ptr<Backbone> backbone,
        std::unique_ptr<Neck> neck, std::unique_ptr<Head> head);
  /// images [N, 3, H, W]; see Outputs for what comes back in training and in evaluation.
  Outputs operator()(Tape& tape, const Variable& images) const;
  /// The same with what branches say that only guide a training: see Head::guided.
  Outputs guided(Tape& tape, const Variable& images, const Variable& tokens) const;
  bool has_guide() const { return head_.has_guide(); }
  /// Whether a transform brings images of any size to the backbone's.
  bool has_transform() const { return transform_ != nullptr; }
  /// The only size of image that it takes; nothing: any.
  std::optional<Size> image_size() const {
    return transform_ ? std::nullopt : backbone_.image_size();
  }

 private:
  std::vector<Variable> features(Tape& tape, const Variable& images) const;
  const Layer* transform_ = nullptr;
  Backbone& backbone_;
  Neck* neck_ = nullptr;
  Head& head_;
};

/// Builds what `architecture` names; the parameters are unset until initialize(). `classes`: how
/// many a recognition head tells apart, blank included (the dictionary's size says). Throws
/// ConfigError, with the place in the file, for an unknown net or key (with the known names), and
/// for what is known and not built: the TPS transform, distillation. SAR,
/// which only guides a training, is left out with a warning; NRTR does too, and is built unless
/// `with_guides` is false (export, evaluation).
std::unique_ptr<Model> build_model(const train::config::ArchitectureConfig& architecture,
                                   int64_t classes, train::config::ReadContext& context,
                                   bool with_guides = true);

}  // namespace ocr::models
