#include "libocr/training/replay.h"

#include <algorithm>
#include <cmath>

#include "libocr/onnx/import.h"
#include "libocr/postprocess/ctc.h"
#include "libtrain/core/error.h"
#include "libtrain/core/philox.h"
#include "libtrain/graph/net.h"

namespace ocr {

using train::cat;
using train::Tensor;

namespace {

Tensor noise(const train::Shape& shape, uint64_t stream) {
  const train::RandomStream random(17, stream);
  Tensor t(shape);
  for (int64_t i = 0; i < t.numel(); ++i)
    t.data<float>()[i] = random.uniform(static_cast<uint64_t>(i), -1.f, 1.f);
  return t;
}

class Replay {
 public:
  Replay(models::Model& net, const std::string& model, const std::string& type,
         const Dictionary* dictionary, const ReplayOptions& options)
      : net_(net), type_(type), dictionary_(dictionary), o_(options) {
    ModelInfo info;
    train::Graph graph = import_onnx(model, "inference.onnx", {}, &info);
    dims_ = info.inputs[0].dims;
    const auto last = std::ranges::find_if(
        graph.nodes, [&](const train::Node& n) { return n.outputs[0] == graph.outputs[0]; });
    graph.outputs.push_back(last->inputs[0]);
    deployed_ = train::Net::compile(std::move(graph));
    net_.train(false);
  }

  void samples(const OcrDataset& eval) {
    const train::RandomStream none(0, 0);
    for (int64_t i = 0; i < eval.size() && report_.samples < o_.samples; ++i) {
      Sample s;
      try {
        s = eval.load({.index = i, .random = none});
      } catch (const SkippedSample&) {
        ++report_.unread;
        continue;
      }
      const Tensor image = field_of(s, "image");
      const train::Shape d = image.shape();
      compare(image.reshaped({1, d[0], d[1], d[2]}), s.image_name, &s);
      ++report_.samples;
    }
  }

  void noises(int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      // Batches of one to three, of several sizes where they are free.
      const int64_t h = dims_[2] > 0 ? dims_[2] : 64 + 32 * (i % 3);
      const int64_t w = dims_[3] > 0 ? dims_[3] : 96 + 64 * (i % 4);
      const train::Shape shape{1 + i % 3, 3, h, w};
      compare(noise(shape, static_cast<uint64_t>(i)), "random numbers " + shape.str(), nullptr);
      ++report_.noise;
    }
  }

  ReplayReport report() const { return report_; }

 private:
  void compare(const Tensor& images, const std::string& name, const Sample* sample) {
    train::Tape tape(eager_, /*record=*/false);
    train::Variable before;
    tape.on_step([&](const train::AppliedOp& step) { before = step.inputs[0]; });
    const train::Variable out = net_(tape, train::Variable::input(images)).begin()->second;
    const auto linear = [&](const train::Variable& v) {
      return eager_.to_layout(v.array(), train::Layout::kLinear).tensor;
    };
    const Tensor wanted = linear(out), wanted_before = linear(before);
    std::vector<Tensor> got;
    const train::Feed feed{images};
    deployed_->run(context_, {&feed, 1}, got);
    if (got[0].shape() != wanted.shape())
      throw train::Error(cat(name, ": the deployed model gives ", got[0].shape().str(),
                             ", the trained net ", wanted.shape().str()));
    compare_values(got[1], wanted_before, name);
    if (!sample) return;
    if (type_ == "rec" && dictionary_) compare_text(got[0], wanted, name);
    if (type_ == "det") compare_boxes(got[0], wanted, name, *sample);
    if (type_ == "cls") compare_class(got[0], wanted, name);
  }

  void compare_values(const Tensor& got, const Tensor& wanted, const std::string& name) {
    const auto [least, most] = std::ranges::minmax(wanted.span<float>());
    const double range = std::max(double{most} - least, 1e-6);
    double greatest = 0;
    for (int64_t i = 0; i < wanted.numel(); ++i) {
      const double d = std::abs(double{got.data<float>()[i]} - wanted.data<float>()[i]) / range;
      if (!(d <= greatest)) greatest = d;  // NaN stays
    }
    if (!(greatest <= o_.tolerance))
      throw train::Error(cat(name, ": the deployed model differs from the trained net by ",
                             greatest, " of the values' range, more than ", o_.tolerance));
    if (greatest < report_.max_difference) return;
    report_.max_difference = greatest;
    report_.where = name;
  }

  void differ(bool tie, const std::string& name, const std::string& what) {
    if (!tie) throw train::Error(cat(name, ": ", what));
    ++report_.ties;
  }

  // Whether the two greatest of `p` are as good as equal.
  bool close(std::span<const float> p) const {
    float first = -1, second = -1;
    for (const float v : p) {
      if (v > first)
        second = first, first = v;
      else
        second = std::max(second, v);
    }
    return first - second <= o_.tie;
  }

  void compare_text(const Tensor& got, const Tensor& wanted, const std::string& name) {
    const int64_t steps = wanted.shape()[1], classes = wanted.shape()[2];
    const auto read = [&](const Tensor& probs) {
      std::vector<CtcStep> best(static_cast<size_t>(steps));
      ctc_steps(probs.data<float>(), classes, steps, classes, dictionary_->space(), best);
      return best;
    };
    const std::vector<CtcStep> a = read(got), b = read(wanted);
    const std::string text = ctc_decode(a, *dictionary_).text;
    const std::string expected = ctc_decode(b, *dictionary_).text;
    if (text == expected) return;
    bool tie = true;
    for (int64_t t = 0; t < steps; ++t)
      if (a[static_cast<size_t>(t)].index != b[static_cast<size_t>(t)].index)
        tie = tie && close({wanted.data<float>() + t * classes, static_cast<size_t>(classes)});
    differ(tie, name,
           cat("the deployed model reads '", text, "', the trained net '", expected, "'"));
  }

  void compare_class(const Tensor& got, const Tensor& wanted, const std::string& name) {
    const std::span<const float> a = got.span<float>(), b = wanted.span<float>();
    const auto best = [](std::span<const float> p) {
      return std::ranges::max_element(p) - p.begin();
    };
    if (best(a) == best(b)) return;
    differ(close(b), name, "the deployed model says another class than the trained net");
  }

  void compare_boxes(const Tensor& got, const Tensor& wanted, const std::string& name,
                     const Sample& s) {
    const int h = static_cast<int>(wanted.shape()[2]), w = static_cast<int>(wanted.shape()[3]);
    const auto boxes = [&](const Tensor& map, const DbOptions& options) {
      return db_postprocess(map.data<float>(), w, h, w, s.source_height, s.source_width, options);
    };
    const std::vector<Detection> a = boxes(got, o_.db), b = boxes(wanted, o_.db);
    const auto same = [](const Detection& x, const Detection& y) { return x.points == y.points; };
    if (std::ranges::equal(a, b, same)) return;
    // A pixel or a box at its threshold.
    bool tie = std::ranges::any_of(wanted.span<float>(), [&](float p) {
      return std::abs(double{p} - o_.db.thresh) <= o_.tie;
    });
    for (const Detection& d : a) tie = tie || std::abs(d.score - o_.db.box_thresh) <= o_.tie;
    for (const Detection& d : b) tie = tie || std::abs(d.score - o_.db.box_thresh) <= o_.tie;
    differ(tie, name,
           cat("the deployed model finds ", a.size(), " boxes, the trained net ", b.size(),
               a.size() == b.size() ? " elsewhere" : ""));
  }

  models::Model& net_;
  const std::string& type_;
  const Dictionary* dictionary_;
  const ReplayOptions& o_;
  std::shared_ptr<const train::Net> deployed_;
  std::vector<int64_t> dims_;
  train::Eager eager_;
  train::Context context_;
  ReplayReport report_;
};

}  // namespace

std::string ReplayReport::str() const {
  std::string text =
      samples > 0 ? cat(samples, " samples") : cat(noise, " inputs of random numbers");
  if (samples > 0 && noise > 0) text += cat(" and ", noise, " batches of random numbers");
  text += cat(", greatest difference ", max_difference, " of the range");
  if (ties > 0) text += cat(", ", ties, " of them with a tie that fell the other way");
  return text;
}

ReplayReport replay(models::Model& net, const std::string& model, const std::string& model_type,
                    const OcrDataset* eval, const Dictionary* dictionary,
                    const ReplayOptions& options) {
  Replay r(net, model, model_type, dictionary, options);
  if (eval) r.samples(*eval);
  r.noises(r.report().samples > 0 ? 4 : std::max<int64_t>(options.samples, 4));
  return r.report();
}

}  // namespace ocr
