// Philox4x32-10: random numbers as a pure function of (key, counter), so that any element of any
// stream can be drawn in any order, by any thread, on any device, with the same bits.
#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace train {

/// Counter-based generator of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).
struct Philox {
  using Counter = std::array<uint32_t, 4>;
  using Key = std::array<uint32_t, 2>;

  static constexpr Counter block(Counter c, Key k) {
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = uint64_t{0xD2511F53} * c[0], p1 = uint64_t{0xCD9E8D57} * c[2];
      c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
           static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
      k[0] += 0x9E3779B9;  // the golden ratio
      k[1] += 0xBB67AE85;  // sqrt(3) - 1
    }
    return c;
  }
};

/// A position-addressed stream of random numbers: `seed` and `stream` name it, `index` counts in
/// it.
class RandomStream {
 public:
  constexpr RandomStream(uint64_t seed, uint64_t stream) : seed_(seed), stream_(stream) {}

  constexpr uint32_t bits(uint64_t index) const { return block(index / 4)[index % 4]; }
  /// Uniform in [0, 1), a multiple of 2^-24: exact, hence the same on every machine.
  constexpr float uniform(uint64_t index) const {
    return static_cast<float>(bits(index) >> 8) * 0x1p-24f;
  }
  constexpr float uniform(uint64_t index, float lo, float hi) const {
    return lo + (hi - lo) * uniform(index);
  }
  /// Uniform in [0, n), n > 0.
  constexpr uint32_t below(uint64_t index, uint32_t n) const {
    return static_cast<uint32_t>(uint64_t{bits(index)} * n >> 32);
  }
  /// Standard normal (Box-Muller in double). Takes one block per number.
  double normal(uint64_t index) const {
    const auto b = block(index);
    const double u = (b[0] + 0.5) * 0x1p-32, v = (b[1] + 0.5) * 0x1p-32;
    return std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v);
  }

 private:
  constexpr Philox::Counter block(uint64_t i) const {
    return Philox::block({static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32),
                          static_cast<uint32_t>(stream_), static_cast<uint32_t>(stream_ >> 32)},
                         {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
  }
  uint64_t seed_, stream_;
};

/// FNV-1a: the stream of a thing that has a name.
constexpr uint64_t stream_of(std::string_view name) {
  uint64_t h = 0xcbf29ce484222325;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return h;
}

}  // namespace train
