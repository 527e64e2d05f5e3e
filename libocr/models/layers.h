// The building blocks that PaddleOCR's nets share, under the names of their state dicts.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "libocr/models/functions.h"
#include "libtrain/nn/layers.h"
#include "libtrain/nn/sequence.h"

namespace ocr::models {

namespace nn = train::nn;
using BatchNorm = nn::BatchNorm2d;
using nn::Dropout;
using nn::DropPath;
using nn::LayerNorm;

/// A module that makes its children and owns them: a member of a net is a reference to what add()
/// made.
class Block : public nn::Module {
 protected:
  template <class T, class... A>
  T& add(const std::string& name, A&&... args) {
    return adopt(name, std::make_unique<T>(std::forward<A>(args)...));
  }
  template <class T>
  T& adopt(const std::string& name, std::unique_ptr<T> child) {
    T& made = *child;
    add_module(name, made);
    owned_.push_back(std::move(child));
    return made;
  }

 private:
  std::vector<std::unique_ptr<nn::Module>> owned_;
};

/// A block of one input and one output.
class Layer : public Block {
 public:
  virtual Variable operator()(Tape& tape, const Variable& x) const = 0;
};

/// Layers one after another, named "0", "1", ... or as given.
class Sequential : public Layer {
 public:
  template <class T, class... A>
  T& append(A&&... args) {
    return append_as<T>(std::to_string(places_++), std::forward<A>(args)...);
  }
  template <class T, class... A>
  T& append_as(const std::string& name, A&&... args) {
    T& made = add<T>(name, std::forward<A>(args)...);
    layers_.push_back(&made);
    return made;
  }
  /// An activation, which takes up a number as in Paddle's Sequential.
  void append_act(Act act);
  Variable operator()(Tape& tape, const Variable& x) const override;
  bool empty() const { return layers_.empty(); }

 private:
  std::vector<const Layer*> layers_;
  int places_ = 0;
};

/// A list of blocks, named "0", "1", ...
template <class T>
class List final : public Block {
 public:
  template <class... A>
  T& append(A&&... args) {
    items_.push_back(&add<T>(std::to_string(items_.size()), std::forward<A>(args)...));
    return *items_.back();
  }
  const T& operator[](size_t i) const { return *items_[i]; }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }
  size_t size() const { return items_.size(); }

 private:
  std::vector<T*> items_;
};

/// A convolution as a Layer.
class Conv final : public Layer {
 public:
  Conv(int64_t in, int64_t out, const train::Window& window, int64_t groups = 1, bool bias = true);
  Variable operator()(Tape& tape, const Variable& x) const override;
  const Variable& weight() const { return weight_; }

 private:
  std::shared_ptr<const train::Op> op_;
  Variable weight_, bias_;
};

/// The names of the convolution and the normalisation inside a ConvBn: they differ between nets.
struct ConvBnNames {
  const char *conv = "conv", *norm = "bn";
};
constexpr ConvBnNames kUnderscored{"_conv", "_batch_norm"};
constexpr ConvBnNames kSvtrNames{"conv", "norm"};

/// Convolution, batch normalisation, activation.
class ConvBn final : public Layer {
 public:
  ConvBn(int64_t in, int64_t out, const train::Window& window, int64_t groups = 1,
         Act act = Act::kNone, ConvBnNames names = {}, bool bias = false);
  Variable operator()(Tape& tape, const Variable& x) const override;
  const Variable& weight() const { return conv_.weight(); }
  const BatchNorm& norm() const { return norm_; }
  /// The optimiser's L2 penalty spares the normalisation (Paddle's L2Decay(0)).
  ConvBn& spare_norm() {
    norm_.set_weight_decay(0);
    return *this;
  }
  /// The normalisation's scale starts as 0, and so the whole.
  void start_at_zero() {
    norm_.each_parameter([](nn::Parameter& p) { p.init = {}; });
  }

 private:
  Conv& conv_;
  BatchNorm& norm_;
  Act act_;
};

/// Squeeze and excitation (Hu et al. 2018): x times a gate per channel.
class SqueezeExcite final : public Layer {
 public:
  /// `slope` of the gate's hard sigmoid.
  explicit SqueezeExcite(int64_t channels, float slope, int64_t reduction = 4);
  Variable operator()(Tape& tape, const Variable& x) const override;

 private:
  Conv &reduce_, &expand_;
  float slope_;
};
constexpr float kPaddleSlope = 1.f / 6;  // Paddle's default
constexpr float kMobileNetSlope = .2f;

/// y = scale x + bias with two learnt numbers.
class LearnableAffine final : public Layer {
 public:
  explicit LearnableAffine(double learning_rate = 1);  // a multiple of the optimiser's
  Variable operator()(Tape& tape, const Variable& x) const override;
  const Variable& scale() const { return scale_; }
  const Variable& bias() const { return bias_; }

 private:
  Variable scale_, bias_;
};

/// How the linear layers of a module and all below start, their biases being 0: SVTR's truncated
/// normal of deviation 0.02; Glorot's normal (Glorot and Bengio 2010); the same, uniform, which
/// Paddle's layers have unless told otherwise.
void start_truncated_normal(nn::Module& module);
void start_glorot_normal(nn::Module& module);
void start_glorot_uniform(nn::Module& module);

/// How the convolutions of a module and all below start: He's uniform; or what Paddle's layers do
/// unless told otherwise, whose normal counts the inputs of all groups (depthwise convolutions).
void start_he_uniform(nn::Module& module);
void start_over_all_channels(nn::Module& module);

/// The rounding of channel counts to a multiple that all PaddleOCR's mobile nets use.
int64_t make_divisible(double v, int64_t divisor);

}  // namespace ocr::models
