// StateVisitor: how an object names what a checkpoint must hold of it; one function saves and
// loads.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "libtrain/core/tensor.h"

namespace train {

/// Walks over an object's state by name: a saving visitor reads the values, a loading one sets
/// them. Names are unique within a checkpoint; `scope` puts a prefix before those of a part.
class StateVisitor {
 public:
  virtual ~StateVisitor() = default;
  virtual void value(std::string_view name, int64_t& v) = 0;
  virtual void value(std::string_view name, double& v) = 0;
  virtual void value(std::string_view name, std::string& v) = 0;
  /// When loading, `t` is filled in place and must have the saved shape and dtype.
  virtual void tensor(std::string_view name, Tensor& t) = 0;
  /// A tensor that may be undefined: then it is not saved, and what was not saved becomes
  /// undefined.
  virtual void maybe_tensor(std::string_view name, Tensor& t) = 0;
  /// True when the visitor sets what it visits.
  virtual bool loading() const = 0;

  /// Prefixes the names visited during its life: "optimizer" + "moment1" -> "optimizer.moment1".
  class Scope {
   public:
    Scope(StateVisitor& visitor, std::string_view name)
        : visitor_(visitor), length_(visitor.prefix_.size()) {
      visitor.prefix_.append(name).append(".");
    }
    ~Scope() { visitor_.prefix_.resize(length_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    StateVisitor& visitor_;
    size_t length_;
  };

 protected:
  std::string full(std::string_view name) const { return prefix_ + std::string(name); }

 private:
  std::string prefix_;
};

}  // namespace train
