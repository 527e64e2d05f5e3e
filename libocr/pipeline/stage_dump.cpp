#include "libocr/pipeline/stage_dump.h"

#include <filesystem>
#include <fstream>

#include "libtrain/core/error.h"

namespace ocr {

StageDump::StageDump(std::string folder, std::string name) {
  for (char& c : name)
    if (c == '/' || c == '\0') c = '_';
  std::error_code e;
  std::filesystem::create_directories(folder, e);
  prefix_ = folder + "/" + name + ".";
}

void StageDump::write(const std::string& stage, const char* type, const void* data, size_t bytes,
                      const std::vector<int64_t>& shape) const {
  std::string dims;
  for (const int64_t d : shape) dims += std::to_string(d) + ",";
  std::string header =
      std::string("{'descr': '") + type + "', 'fortran_order': False, 'shape': (" + dims + "), }";
  header.resize((header.size() + 11) / 64 * 64 + 64 - 11, ' ');  // 10 bytes before it, 1 after
  header += '\n';
  const std::string path = prefix_ + stage + ".npy";
  std::ofstream out(path, std::ios::binary);
  const auto size = static_cast<uint16_t>(header.size());
  out.write("\x93NUMPY\x01\x00", 8);
  out.put(static_cast<char>(size & 255)).put(static_cast<char>(size >> 8));
  out << header;
  out.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  if (!out.flush()) throw train::DataError(path, 0, "cannot be written");
}

void StageDump::image(const std::string& stage, const cv::Mat& image) const {
  const cv::Mat dense = image.isContinuous() ? image : image.clone();
  write(stage, "|u1", dense.data, dense.total() * dense.elemSize(),
        {dense.rows, dense.cols, dense.channels()});
}

void StageDump::floats(const std::string& stage, const float* data,
                       std::vector<int64_t> shape) const {
  size_t n = sizeof(float);
  for (const int64_t d : shape) n *= static_cast<size_t>(d);
  write(stage, "<f4", data, n, shape);
}

void StageDump::boxes(const std::vector<Detection>& boxes) const {
  const std::string path = prefix_ + "boxes.txt";
  std::ofstream out(path);
  for (const Detection& d : boxes) {
    out << d.score;
    for (const Point2f& p : d.points) out << '\t' << p.x << ',' << p.y;
    out << '\n';
  }
  if (!out.flush()) throw train::DataError(path, 0, "cannot be written");
}

}  // namespace ocr
