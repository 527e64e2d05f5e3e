#include "libocr/training/own_widths.h"

#include <algorithm>
#include <map>

#include "libocr/text/rtl.h"
#include "libtrain/core/error.h"

namespace ocr {
namespace {

using train::Layout;
using train::Tensor;

constexpr size_t kBatchColumns = 9600;  // of all lines of a batch: bounds the net's memory
constexpr size_t kMostLines = 64;

struct Line {
  Sample sample;
  RecognitionSize size;
  CtcLine text;
};

class Reader {
 public:
  Reader(const models::Model& model, train::Eager& eager, const RecognitionResizeOptions& resize,
         const Dictionary& dictionary)
      : model_(model), eager_(eager), resize_(resize), dictionary_(dictionary) {}

  void read(std::vector<Line>& lines) const {
    std::map<int, std::vector<Line*>> by_width;  // only lines of exactly equal width share a batch
    for (Line& l : lines) by_width[l.size.width].push_back(&l);
    for (const auto& [width, same] : by_width) {
      const size_t most =
          std::clamp<size_t>(kBatchColumns / static_cast<size_t>(width), 1, kMostLines);
      for (size_t at = 0; at < same.size(); at += most)
        read_batch({same.begin() + static_cast<ptrdiff_t>(at),
                    same.begin() + static_cast<ptrdiff_t>(std::min(at + most, same.size()))});
    }
  }

 private:
  void read_batch(std::span<Line* const> lines) const {
    const int64_t width = lines[0]->size.width, floats = int64_t{3} * resize_.height * width;
    const auto n = static_cast<int64_t>(lines.size());
    const Tensor images({n, 3, resize_.height, width});
    for (int64_t i = 0; i < n; ++i)
      write_recognition_input(lines[static_cast<size_t>(i)]->sample.image,
                              lines[static_cast<size_t>(i)]->size, resize_.height,
                              images.data<float>() + i * floats, 3);
    train::Tape tape(eager_, /*record=*/false);
    const models::Outputs out = model_(tape, train::Variable::input(images, Layout::kChannelsLast));
    const Tensor& probs = out.begin()->second.value();  // [n, steps, classes]
    const int64_t steps = probs.shape()[1], classes = probs.shape()[2];
    std::vector<CtcStep> path(static_cast<size_t>(steps));
    const SpaceRecovery spaces{.enabled = true};
    const bool reversed = is_right_to_left_dictionary(dictionary_.name());
    for (int64_t i = 0; i < n; ++i) {
      ctc_steps(probs.data<float>() + i * steps * classes, classes, steps, classes,
                dictionary_.space(), path);
      CtcLine& line = lines[static_cast<size_t>(i)]->text;
      line = ctc_decode(path, dictionary_, spaces);
      if (reversed) line.text = reverse_right_to_left(line.text);
    }
  }

  const models::Model& model_;
  train::Eager& eager_;
  const RecognitionResizeOptions& resize_;
  const Dictionary& dictionary_;
};

}  // namespace

int64_t read_at_own_widths(const models::Model& model, train::Eager& eager, const OcrDataset& data,
                           const RecognitionResizeOptions& resize, const Dictionary& dictionary,
                           int rank, int ranks,
                           const std::function<void(const Sample&, const CtcLine&)>& tell) {
  const Reader reader(model, eager, resize, dictionary);
  int64_t unread = 0;
  for (int64_t begin = 0; begin < data.size(); begin += kOwnWidthWindow) {
    std::vector<Line> lines;
    for (int64_t i = begin; i < std::min(begin + kOwnWidthWindow, data.size()); ++i) try {
        if (i % ranks != rank) continue;
        Line line{data.decoded(i), {}, {}};
        line.size = recognition_size(line.sample.image.cols, line.sample.image.rows, resize);
        lines.push_back(std::move(line));
      } catch (const train::Error&) {
        ++unread;  // `ocr data check` says which and why
      }
    reader.read(lines);
    for (const Line& l : lines) tell(l.sample, l.text);
  }
  return unread;
}

}  // namespace ocr
