// The stages of the page pipeline: detector, recogniser, orientation classifiers. Internal.
#pragma once
#include <functional>
#include <memory>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#include "libocr/geometry/crop.h"
#include "libocr/onnx/import.h"
#include "libocr/pipeline/models.h"
#include "libocr/pipeline/options.h"
#include "libocr/pipeline/result.h"
#include "libocr/pipeline/scratch.h"
#include "libocr/postprocess/cls.h"
#include "libocr/postprocess/content_window.h"
#include "libocr/postprocess/ctc.h"
#include "libocr/postprocess/db.h"
#include "libocr/postprocess/detection_resize.h"
#include "libocr/postprocess/network_input.h"
#include "libocr/postprocess/recognition_resize.h"

namespace ocr {

/// A net with what its file says of itself.
struct Model {
  train::Graph graph;  // until compile()
  std::shared_ptr<const train::Net> net;
  train::cpu::Precision precision = train::cpu::Precision::kF32;
  void compile() { net = train::Net::compile(std::move(graph), {.precision = precision}); }
  ModelFiles files;
  ModelNote note;
  ModelInfo info;
  /// Side `axis` of the first input as declared; -1 where free.
  int64_t input_side(size_t axis) const;
  /// The number of classes that the first output declares; -1 when it does not.
  int64_t classes() const;
  /// A metadata value; null when there is none.
  const std::string* find(const std::string& key) const;
};

/// Imports a model; settings named `ocr.NAME` in its metadata go into `options`.
Model load_model(const ModelFiles& files, const std::string& kind, Options& options);

struct Detections {
  std::vector<Detection> boxes;  // in the frame of the page that was given
  int tiles = 1;
  int64_t cut_candidates = 0;
};

class Detector {
 public:
  Detector(Model model, const Options& options, int64_t memory);
  Detections detect(const cv::Mat& page, Scratch& scratch) const;
  const Model& model() const { return model_; }
  int64_t bytes_per_pixel() const { return bytes_per_pixel_; }

 private:
  /// How a page is searched: whole at `size`, or in tiles at a scale.
  struct Search {
    bool tiled = false;
    double scale = 1;
    DetectionSize size;
  };
  Search plan(int height, int width) const;
  std::vector<Detection> whole(const cv::Mat& page, const DetectionSize& size, Scratch& scratch,
                               int64_t& cut) const;
  Detections content(const cv::Mat& page, const ContentWindow& window, double scale,
                     Scratch& scratch) const;
  Detections tiles(const ContentWindow& window, double scale, Scratch& scratch) const;
  std::vector<Detection> tall_lines(const ContentWindow& window, double scale, float least,
                                    Scratch& scratch, Detections& totals) const;

  Model model_;
  DbOptions db_;
  DetectionResizeOptions resize_;
  Normalizer normalizer_;
  std::string scale_, tile_mode_;
  int tile_size_;
  bool explicit_limit_;
  int64_t memory_, bytes_per_pixel_ = 0;
};

class Classifier {
 public:
  /// `degrees`: what each class stands for. Throws train::ConfigError where the model has another
  /// number of classes.
  Classifier(Model model, const ClassifierInput& input, std::vector<int> degrees);
  /// The most probable class of each crop, as degrees; `crop(i)` is called once per crop.
  std::vector<AngleScore> classify(int n, int batch, Scratch& scratch,
                                   const std::function<cv::Mat(int)>& crop) const;
  const Model& model() const { return model_; }

 private:
  void check_classes(int64_t classes) const;

  Model model_;
  ClassifierInput input_;
  std::vector<int> degrees_;
};

class Recognizer {
 public:
  Recognizer(Model model, const Options& options, std::vector<std::string> yml_characters);

  struct Item {
    int width = 0, height = 0;  // of the crop
    CtcLine line;
    StepScale scale;
  };
  /// Reads crops whose sizes are known; `crop(i)` gives the pixels, once, from any thread of the
  /// scratch's pool. Fills line and scale.
  void recognize(std::vector<Item>& items, Scratch& scratch,
                 const std::function<cv::Mat(int)>& crop) const;
  const Model& model() const { return model_; }
  const Dictionary& dictionary() const { return *dictionary_; }
  /// Whether lines have to be turned round from the order of the picture to that of reading.
  bool right_to_left() const { return right_to_left_; }

 private:
  int64_t measured_classes() const;
  std::vector<CtcStep> path_of(const float* probs, int64_t steps, int64_t classes) const;
  void run_batch(std::vector<Item>& items, std::span<const int> batch, const RecognitionSize* sizes,
                 Scratch& scratch, const std::function<cv::Mat(int)>& crop) const;
  void run_long(Item& item, const RecognitionSize& size, Scratch& scratch,
                const cv::Mat& crop) const;

  Model model_;
  std::unique_ptr<const Dictionary> dictionary_;
  RecognitionResizeOptions resize_;
  SpaceRecovery spaces_;
  int batch_;
  bool right_to_left_ = false;
  bool reduced_ = false;  // the net gives [n, steps, 3]: class, probability, that of the space
};

}  // namespace ocr
