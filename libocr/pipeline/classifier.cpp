#include <algorithm>

#include "libocr/pipeline/stages.h"
#include "libtrain/core/error.h"

namespace ocr {

Classifier::Classifier(Model model, ClassifierInput kind) : model_(std::move(model)), kind_(kind) {
  model_.compile();
}

std::vector<ClassScore> Classifier::classify(int n, int batch, Scratch& scratch,
                                             const std::function<cv::Mat(int)>& crop) const {
  const ClassifierShape shape = classifier_shape(kind_);
  const int64_t floats = int64_t{3} * shape.height * shape.width;
  std::vector<ClassScore> out;
  for (int first = 0; first < n; first += batch) {
    const int count = std::min(batch, n - first);
    const train::Feed feed = scratch.input(count, shape.height, shape.width);
    for (int i = 0; i < count; ++i)
      write_classifier_input(crop(first + i), kind_, feed.tensor.data<float>() + i * floats, 3);
    const train::Tensor& probs = scratch.run(*model_.net, feed);  // [n, classes]
    if (probs.shape().rank() != 2 || probs.shape()[0] != count)
      throw train::ShapeError(train::cat(
          model_.files.onnx, ": a classifier gives [n, classes], not ", probs.shape().str()));
    const int64_t classes = probs.shape()[1];
    for (int i = 0; i < count; ++i)
      out.push_back(top_class({probs.data<float>() + i * classes, static_cast<size_t>(classes)}));
  }
  return out;
}

}  // namespace ocr
