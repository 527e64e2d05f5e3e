// Module: a piece of a model that owns named parameters, buffers and other modules.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libtrain/autograd/tape.h"

namespace train::nn {

/// How a parameter starts. kKaimingUniform: uniform in +-gain sqrt(3 / fan_in); kKaimingNormal:
/// normal with deviation gain / sqrt(fan_in); kUniform: uniform in +-gain; kNormal: normal with
/// deviation gain; kTruncatedNormal: the same cut at two deviations. (He et al. 2015.) kValues: the
/// numbers given, one per element.
struct Init {
  enum class Kind : uint8_t {
    kConstant,
    kUniform,
    kKaimingUniform,
    kKaimingNormal,
    kNormal,
    kTruncatedNormal,
    kValues
  };
  Kind kind = Kind::kConstant;
  double gain = 0;  // the value itself for kConstant
  int64_t fan_in = 1;
  std::vector<float> values = {};
};

/// Fills `t` from the random stream (seed, name): the values depend on nothing else, not on which
/// parameters exist beside it nor in which order they are made.
void fill(Tensor& t, const Init& init, uint64_t seed, std::string_view name);

struct Parameter {
  std::string name;  // "conv1.weight", as in PyTorch's state dict
  Variable variable;
  Init init;
  float lr_multiplier = 1;
  std::optional<float> weight_decay;  // in place of the optimiser's (PaddleOCR's fc_decay)
  bool matrix = false;                // a product's [out, in], which Paddle stores as [in, out]
};

/// State that no gradient flows to: running statistics. A handle: copies share the value.
struct Buffer {
  std::string name;
  Variable variable;
};

/// Whose names a state dict uses.
enum class Naming : uint8_t { kTorch, kPaddle };

/// One tensor of a state dict. `transposed`: the file holds it as [in, out] (Paddle's Linear).
struct StateEntry {
  std::string name;
  Variable variable;
  bool is_buffer = false;
  bool transposed = false;
};

/// Members register themselves in the constructor, so a module stays where it is made.
class Module {
 public:
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Own parameters first, then the children's, in order of registration, with full names.
  std::vector<Parameter> parameters() const;
  std::vector<Buffer> buffers() const;
  /// Parameters and buffers, module by module. Torch: weight, bias, running_mean, running_var;
  /// Paddle: weight, bias, _mean, _variance.
  std::vector<StateEntry> state_dict(Naming naming = Naming::kTorch) const;
  /// All modules below this one, in order of registration.
  std::vector<Module*> descendants() const;
  /// Sets every parameter to its start, a function of `seed` and its full name, and every buffer to
  /// its own.
  void initialize(uint64_t seed);

  /// Whether batch statistics, dropout and the like behave as in training (the start) or
  /// evaluation; for this module and all below.
  void train(bool on = true);
  bool training() const { return training_; }
  /// For the parameters of this module and all below: multiplies what they had.
  void scale_learning_rate(float factor);
  void set_weight_decay(float decay);
  /// Lets `f` change what the parameters of this module and all below ask for: start, rate, decay.
  /// It sees the last part of each name.
  void each_parameter(const std::function<void(Parameter&)>& f);
  /// Freezes or unfreezes every parameter of this module and all below.
  void set_requires_grad(bool on);

 protected:
  Module() = default;
  /// A parameter, unset until initialize().
  Variable add_parameter(std::string name, const Shape& shape, const Init& init,
                         bool matrix = false);
  /// A buffer that starts, and is reset by initialize(), as `value` everywhere.
  Variable add_buffer(std::string name, const Shape& shape, float value);
  void add_module(std::string name, Module& child);

 private:
  struct OwnBuffer {
    Buffer buffer;
    float start;
  };
  template <class F>
  void each_module(const std::string& prefix, F&& f) const;

  bool training_ = true;
  std::vector<Parameter> own_;
  std::vector<OwnBuffer> buffers_;
  std::vector<std::pair<std::string, Module*>> children_;
};

}  // namespace train::nn
