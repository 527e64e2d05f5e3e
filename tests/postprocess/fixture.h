// Reads the fixtures of scripts/fixtures/make_postprocess.py.
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "libtrain/core/error.h"

namespace ocr {

inline std::string fixture_path(const std::string& name) {
  return std::string(OCR_TEST_DATA) + "/postprocess/" + name;
}

inline std::ifstream open_fixture(const std::string& name) {
  std::ifstream file(fixture_path(name), std::ios::binary);
  if (!file) throw train::FormatError(fixture_path(name) + ": missing fixture");
  return file;
}

struct FixtureMap {
  int height = 0, width = 0;
  std::vector<float> values;  // 8-bit values / 255, rounded to float
};

inline std::vector<FixtureMap> read_maps() {
  std::ifstream file = open_fixture("maps.bin");
  const std::vector<char> raw{std::istreambuf_iterator<char>(file), {}};
  const auto byte = [&raw](size_t i) { return static_cast<uint8_t>(raw.at(i)); };
  std::vector<FixtureMap> maps;
  for (size_t at = 0; at < raw.size();) {
    FixtureMap m;
    m.height = byte(at) | byte(at + 1) << 8;
    m.width = byte(at + 2) | byte(at + 3) << 8;
    at += 4;
    const size_t pixels = static_cast<size_t>(m.height) * static_cast<size_t>(m.width);
    while (m.values.size() < pixels) {
      m.values.insert(m.values.end(), byte(at) + 1, static_cast<float>(byte(at + 1)) / 255.0f);
      at += 2;
    }
    maps.push_back(std::move(m));
  }
  return maps;
}

}  // namespace ocr
