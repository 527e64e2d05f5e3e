// Reads and writes NumPy's .npy files (format 1.0): how tests and scripts exchange tensors.
#pragma once
#include <cstdlib>
#include <fstream>
#include <string>

#include "libtrain/core/error.h"
#include "libtrain/core/tensor.h"

namespace train::test {

struct NpyType {
  const char* descr;
  DType dtype;
};
constexpr NpyType kNpyTypes[] = {{"<f4", DType::kF32}, {"<f8", DType::kF64}, {"<f2", DType::kF16},
                                 {"<i4", DType::kI32}, {"<i8", DType::kI64}, {"|i1", DType::kI8},
                                 {"|u1", DType::kU8},  {"|b1", DType::kBool}};

inline Tensor read_npy(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  char magic[10];
  if (!in.read(magic, 10) || std::string(magic, 6) != "\x93NUMPY" || magic[6] != 1)
    throw FormatError(path + ": no .npy file of version 1");
  const int size =
      static_cast<unsigned char>(magic[8]) + 256 * static_cast<unsigned char>(magic[9]);
  std::string header(static_cast<size_t>(size), ' ');
  in.read(header.data(), size);
  if (header.find("'fortran_order': False") == std::string::npos)
    throw FormatError(path + ": not in row-major order");
  Shape shape;
  size_t at = header.find('(', header.find("'shape'")) + 1;
  while (header[at] != ')') {
    char* end = nullptr;
    const long long d = std::strtoll(&header[at], &end, 10);
    if (end == &header[at]) {
      ++at;
      continue;
    }
    shape.push_back(d);
    at = static_cast<size_t>(end - header.data());
  }
  for (const NpyType& t : kNpyTypes) {
    if (header.find(t.descr) == std::string::npos) continue;
    Tensor out(shape, t.dtype);
    if (!in.read(static_cast<char*>(out.raw()), static_cast<std::streamsize>(out.bytes())))
      throw FormatError(path + ": cut off");
    return out;
  }
  throw FormatError(path + ": unknown element type in " + header);
}

inline void write_npy(const std::string& path, const Tensor& t) {
  std::string shape;
  for (int64_t d : t.shape()) shape += std::to_string(d) + ", ";
  std::string descr;
  for (const NpyType& type : kNpyTypes)
    if (type.dtype == t.dtype()) descr = type.descr;
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  while ((10 + header.size() + 1) % 64) header += ' ';
  header += '\n';
  std::ofstream out(path, std::ios::binary);
  out.write("\x93NUMPY\x01\x00", 8);
  const char size[2] = {static_cast<char>(header.size() & 255),
                        static_cast<char>(header.size() >> 8)};
  out.write(size, 2);
  out << header;
  out.write(static_cast<const char*>(t.raw()), static_cast<std::streamsize>(t.bytes()));
}

}  // namespace train::test
