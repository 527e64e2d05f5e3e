#include "libtrain/core/dtype.h"

namespace train {

float f16_to_f32(uint16_t v) {
  const uint32_t sign = static_cast<uint32_t>(v & 0x8000) << 16;
  const uint32_t exponent = (v >> 10) & 0x1f, mantissa = v & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float tiny = static_cast<float>(mantissa) * 0x1p-24f;  // subnormal or zero
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(tiny));
}

uint16_t f32_to_f16(float f) {
  const uint32_t u = std::bit_cast<uint32_t>(f);
  const uint16_t sign = static_cast<uint16_t>((u >> 16) & 0x8000);
  const uint32_t a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return sign | 0x7e00;
  if (a >= 0x477ff000u) return sign | 0x7c00;  // rounds past the largest half, 65504
  if (a < 0x38800000u) {                       // subnormal: adding 0.5 aligns the rounding position
    const float r = std::bit_cast<float>(a) + 0.5f;
    return sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(r) - 0x3f000000u);
  }
  return sign | static_cast<uint16_t>((a - 0x38000000u + 0xfff + ((a >> 13) & 1)) >> 13);
}

}  // namespace train
