// Training by numbers: outputs, losses, gradients and one optimiser's step of PaddleOCR's nets
// against PaddlePaddle's, from the same weights and batch (scripts/fixtures/make_nets.py).
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "libocr/training/losses.h"
#include "libocr/training/optimizer.h"
#include "libtrain/core/error.h"

namespace ocr {
namespace {

using train::cat;
using train::DType;
using train::Eager;
using train::Shape;
using train::Tape;
using train::Tensor;
using train::Variable;

// ---- The fixtures' formulas.

/// Number `i` of the sequence called `name`, in [-1, 1).
class Numbers {
 public:
  explicit Numbers(const std::string& name) {
    for (const char c : name) seed_ = (seed_ ^ static_cast<unsigned char>(c)) * 1099511628211u;
  }
  double operator[](int64_t i) const {
    uint64_t z = seed_ + (static_cast<uint64_t>(i) + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    return static_cast<double>(z >> 40) / (1 << 23) - 1;
  }
  /// The same in [0, below).
  int64_t integer(int64_t i, int64_t below) const {
    return std::min(static_cast<int64_t>(((*this)[i] + 1) / 2 * static_cast<double>(below)),
                    below - 1);
  }

 private:
  uint64_t seed_ = 14695981039346656037u;
};

bool ends_with(const std::string& s, const char* end) { return s.ends_with(end); }

/// x (even i) or y of places in an image, `half` along its upper and as many along its lower edge.
double edge_place(int64_t i, int64_t half) {
  const int64_t point = i / 2;
  const double part = i % 2 == 0 ? static_cast<double>(point % half) / static_cast<double>(half - 1)
                                 : static_cast<double>(point / half);
  return .1 + .8 * part;
}

/// A tensor of a state dict, in Paddle's order of elements.
Tensor weights(const std::string& name, const Shape& shape) {
  const Numbers u(name);
  int64_t longest = 1;
  for (const int64_t d : shape) longest = std::max(longest, d);
  const double bound =
      std::sqrt(3 * static_cast<double>(longest) / static_cast<double>(shape.numel()));
  Tensor t(shape);
  for (int64_t i = 0; i < t.numel(); ++i) {
    double v = .1 * u[i];
    if (ends_with(name, "stn_fc2.weight"))
      v = .02 * u[i];
    else if (ends_with(name, "stn_fc2.bias"))
      v = edge_place(i, t.numel() / 4) + .02 * u[i];
    else if (shape.rank() > 1)
      v = bound * u[i];
    else if (ends_with(name, "_variance"))
      v = 1 + .5 * u[i];
    else if (ends_with(name, "weight") || ends_with(name, "scale"))
      v = 1 + .2 * u[i];
    t.data<float>()[i] = static_cast<float>(v);
  }
  return t;
}

/// [m, n] -> [n, m]: Paddle's Linear holds its weight so.
Tensor transposed(const Tensor& t) {
  const int64_t m = t.shape()[0], n = t.shape()[1];
  Tensor r({n, m});
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) r.data<float>()[j * m + i] = t.data<float>()[i * n + j];
  return r;
}

struct Figures {
  double norm = 0, product = 0;
};
Figures figures(const std::string& name, const Tensor& t) {
  const Numbers u(name + "#");
  Figures f;
  for (int64_t i = 0; i < t.numel(); ++i) {
    const double v = static_cast<double>(t.data<float>()[i]);
    f.norm += v * v;
    f.product += v * u[i];
  }
  f.norm = std::sqrt(f.norm);
  return f;
}

// ---- A fixture.

struct Fixture {
  std::string config;
  double tolerance = 0;  // of gradients and steps, relative to their norm
  int nudge = 0;         // images are moved by so many times 1e-7 of their values
  int64_t classes = 0;
  Shape images;
  struct Tensors {
    std::string shape;
    Figures value, step;  // of a parameter: its gradient and its change
  };
  std::map<std::string, Tensors> outputs, evaluated, parameters, buffers;
  std::map<std::string, double> losses;
};

Fixture read(const std::string& path) {
  Fixture f;
  std::ifstream in(path);
  EXPECT_TRUE(in) << path;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string kind, name;
    words >> kind;
    if (kind == "config") {
      f.config = line.substr(kind.size() + 1);
    } else if (kind == "classes") {
      words >> f.classes;
    } else if (kind == "tolerance") {
      words >> f.tolerance;
    } else if (kind == "images") {
      f.images = Shape{0, 0, 0, 0};
      for (size_t i = 0; i < 4; ++i) words >> f.images[i];
    } else if (kind == "loss") {
      words >> name;
      words >> f.losses[name];
    } else {
      words >> name;
      Fixture::Tensors t;
      if (kind != "evaluated") words >> t.shape;
      words >> t.value.norm >> t.value.product;
      if (kind == "parameter") words >> t.step.norm >> t.step.product;
      EXPECT_TRUE(words) << line;
      (kind == "output"      ? f.outputs
       : kind == "evaluated" ? f.evaluated
       : kind == "parameter" ? f.parameters
                             : f.buffers)[name] = t;
    }
  }
  return f;
}

std::string text(const Shape& s) {
  std::string t;
  for (const int64_t d : s) t += (t.empty() ? "" : "x") + std::to_string(d);
  return t;
}

// "a x b x c" -> "a x b x 1 x c"
std::string with_height(const std::string& shape) {
  const size_t last = shape.rfind('x');
  return last == std::string::npos ? shape : shape.substr(0, last) + "x1" + shape.substr(last);
}

// ---- The batch.

Tensor images_of(const Fixture& f) {
  const Numbers u("images");
  Tensor t(f.images);
  for (int64_t i = 0; i < t.numel(); ++i)
    t.data<float>()[i] = static_cast<float>(u[i] * (1 + (i % 2 ? 1e-7 : -1e-7) * f.nudge));
  return t;
}

// Labels of 2 to 4 characters in rows of 8, without repeats next to each other.
RecognitionBatch recognition_batch(const Fixture& f) {
  constexpr int64_t kMost = 8;
  const int64_t n = f.images[0], characters = f.classes - 1;
  RecognitionBatch b{images_of(f), Tensor::zeros({n, kMost}, DType::kI64), Tensor({n}, DType::kI64),
                     Tensor::zeros({n, kMost}, DType::kI64)};
  const Numbers labels("labels"), lengths("lengths");
  for (int64_t i = 0; i < n; ++i) {
    const int64_t length = b.lengths.data<int64_t>()[i] = 2 + lengths.integer(i, 3);
    int64_t* row = b.labels.data<int64_t>() + i * kMost;
    int64_t* guide = b.guide.data<int64_t>() + i * kMost;
    guide[0] = 2;
    for (int64_t k = 0; k < length; ++k) {
      row[k] = 1 + labels.integer(i * kMost + k, characters);
      if (k > 0 && row[k] == row[k - 1]) row[k] = row[k] % characters + 1;
      guide[k + 1] = row[k] + 3;
    }
    guide[length + 1] = 3;
  }
  return b;
}

Tensor map_of(const char* name, const Fixture& f, const std::function<double(double)>& value) {
  const Numbers u(name);
  Tensor t({f.images[0], f.images[2], f.images[3]});
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(value(u[i]));
  return t;
}

// ---- The comparison.

constexpr double kRelative = 1e-4;  // of a norm, where the fixture does not say otherwise

void expect_close(const Figures& got, const Figures& wanted, const std::string& what) {
  const double bound = kRelative * wanted.norm;
  EXPECT_NEAR(got.norm, wanted.norm, bound) << what;
  EXPECT_NEAR(got.product, wanted.product, bound) << what;
}

using Differences = std::vector<std::string>;
void compare(const Figures& got, const Figures& wanted, double bound, const std::string& what,
             Differences& found) {
  if (std::abs(got.norm - wanted.norm) <= bound && std::abs(got.product - wanted.product) <= bound)
    return;
  found.push_back(cat(what, ": norm and product ", got.norm, " and ", got.product, ", not ",
                      wanted.norm, " and ", wanted.product));
}

class Parity : public testing::TestWithParam<std::string> {};

// Everything of one net; `trained` keeps its loss and outputs.
class Comparison {
 public:
  explicit Comparison(const Fixture& f) : f_(f) {
    config_ = train::config::parse_training_config(f.config, "fixture");
    model_ = models::build_model(config_.architecture, f.classes, context_);
    for (models::nn::StateEntry& e : model_->state_dict(models::nn::Naming::kPaddle)) {
      const Shape own = e.variable.shape();
      const Tensor t = weights(e.name, e.transposed ? Shape{own[1], own[0]} : own);
      const Tensor turned = e.transposed ? transposed(t) : t;
      std::copy_n(turned.data<float>(), t.numel(), e.variable.writable().data<float>());
    }
  }

  void names_and_shapes() {
    std::map<std::string, std::string> missing, mine;
    for (const auto* list : {&f_.parameters, &f_.buffers})
      for (const auto& [name, t] : *list) missing[name] = t.shape;
    for (const auto& e : model_->state_dict(models::nn::Naming::kPaddle)) {
      const Shape own = e.variable.shape();
      const std::string shape = text(e.transposed ? Shape{own[1], own[0]} : own);
      const auto at = missing.find(e.name);
      if (at == missing.end())
        ADD_FAILURE() << "Paddle's net has no " << e.name << " " << shape;
      else {
        // A convolution along a sequence has no height in Paddle, and height 1 here.
        EXPECT_TRUE(at->second == shape || with_height(at->second) == shape)
            << e.name << ": " << shape << ", Paddle's " << at->second;
        missing.erase(at);
      }
    }
    for (const auto& [name, shape] : missing) ADD_FAILURE() << "no " << name << " " << shape;
  }

  void evaluation() {
    model_->train(false);
    Tape tape(eager_, false);
    for (const auto& [name, y] : (*model_)(tape, Variable::input(images_of(f_))))
      expect_close(figures(name, tape_order(tape, y)), f_.evaluated.at(name).value,
                   cat("evaluated ", name));
    model_->train(true);
  }

  void losses() {
    Tape tape(eager_, true);
    train::Metrics parts;
    const Variable loss = loss_of(tape, parts);
    parts.emplace_back("loss", static_cast<double>(loss.value().data<float>()[0]));
    EXPECT_EQ(parts.size(), f_.losses.size());
    for (const auto& [name, v] : parts)
      EXPECT_NEAR(v, f_.losses.at(name), kRelative * std::abs(f_.losses.at(name))) << name;
    tape.backward(loss);
  }

  // What differs in gradients and in the weights' change.
  Differences gradients_and_step() {
    Differences found;
    double all = 0;
    for (const auto& [name, t] : f_.parameters) all += t.value.norm * t.value.norm;
    // A convolution before a normalisation has a gradient along itself that is almost nothing, what
    // is left of large terms: the floor is their rounding.
    const double floor = 3e-6 * std::sqrt(all);
    std::map<std::string, Tensor> before;
    const auto entries = model_->state_dict(models::nn::Naming::kPaddle);
    for (const auto& e : entries) {
      if (e.is_buffer) continue;
      const Tensor& g = e.variable.grad();
      const Tensor gradient = g.defined() ? g : Tensor::zeros(e.variable.shape());
      if (const auto at = f_.parameters.find(e.name); at != f_.parameters.end())
        compare(figures(e.name, e.transposed ? transposed(gradient) : gradient), at->second.value,
                f_.tolerance * at->second.value.norm + floor, cat("gradient of ", e.name), found);
      before[e.name] = e.variable.value().clone();
    }
    train::config::OptimizerConfig o = config_.optimizer;
    make_optimizer(o, model_->parameters())->step();
    for (const auto& e : entries) {
      if (e.is_buffer) {
        const auto at = f_.buffers.find(e.name);
        if (at == f_.buffers.end())
          ADD_FAILURE() << e.name;
        else
          expect_close(figures(e.name, e.variable.value()), at->second.value, e.name);
        continue;
      }
      Tensor change = e.variable.value().clone();
      for (int64_t i = 0; i < change.numel(); ++i)
        change.data<float>()[i] -= before[e.name].data<float>()[i];
      if (const auto at = f_.parameters.find(e.name); at != f_.parameters.end())
        compare(figures(e.name, e.transposed ? transposed(change) : change), at->second.step,
                f_.tolerance * at->second.step.norm + floor, cat("change of ", e.name), found);
    }
    return found;
  }

 private:
  // In logical order, whatever the layout.
  static Tensor tape_order(Tape& tape, const Variable& y) {
    return train::reshape(tape, y, {y.shape().numel()}).value();
  }

  void check_outputs(Tape& tape, const models::Outputs& out) {
    for (const auto& [name, y] : out) {
      const auto& wanted = f_.outputs.at(name);
      EXPECT_EQ(text(y.shape()), wanted.shape) << name;
      expect_close(figures(name, tape_order(tape, y)), wanted.value, name);
    }
  }

  Variable loss_of(Tape& tape, train::Metrics& parts) {
    const auto& section = config_.loss;
    if (config_.architecture.model_type == "rec") {
      const RecognitionBatch batch = recognition_batch(f_);
      const RecognitionLoss loss(recognition_loss_options(section, model_->has_guide(), context_));
      const models::Outputs out = loss.forward(tape, *model_, batch);
      check_outputs(tape, out);
      return loss(tape, out, batch, parts);
    }
    const models::Outputs out = (*model_)(tape, Variable::input(images_of(f_)));
    check_outputs(tape, out);
    if (config_.architecture.model_type == "det") return db(tape, out, parts);
    const int64_t n = f_.images[0], classes = out.at("cls").shape()[1];
    Tensor labels({n}, DType::kI64);
    for (int64_t i = 0; i < n; ++i)
      labels.data<int64_t>()[i] = Numbers("labels").integer(i, classes);
    return train::nn::SoftmaxCrossEntropy()(tape, out.at("cls"), Variable::input(labels));
  }

  Variable db(Tape& tape, const models::Outputs& out, train::Metrics& parts) {
    const auto masked = [](double u) { return double(u >= -.5); };  // three of four
    const auto map = [&](const char* name, const std::function<double(double)>& value) {
      return Variable::input(map_of(name, f_, value));
    };
    const DetectionTargets targets{
        map("threshold_map", [](double u) { return (u + 1) / 2; }), map("threshold_mask", masked),
        map("shrink_map", [](double u) { return double((u + 1) * 3 < 1); }),
        map("shrink_mask", masked)};
    return detection_loss(tape, out, targets, detection_loss_options(config_.loss, context_),
                          parts);
  }

  const Fixture& f_;
  train::config::TrainingConfig config_;
  train::config::ReadContext context_;
  std::unique_ptr<models::Model> model_;
  Eager eager_;
};

TEST_P(Parity, NamesOutputsLossesGradientsAndStep) {
  Fixture f = read(cat(OCR_TEST_DATA, "/parity/", GetParam(), ".txt"));
  // Rounding can put an element on the other side of an activation's corner, and the gradients of
  // these small maps elsewhere by ten percent. Which element does depends on the last bits, of the
  // instruction set's sums or of the images; a wrong gradient is wrong wherever it falls.
  Differences first;
  for (f.nudge = 0; f.nudge < 4; ++f.nudge) {
    Comparison run(f);
    run.names_and_shapes();
    run.evaluation();
    run.losses();
    const Differences found = run.gradients_and_step();
    if (found.empty()) return;
    if (f.nudge == 0) first = found;
  }
  for (const std::string& difference : first) ADD_FAILURE() << difference;
}

std::vector<std::string> fixtures() {
  std::vector<std::string> names;
  for (const auto& e : std::filesystem::directory_iterator(OCR_TEST_DATA "/parity"))
    if (e.path().extension() == ".txt") names.push_back(e.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Paddle, Parity, testing::ValuesIn(fixtures()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace ocr
