#include <algorithm>

#include "libocr/pipeline/stages.h"
#include "libtrain/core/error.h"

namespace ocr {

Classifier::Classifier(Model model, const ClassifierInput& input, std::vector<int> degrees)
    : model_(std::move(model)), input_(input), degrees_(std::move(degrees)) {
  if (model_.classes() > 0) check_classes(model_.classes());
  model_.compile();
}

void Classifier::check_classes(int64_t classes) const {
  if (classes == static_cast<int64_t>(degrees_.size())) return;
  const bool page = input_.kind == ClassifierInput::Kind::kCentre;
  throw train::ConfigError(
      "", 0, 0,
      train::cat(model_.files.onnx, " has ", classes, " classes, but ",
                 page ? "doc_label_list" : "label_list", " has ", degrees_.size()));
}

std::vector<AngleScore> Classifier::classify(int n, int batch, Scratch& scratch,
                                             const std::function<cv::Mat(int)>& crop) const {
  const int64_t floats = int64_t{3} * input_.height * input_.width;
  std::vector<AngleScore> out;
  for (int first = 0; first < n; first += batch) {
    const int count = std::min(batch, n - first);
    const train::Feed feed = scratch.input(*model_.net, count, input_.height, input_.width);
    for (int i = 0; i < count; ++i)
      write_classifier_input(crop(first + i), input_, feed.tensor.data<float>() + i * floats, 3);
    const train::Tensor& probs = scratch.run(*model_.net, feed);  // [n, classes]
    if (probs.shape().rank() != 2 || probs.shape()[0] != count)
      throw train::ShapeError(train::cat(
          model_.files.onnx, ": a classifier gives [n, classes], not ", probs.shape().str()));
    const int64_t classes = probs.shape()[1];
    check_classes(classes);
    for (int i = 0; i < count; ++i) {
      const ClassScore top =
          top_class({probs.data<float>() + i * classes, static_cast<size_t>(classes)});
      out.push_back({degrees_[top.label], top.score});
    }
  }
  return out;
}

}  // namespace ocr
