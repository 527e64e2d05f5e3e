#include "libocr/data/image_io.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <opencv2/imgproc.hpp>

#include "libocr/data/skip.h"
#include "libocr/geometry/mat.h"
#include "libocr/image/decode.h"
#include "libocr/image/encode.h"

namespace ocr {

using train::cat;

std::string read_image_bytes(const std::string& path, const std::string& file, long line) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  const auto size = in ? static_cast<int64_t>(in.tellg()) : -1;
  if (size < 0)
    throw SkippedSample(Skip::kImageMissing, file, line, cat(path, ": ", std::strerror(errno)));
  if (size > DecodeOptions().max_file_bytes)
    throw SkippedSample(Skip::kImageUnreadable, file, line, cat(path, ": larger than 2 GB"));
  std::string bytes(static_cast<size_t>(size), '\0');
  in.seekg(0);
  if (!in.read(bytes.data(), size))  // a folder, for one
    throw SkippedSample(Skip::kImageUnreadable, file, line, cat(path, ": cannot be read"));
  return bytes;
}

cv::Mat decode_sample(const Sample& s, bool orient) {
  DecodeOptions options;
  options.exif_orientation = orient;
  try {
    const Page page = open_document(std::vector<uint8_t>(s.encoded.begin(), s.encoded.end()),
                                    s.image_name, options)
                          .read_page(0);
    return as_mat(page.image).clone();
  } catch (const train::FormatError& e) {
    throw SkippedSample(Skip::kImageUnreadable, s.file, s.line, e.what());
  } catch (const train::DataError& e) {
    throw SkippedSample(Skip::kImageUnreadable, s.file, s.line, e.what());
  }
}

void swap_red_and_blue(cv::Mat& image) { cv::cvtColor(image, image, cv::COLOR_BGR2RGB); }

void write_picture(const std::string& path, const cv::Mat& image, int jpeg_quality) {
  const cv::Mat dense = image.isContinuous() ? image : image.clone();
  EncodeOptions options;
  options.jpeg_quality = jpeg_quality;
  write_image(path,
              ImageView{dense.data, dense.cols, dense.rows, static_cast<ptrdiff_t>(dense.step)},
              options);
}

}  // namespace ocr
