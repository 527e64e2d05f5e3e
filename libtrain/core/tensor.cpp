#include "libtrain/core/tensor.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <limits>

#include "libtrain/core/error.h"

namespace train {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
#ifdef __SANITIZE_ADDRESS__
constexpr size_t kMapped = SIZE_MAX;  // malloc's blocks have ends that are watched
#else
constexpr size_t kMapped = kHugePage;
#endif

// Calls `f` with a typed pointer to the elements; 16-bit floats come as their bits.
template <class F>
void visit(DType type, const void* p, F&& f) {
  const auto same = [](auto v) { return v; };
  switch (type) {
    case DType::kF32:
      return f(static_cast<const float*>(p), same);
    case DType::kF64:
      return f(static_cast<const double*>(p), same);
    case DType::kF16:
      return f(static_cast<const uint16_t*>(p), f16_to_f32);
    case DType::kBF16:
      return f(static_cast<const uint16_t*>(p), bf16_to_f32);
    case DType::kI8:
      return f(static_cast<const int8_t*>(p), same);
    case DType::kU8:
      return f(static_cast<const uint8_t*>(p), same);
    case DType::kI32:
      return f(static_cast<const int32_t*>(p), same);
    case DType::kI64:
      return f(static_cast<const int64_t*>(p), same);
    case DType::kBool:
      return f(static_cast<const uint8_t*>(p), [](uint8_t v) { return v != 0; });
  }
}

// A float outside the integer's range has no defined conversion in C++: clamp, NaN to 0.
template <class To, class From>
To convert(From v) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To> &&
                !std::is_same_v<To, bool>) {
    if (v != v) return 0;
    constexpr double lo = static_cast<double>(std::numeric_limits<To>::min());
    constexpr double hi = static_cast<double>(std::numeric_limits<To>::max());
    if (v <= lo) return std::numeric_limits<To>::min();
    if (v >= hi) return std::numeric_limits<To>::max();
  }
  return static_cast<To>(v);
}

template <class To>
void fill(DType type, const void* from, int64_t n, To* out) {
  visit(type, from, [&](const auto* p, auto load) {
    for (int64_t i = 0; i < n; ++i) out[i] = convert<To>(load(p[i]));
  });
}

// To a 16-bit float, by way of f32.
template <class Round>
void fill_half(DType type, const void* from, int64_t n, uint16_t* out, Round round) {
  visit(type, from, [&](const auto* p, auto load) {
    for (int64_t i = 0; i < n; ++i) out[i] = round(static_cast<float>(load(p[i])));
  });
}

// Null where there is no more.
char* map(size_t bytes) {
  void* const p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p == MAP_FAILED ? nullptr : static_cast<char*>(p);
}

}  // namespace

// Large blocks come from the system and go back to it at once: kept by malloc, those of a training
// whose batches change their size end as holes in its heap (a third of all memory was seen).
Storage::Storage(size_t bytes) : bytes_(bytes) {
  const size_t padded = bytes + 64;  // kernels may read a vector past the end
  if (bytes >= kMapped) {
    const size_t size = (padded + kHugePage - 1) / kHugePage * kHugePage;
    if (char* const p = map(size + kHugePage)) {
      char* const first = p + (kHugePage - reinterpret_cast<uintptr_t>(p) % kHugePage) % kHugePage;
      if (first > p) munmap(p, static_cast<size_t>(first - p));
      munmap(first + size, static_cast<size_t>(p + kHugePage - first));
      madvise(first, size, MADV_HUGEPAGE);
      data_ = first;
      mapped_ = size;
    }
  } else {
    data_ = std::aligned_alloc(64, (padded + 63) / 64 * 64);
  }
  if (!data_) throw DeviceError(cat("out of memory: could not allocate ", bytes >> 20, " MiB"));
}

Storage::~Storage() {
  if (!owned_) return;
  if (mapped_ > 0)
    munmap(data_, mapped_);
  else
    std::free(data_);
}

Tensor::Tensor(const Shape& shape, DType dtype)
    : storage_(std::make_shared<Storage>(static_cast<size_t>(shape.numel()) * size_of(dtype))),
      shape_(shape),
      dtype_(dtype) {}

Tensor::Tensor(std::shared_ptr<Storage> storage, size_t offset_bytes, const Shape& shape,
               DType dtype)
    : storage_(std::move(storage)), offset_(offset_bytes), shape_(shape), dtype_(dtype) {
  if (offset_ + bytes() > storage_->bytes())
    throw ShapeError("a tensor of shape " + shape.str() + " does not fit its storage");
}

Tensor Tensor::zeros(const Shape& shape, DType dtype) {
  Tensor t(shape, dtype);
  std::memset(t.raw(), 0, t.bytes());
  return t;
}

void* Tensor::raw() const {
  return storage_ ? static_cast<char*>(storage_->data()) + offset_ : nullptr;
}

void Tensor::check_dtype(DType wanted) const {
  if (!storage_) throw ShapeError("use of an undefined tensor");
  if (static_cast<int>(wanted) == 255)
    throw ShapeError("the number of values does not fit the shape " + shape_.str());
  if (wanted != dtype_)
    throw ShapeError(cat("expected a tensor of ", name_of(wanted), ", got ", name_of(dtype_)));
}

Tensor Tensor::reshaped(const Shape& shape) const {
  if (shape.numel() != numel())
    throw ShapeError("cannot view " + shape_.str() + " as " + shape.str());
  Tensor t = *this;
  t.shape_ = shape;
  return t;
}

Tensor Tensor::clone() const {
  Tensor t(shape_, dtype_);
  std::memcpy(t.raw(), raw(), bytes());
  return t;
}

std::vector<int64_t> Tensor::to_ints() const {
  if (is_float(dtype_)) throw ShapeError(cat("expected integers, got ", name_of(dtype_)));
  std::vector<int64_t> out(static_cast<size_t>(numel()));
  fill(dtype_, raw(), numel(), out.data());
  return out;
}

std::vector<double> Tensor::to_doubles() const {
  std::vector<double> out(static_cast<size_t>(numel()));
  fill(dtype_, raw(), numel(), out.data());
  return out;
}

Tensor Tensor::to(DType dtype) const {
  Tensor t(shape_, dtype);
  convert_elements(dtype_, raw(), dtype, t.raw(), numel());
  return t;
}

void convert_elements(DType from, const void* x, DType to, void* y, int64_t n) {
  switch (to) {
    case DType::kF32:
      return fill(from, x, n, static_cast<float*>(y));
    case DType::kF64:
      return fill(from, x, n, static_cast<double*>(y));
    case DType::kI8:
      return fill(from, x, n, static_cast<int8_t*>(y));
    case DType::kU8:
      return fill(from, x, n, static_cast<uint8_t*>(y));
    case DType::kI32:
      return fill(from, x, n, static_cast<int32_t*>(y));
    case DType::kI64:
      return fill(from, x, n, static_cast<int64_t*>(y));
    case DType::kBool:
      return fill(from, x, n, static_cast<bool*>(y));
    case DType::kF16:
      return fill_half(from, x, n, static_cast<uint16_t*>(y), f32_to_f16);
    case DType::kBF16:
      return fill_half(from, x, n, static_cast<uint16_t*>(y), f32_to_bf16);
  }
}

}  // namespace train
