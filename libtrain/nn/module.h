// Module: a piece of a model that owns named parameters and other modules.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "libtrain/autograd/tape.h"

namespace train::nn {

/// How a parameter starts. kKaimingUniform: uniform in +-gain sqrt(3 / fan_in); kKaimingNormal:
/// normal with deviation gain / sqrt(fan_in); kUniform: uniform in +-gain. (He et al. 2015.)
struct Init {
  enum class Kind : uint8_t { kConstant, kUniform, kKaimingUniform, kKaimingNormal };
  Kind kind = Kind::kConstant;
  double gain = 0;  // the value itself for kConstant
  int64_t fan_in = 1;
};

/// Fills `t` from the random stream (seed, name): the values depend on nothing else, not on which
/// parameters exist beside it nor in which order they are made.
void fill(Tensor& t, const Init& init, uint64_t seed, std::string_view name);

struct Parameter {
  std::string name;  // "conv1.weight", as in PyTorch's state dict
  Variable variable;
  Init init;
};

/// Members register themselves in the constructor, so a module stays where it is made.
class Module {
 public:
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Own parameters first, then the children's, in order of registration, with full names.
  std::vector<Parameter> parameters() const;
  /// Sets every parameter to its start, a function of `seed` and its full name.
  void initialize(uint64_t seed);

 protected:
  Module() = default;
  /// A parameter, unset until initialize().
  Variable add_parameter(std::string name, const Shape& shape, const Init& init);
  void add_module(std::string name, Module& child);

 private:
  void collect(const std::string& prefix, std::vector<Parameter>& out) const;
  std::vector<Parameter> own_;
  std::vector<std::pair<std::string, Module*>> children_;
};

}  // namespace train::nn
