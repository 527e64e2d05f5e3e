#include <algorithm>
#include <atomic>
#include <map>

#include "libocr/pipeline/stages.h"
#include "libocr/text/rtl.h"
#include "libtrain/core/error.h"
#include "libtrain/graph/passes.h"

namespace ocr {
namespace {

using train::cat;

// Lines wider than this are read in overlapping pieces: attention over all of a 30,000 pixel line
// would take gigabytes, and is not what the networks were trained on.
constexpr int kPiece = 3200, kPieceOverlap = 320;
constexpr int kMaxBatchColumns = 9600;  // bounds the arena: results do not depend on it

std::unique_ptr<const Dictionary> make_dictionary(const Model& model, const Options& options,
                                                  std::vector<std::string> yml_characters,
                                                  int64_t classes) {
  const auto load = [&](SpaceClass space) {
    if (!options.rec_char_dict_path.value.empty())
      return Dictionary::from_file(options.rec_char_dict_path, space);
    if (const std::string* c = model.find("character"))
      return Dictionary::from_text(*c, space, model.files.onnx + " (metadata)");
    if (!yml_characters.empty())
      return Dictionary::from_list(yml_characters, space, model.files.inference_yml);
    if (!model.files.dictionary.empty())
      return Dictionary::from_file(model.files.dictionary, space);
    throw train::ConfigError("", 0, 0,
                             cat(model.files.onnx,
                                 ": no dictionary in the model or beside it; name it with "
                                 "--rec_char_dict_path FILE"));
  };
  auto dictionary = std::make_unique<const Dictionary>(
      load(options.use_space_char ? SpaceClass::kAppend : SpaceClass::kNone));
  // Whether the space is a class of its own can be told from the model's size.
  if (classes > 0 && dictionary->classes() != classes && !options.use_space_char.given()) {
    auto other = std::make_unique<const Dictionary>(load(SpaceClass::kNone));
    if (other->classes() == classes) return other;
  }
  if (classes > 0) dictionary->check_classes(classes, model.files.onnx);
  return dictionary;
}

RecognitionResizeOptions resize_options(const Options& o, const Model& model) {
  RecognitionResizeOptions r;
  r.height = o.rec_image_shape.value[1];
  if (model.input_side(2) > 0 && o.rec_image_shape.source < Source::kConfig)
    r.height = static_cast<int>(model.input_side(2));
  r.min_width = o.rec_min_width;
  const auto one_width = [&r](int width) { r.min_width = r.max_width = width; };
  if (!o.rec_keep_ratio) {
    one_width(o.rec_image_shape.value[2]);
    r.stretch = true;
  }
  if (model.input_side(3) > 0) one_width(static_cast<int>(model.input_side(3)));
  return r;
}

}  // namespace

Recognizer::Recognizer(Model model, const Options& options, std::vector<std::string> yml_characters)
    : model_(std::move(model)),
      resize_(resize_options(options, model_)),
      batch_(options.rec_batch_num) {
  spaces_.enabled = options.rec_recover_spaces;
  spaces_.tau = static_cast<float>(options.rec_space_prob);
  spaces_.alpha = static_cast<float>(options.rec_space_gap);
  const int64_t classes = model_.classes();
  if (classes > 0) {
    dictionary_ = make_dictionary(model_, options, std::move(yml_characters), classes);
    // Of 18,710 probabilities per step two are read: the rest need not be computed.
    if (options.dump_stages.value.empty())
      reduced_ = train::keep_best_class(model_.graph, 0, dictionary_->space());
    model_.compile();
  } else {
    model_.compile();
    dictionary_ = make_dictionary(model_, options, std::move(yml_characters), measured_classes());
  }
  const std::string& direction = options.rec_right_to_left;
  right_to_left_ = direction == "true" ||
                   (direction == "auto" && is_right_to_left_dictionary(dictionary_->name()));
}

// A model that does not declare its classes shows them when it runs.
int64_t Recognizer::measured_classes() const {
  Scratch scratch(1);
  const train::Feed feed = scratch.input(*model_.net, 1, resize_.height, 160);
  std::fill_n(feed.tensor.data<float>(), feed.tensor.numel(), 0.f);
  const train::Tensor& probs = scratch.run(*model_.net, feed);
  if (probs.shape().rank() != 3)
    throw train::ShapeError(cat(model_.files.onnx, ": a recogniser gives [n, steps, classes], not ",
                                probs.shape().str()));
  return probs.shape()[2];
}

std::vector<CtcStep> Recognizer::path_of(const float* probs, int64_t steps, int64_t classes) const {
  std::vector<CtcStep> path(static_cast<size_t>(steps));
  if (!reduced_) {
    ctc_steps(probs, classes, steps, classes, dictionary_->space(), path);
    return path;
  }
  for (CtcStep& step : path) {
    step = {static_cast<int32_t>(probs[0]), probs[1], probs[2]};
    probs += 3;
  }
  return path;
}

void Recognizer::recognize(std::vector<Item>& items, Scratch& scratch,
                           const std::function<cv::Mat(int)>& crop) const {
  std::vector<RecognitionSize> sizes;
  std::map<int, std::vector<int>> by_width;  // only lines of exactly equal width share a batch
  for (size_t i = 0; i < items.size(); ++i) {
    sizes.push_back(recognition_size(items[i].width, items[i].height, resize_));
    by_width[sizes[i].width].push_back(static_cast<int>(i));
  }
  std::vector<std::span<const int>> batches;  // the widest first: they end at about the same time
  for (auto it = by_width.rbegin(); it != by_width.rend(); ++it) {
    const std::span<const int> indices(it->second);
    const size_t most = std::clamp(kMaxBatchColumns / it->first, 1, batch_);
    for (size_t at = 0; at < indices.size(); at += most)
      batches.push_back(indices.subspan(at, std::min(most, indices.size() - at)));
  }
  const auto run = [&](std::span<const int> batch, Scratch& s) {
    if (sizes[batch[0]].width <= kPiece) return run_batch(items, batch, sizes.data(), s, crop);
    for (const int i : batch) run_long(items[i], sizes[i], s, crop(i));
  };
  const int threads = scratch.pool().threads();
  if (threads == 1 || static_cast<int>(batches.size()) < threads || scratch.dump) {
    for (const auto batch : batches) run(batch, scratch);
    return;
  }
  // Lines are small: a thread for each batch keeps the cores busier than all of them in each layer.
  scratch.make_helpers();
  std::atomic<size_t> next{0};
  scratch.pool().run(threads, [&](int thread) {
    Scratch& helper = scratch.helper(thread);
    const train::PoolScope scope(&helper.pool());
    for (size_t i; (i = next++) < batches.size();) run(batches[i], helper);
  });
}

void Recognizer::run_batch(std::vector<Item>& items, std::span<const int> batch,
                           const RecognitionSize* sizes, Scratch& scratch,
                           const std::function<cv::Mat(int)>& crop) const {
  const int width = sizes[batch[0]].width;
  const train::Feed feed =
      scratch.input(*model_.net, static_cast<int64_t>(batch.size()), resize_.height, width);
  const int64_t floats = int64_t{3} * resize_.height * width;
  for (size_t b = 0; b < batch.size(); ++b)
    write_recognition_input(crop(batch[b]), sizes[batch[b]], resize_.height,
                            feed.tensor.data<float>() + static_cast<int64_t>(b) * floats, 3);
  const train::Tensor& probs = scratch.run(*model_.net, feed);  // [n, steps, classes]
  const int64_t steps = probs.shape()[1], classes = probs.shape()[2];
  for (size_t b = 0; b < batch.size(); ++b) {
    const float* p = probs.data<float>() + static_cast<int64_t>(b) * steps * classes;
    if (scratch.dump)
      scratch.dump->floats("logits" + std::to_string(batch[b]), p, {steps, classes});
    Item& item = items[batch[b]];
    item.line = ctc_decode(path_of(p, steps, classes), *dictionary_, spaces_);
    item.scale = {steps, width, sizes[batch[b]].text_width, item.width};
  }
}

// Pieces share kPieceOverlap columns; each gives the steps up to the middle of what it shares.
void Recognizer::run_long(Item& item, const RecognitionSize& size, Scratch& scratch,
                          const cv::Mat& crop) const {
  const int height = resize_.height;
  std::vector<float> columns(static_cast<size_t>(height) * size.width * 3);
  write_recognition_input(crop, size, height, columns.data(), 3);
  std::vector<CtcStep> path;
  const int stride = kPiece - kPieceOverlap;
  const int pieces = 1 + (size.width - kPiece + stride - 1) / stride;
  for (int i = 0; i < pieces; ++i) {
    const int x0 = i * stride;
    const train::Feed feed = scratch.input(*model_.net, 1, height, kPiece);
    const int width = std::min(kPiece, size.width - x0);
    float* out = feed.tensor.data<float>();
    for (int y = 0; y < height; ++y) {  // past the end: zeros, as for any padded line
      float* row = out + int64_t{3} * y * kPiece;
      std::copy_n(columns.data() + (int64_t{1} * y * size.width + x0) * 3, 3 * width, row);
      std::fill(row + 3 * width, row + 3 * kPiece, 0.f);
    }
    const train::Tensor& probs = scratch.run(*model_.net, feed);
    const int64_t steps = probs.shape()[1], classes = probs.shape()[2];
    const std::vector<CtcStep> part = path_of(probs.data<float>(), steps, classes);
    const int64_t half = steps * kPieceOverlap / kPiece / 2;
    const int64_t from = i == 0 ? 0 : half;
    const int64_t to = i + 1 == pieces ? steps : steps - half;
    path.insert(path.end(), part.begin() + from, part.begin() + to);
  }
  item.line = ctc_decode(path, *dictionary_, spaces_);
  const int covered = (pieces - 1) * stride + kPiece;
  item.scale = {static_cast<int64_t>(path.size()), covered, size.text_width, item.width};
}

}  // namespace ocr
