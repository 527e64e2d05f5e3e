// Real: reverse-mode differentiation of scalar f64 code, so that a reference is written once, as a
// forward pass, and gives its exact gradient. References over Real pass finite differences in f64;
// production gradients are held to them.
#pragma once
#include <cmath>
#include <cstdint>
#include <vector>

namespace train::reference {

/// A number on a recording. Copies refer to the same entry.
class Real {
 public:
  Real(double v = 0) : value_(v) {}  // NOLINT(google-explicit-constructor): a constant
  /// A number to differentiate by.
  static Real leaf(double v) { return Real(v, record({-1, -1, 0, 0})); }

  double value() const { return value_; }
  int64_t index() const { return index_; }

  friend Real operator+(const Real& a, const Real& b) {
    return make(a.value_ + b.value_, a, 1, b, 1);
  }
  friend Real operator-(const Real& a, const Real& b) {
    return make(a.value_ - b.value_, a, 1, b, -1);
  }
  friend Real operator-(const Real& a) { return make(-a.value_, a, -1, a, 0); }
  friend Real operator*(const Real& a, const Real& b) {
    return make(a.value_ * b.value_, a, b.value_, b, a.value_);
  }
  friend Real operator/(const Real& a, const Real& b) {
    return make(a.value_ / b.value_, a, 1 / b.value_, b, -a.value_ / (b.value_ * b.value_));
  }
  Real& operator+=(const Real& b) { return *this = *this + b; }
  Real& operator-=(const Real& b) { return *this = *this - b; }
  Real& operator*=(const Real& b) { return *this = *this * b; }
  friend bool operator<(const Real& a, const Real& b) { return a.value_ < b.value_; }
  friend bool operator>(const Real& a, const Real& b) { return a.value_ > b.value_; }
  friend bool operator<=(const Real& a, const Real& b) { return a.value_ <= b.value_; }
  friend bool operator>=(const Real& a, const Real& b) { return a.value_ >= b.value_; }

  friend Real exp(const Real& a) { return unary(a, std::exp(a.value_), std::exp(a.value_)); }
  friend Real log(const Real& a) { return unary(a, std::log(a.value_), 1 / a.value_); }
  friend Real sqrt(const Real& a) {
    return unary(a, std::sqrt(a.value_), .5 / std::sqrt(a.value_));
  }
  friend Real tanh(const Real& a) {
    const double t = std::tanh(a.value_);
    return unary(a, t, 1 - t * t);
  }
  friend Real erf(const Real& a) {
    return unary(a, std::erf(a.value_), 1.1283791670955126 * std::exp(-a.value_ * a.value_));
  }
  friend Real abs(const Real& a) {
    return unary(a, std::abs(a.value_), a.value_ < 0 ? -1 : a.value_ > 0 ? 1 : 0);
  }

  /// The gradient of sum(seed y) for every entry of the recording, and with `magnitude` the same
  /// sum over absolute values of all paths: what rounding errors are relative to.
  static void backward(const std::vector<Real>& y, const std::vector<double>& seed,
                       std::vector<double>& grad, std::vector<double>& magnitude) {
    const std::vector<Entry>& t = recording();
    grad.assign(t.size(), 0);
    magnitude.assign(t.size(), 0);
    for (size_t i = 0; i < y.size(); ++i)
      if (y[i].index_ >= 0) {
        grad[y[i].index_] += seed[i];
        magnitude[y[i].index_] += std::abs(seed[i]);
      }
    for (size_t i = t.size(); i-- > 0;)
      for (int k = 0; k < 2; ++k)
        if (const int64_t p = k ? t[i].b : t[i].a; p >= 0) {
          const double w = k ? t[i].wb : t[i].wa;
          grad[p] += w * grad[i];
          magnitude[p] += std::abs(w) * magnitude[i];
        }
  }
  static void clear() { recording().clear(); }

 private:
  struct Entry {
    int64_t a, b;  // the entries it was made of, or -1
    double wa, wb;
  };
  static std::vector<Entry>& recording() {
    static std::vector<Entry> entries;
    return entries;
  }
  static int64_t record(const Entry& e) {
    recording().push_back(e);
    return static_cast<int64_t>(recording().size()) - 1;
  }
  static Real make(double v, const Real& a, double wa, const Real& b, double wb) {
    if (a.index_ < 0 && b.index_ < 0) return v;
    return Real(v, record({a.index_, b.index_, wa, wb}));
  }
  static Real unary(const Real& a, double v, double w) { return make(v, a, w, Real(0.), 0); }
  Real(double v, int64_t index) : value_(v), index_(index) {}

  double value_;
  int64_t index_ = -1;
};

inline double value_of(double a) { return a; }
inline double value_of(const Real& a) { return a.value(); }

}  // namespace train::reference
