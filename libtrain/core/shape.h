// A tensor's logical shape: up to 8 dimensions, in ONNX's and PyTorch's order.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace train {

class Shape {
 public:
  static constexpr int kMaxRank = 8;

  Shape() = default;  // a scalar
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims);  // throws ShapeError past kMaxRank

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[i]; }
  int64_t& operator[](int i) { return dims_[i]; }
  /// Counts from the end for negative `i`, as ONNX axes do; throws ShapeError out of range.
  int axis(int64_t i) const;
  int64_t dim(int64_t i) const { return dims_[axis(i)]; }
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }
  std::span<const int64_t> dims() const { return {begin(), end()}; }
  void push_back(int64_t d);
  void insert(int at, int64_t d);
  void erase(int at);

  /// The product of all dimensions, 1 for a scalar; throws ShapeError when negative or past 2^48.
  int64_t numel() const { return count(0, rank_); }
  /// The product of dimensions [from, to).
  int64_t count(int from, int to) const;

  bool operator==(const Shape& o) const;
  std::string str() const;  // "[1, 3, 48, 320]"

 private:
  int rank_ = 0;
  std::array<int64_t, kMaxRank> dims_{};
};

/// numpy's broadcasting of two shapes; throws ShapeError when they do not fit.
Shape broadcast(const Shape& a, const Shape& b);

}  // namespace train
