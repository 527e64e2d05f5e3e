// Rendered digits for the examples and tests: a 5 x 7 font under random shift, scale, slant,
// contrast and noise; a data set that needs no file.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "libtrain/core/philox.h"
#include "libtrain/core/tensor.h"

namespace train::examples {

constexpr int kDigitSize = 16;  // pixels, both ways

/// Ink of digit `d` at font cell (x, y); 0 outside the 5 x 7 cells.
inline float glyph(int d, int x, int y) {
  static constexpr uint8_t kRows[10][7] = {
      {0b01110, 0b10001, 0b10011, 0b10101, 0b11001, 0b10001, 0b01110},
      {0b00100, 0b01100, 0b00100, 0b00100, 0b00100, 0b00100, 0b01110},
      {0b01110, 0b10001, 0b00001, 0b00110, 0b01000, 0b10000, 0b11111},
      {0b01110, 0b10001, 0b00001, 0b00110, 0b00001, 0b10001, 0b01110},
      {0b00010, 0b00110, 0b01010, 0b10010, 0b11111, 0b00010, 0b00010},
      {0b11111, 0b10000, 0b11110, 0b00001, 0b00001, 0b10001, 0b01110},
      {0b00110, 0b01000, 0b10000, 0b11110, 0b10001, 0b10001, 0b01110},
      {0b11111, 0b00001, 0b00010, 0b00100, 0b01000, 0b01000, 0b01000},
      {0b01110, 0b10001, 0b10001, 0b01110, 0b10001, 0b10001, 0b01110},
      {0b01110, 0b10001, 0b10001, 0b01111, 0b00001, 0b00010, 0b01100},
  };
  return x < 0 || x >= 5 || y < 0 || y >= 7 ? 0.f : static_cast<float>(kRows[d][y] >> (4 - x) & 1);
}

/// Sample number `index` of the stream `random`: writes kDigitSize^2 values around zero, returns
/// the digit. A sample depends on its number alone.
inline int64_t render_digit(const RandomStream& random, uint64_t index, float* image) {
  constexpr uint64_t kNumbersPerSample = 1024;
  uint64_t at = index * kNumbersPerSample;
  const auto uniform = [&](float lo, float hi) { return random.uniform(at++, lo, hi); };
  const int digit = static_cast<int>(random.below(at++, 10));
  const float width = uniform(1.4f, 2.2f), height = uniform(1.4f, 2.f);  // pixels per cell
  const float left = uniform(0, kDigitSize - 5 * width), top = uniform(0, kDigitSize - 7 * height);
  const float slant = uniform(-.3f, .3f), contrast = uniform(.5f, 1.f), noise = uniform(0, .3f);
  for (int py = 0; py < kDigitSize; ++py)
    for (int px = 0; px < kDigitSize; ++px) {
      const float y = (static_cast<float>(py) + .5f - top) / height - .5f;
      const float x = (static_cast<float>(px) + .5f - left) / width - .5f + slant * (y - 3);
      const float fx = std::floor(x), fy = std::floor(y), ax = x - fx, ay = y - fy;
      const int ix = static_cast<int>(fx), iy = static_cast<int>(fy);
      const float ink =
          (1 - ay) * ((1 - ax) * glyph(digit, ix, iy) + ax * glyph(digit, ix + 1, iy)) +
          ay * ((1 - ax) * glyph(digit, ix, iy + 1) + ax * glyph(digit, ix + 1, iy + 1));
      image[py * kDigitSize + px] = contrast * (ink - .25f) + noise * uniform(-1, 1);
    }
  return digit;
}

struct DigitBatch {
  Tensor images;  // f32 [n, 1, 16, 16]
  Tensor labels;  // i64 [n]
};

/// Samples [first, first + n) of the data set called `name`.
inline DigitBatch render_digits(std::string_view name, uint64_t first, int64_t n) {
  const RandomStream random(/*seed=*/2024, stream_of(name));
  DigitBatch batch{Tensor({n, 1, kDigitSize, kDigitSize}), Tensor({n}, DType::kI64)};
  for (int64_t i = 0; i < n; ++i)
    batch.labels.data<int64_t>()[i] =
        render_digit(random, first + static_cast<uint64_t>(i),
                     batch.images.data<float>() + i * kDigitSize * kDigitSize);
  return batch;
}

/// The share of rows of `logits` [n, classes] whose first largest element is the label's.
inline double accuracy(const Tensor& logits, const Tensor& labels) {
  const int64_t rows = logits.shape()[0], classes = logits.shape()[1];
  int64_t right = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = logits.data<float>() + r * classes;
    right += std::max_element(row, row + classes) - row == labels.data<int64_t>()[r];
  }
  return static_cast<double>(right) / static_cast<double>(rows);
}

}  // namespace train::examples
