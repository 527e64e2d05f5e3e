#include "libtrain/core/shape.h"

#include <algorithm>

#include "libtrain/core/error.h"

namespace train {

Shape::Shape(std::span<const int64_t> dims) {
  for (int64_t d : dims) push_back(d);
}

int Shape::axis(int64_t i) const {
  const int64_t a = i < 0 ? i + rank_ : i;
  if (a < 0 || a >= rank_) throw ShapeError(cat("axis ", i, " is outside a shape of rank ", rank_));
  return static_cast<int>(a);
}

void Shape::push_back(int64_t d) { insert(rank_, d); }

void Shape::insert(int at, int64_t d) {
  if (rank_ == kMaxRank) throw ShapeError(cat("tensors have at most ", kMaxRank, " dimensions"));
  std::copy_backward(dims_.begin() + at, dims_.begin() + rank_, dims_.begin() + rank_ + 1);
  dims_[at] = d;
  ++rank_;
}

void Shape::erase(int at) {
  std::copy(dims_.begin() + at + 1, dims_.begin() + rank_, dims_.begin() + at);
  --rank_;
}

int64_t Shape::count(int from, int to) const {
  constexpr int64_t most = int64_t{1} << 48;  // of a dimension too: beside a 0 none may be huge
  int64_t n = 1;
  for (int i = from; i < to; ++i) {
    if (dims_[i] < 0 || dims_[i] > most || __builtin_mul_overflow(n, dims_[i], &n) || n > most)
      throw ShapeError("the shape " + str() + " has no valid element count");
  }
  return n;
}

bool Shape::operator==(const Shape& o) const { return std::ranges::equal(dims(), o.dims()); }

std::string Shape::str() const {
  std::string s = "[";
  for (int i = 0; i < rank_; ++i) s += (i ? ", " : "") + std::to_string(dims_[i]);
  return s + "]";
}

Shape broadcast(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  Shape out;
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank()), ib = i - (rank - b.rank());
    const int64_t da = ia < 0 ? 1 : a[ia], db = ib < 0 ? 1 : b[ib];
    if (da != db && da != 1 && db != 1)
      throw ShapeError("the shapes " + a.str() + " and " + b.str() + " do not broadcast");
    out.push_back(da == 1 ? db : da);
  }
  return out;
}

}  // namespace train
