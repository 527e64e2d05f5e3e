// Element types, in ONNX's and PyTorch's names, and the 16-bit float conversions.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>

namespace train {

enum class DType : uint8_t { kF32, kF16, kBF16, kF64, kI8, kU8, kI32, kI64, kBool };

constexpr size_t size_of(DType t) {
  switch (t) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
      return 2;
    default:
      return 1;
  }
}

constexpr const char* name_of(DType t) {
  constexpr const char* names[] = {"f32", "f16", "bf16", "f64", "i8", "u8", "i32", "i64", "bool"};
  return names[static_cast<int>(t)];
}

constexpr bool is_float(DType t) { return t <= DType::kF64; }

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::kI8;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kU8;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kI64;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::kBool;
};

/// bf16 is the upper half of an f32.
inline float bf16_to_f32(uint16_t v) {
  return std::bit_cast<float>(static_cast<uint32_t>(v) << 16);
}

/// Rounds to nearest, ties to even; NaN stays NaN.
inline uint16_t f32_to_bf16(float f) {
  const uint32_t u = std::bit_cast<uint32_t>(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 0x40);
  return static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

float f16_to_f32(uint16_t v);
uint16_t f32_to_f16(float f);  // rounds to nearest, ties to even; overflow becomes infinity

}  // namespace train
