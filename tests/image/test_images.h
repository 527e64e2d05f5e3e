// Helpers of the image tests: fixture paths, checksums, whole files, a temporary folder.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "libocr/image/image.h"

namespace ocr {

inline std::string fixture(const std::string& name) {
  return std::string(OCR_TEST_DATA "/image/") + name;
}

/// CRC-32 as zlib computes it.
inline uint32_t crc32(const uint8_t* data, size_t size) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> t{};
    for (uint32_t i = 0; i < 256; i++) {
      uint32_t c = i;
      for (int k = 0; k < 8; k++) c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
      t[i] = c;
    }
    return t;
  }();
  uint32_t crc = ~0u;
  for (size_t i = 0; i < size; i++) crc = table[(crc ^ data[i]) & 255] ^ (crc >> 8);
  return ~crc;
}

/// Of the BGR bytes.
inline uint32_t crc32(const Image& image) {
  return crc32(image.pixels.data(), image.pixels.size());
}

inline std::vector<uint8_t> read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline Bgr pixel(const Image& image, int x, int y) {
  const uint8_t* p = image.row(y) + 3 * x;
  return {p[0], p[1], p[2]};
}

/// A gradient with noise, so that neighbouring pixels differ.
inline Image noisy_image(int width, int height) {
  Image image(width, height);
  uint32_t state = 1;
  for (size_t i = 0; i < image.pixels.size(); i++) {
    state = state * 1664525 + 1013904223;
    image.pixels[i] = static_cast<uint8_t>(i / 7 + (state >> 28));
  }
  return image;
}

/// A fresh folder that goes away with the object.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ocr_test_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace ocr
