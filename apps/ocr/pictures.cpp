#include "apps/ocr/pictures.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "libocr/geometry/crop.h"
#include "libocr/geometry/mat.h"
#include "libocr/image/draw.h"
#include "libocr/image/encode.h"
#include "libocr/text/utf8.h"
#include "libtrain/core/error.h"

namespace app {
namespace {

namespace fs = std::filesystem;

void make_folders_for(const std::string& file) {
  std::error_code e;
  fs::create_directories(fs::path(file).parent_path(), e);
}

}  // namespace

Pictures::Pictures(std::string visualize, std::string save_crops)
    : visualize_(std::move(visualize)), save_crops_(std::move(save_crops)) {
  if (!visualize_.empty()) fonts_ = std::make_unique<ocr::FontSet>();
}

void Pictures::page(const ocr::InputJob& job, int page_count, const ocr::ImageView& page,
                    ocr::PageResult& result) {
  std::string name = job.path == "-" ? "stdin" : job.relative;
  if (page_count > 1) name += ".p" + std::to_string(result.index + 1);
  try {
    if (!visualize_.empty()) draw(name, page, result);
    if (!save_crops_.empty()) cut(job, name, page, result);
  } catch (const train::Error& e) {
    result.warnings.emplace_back(e.what());
  }
}

void Pictures::draw(const std::string& name, const ocr::ImageView& page,
                    const ocr::PageResult& result) {
  std::vector<ocr::AnnotatedBox> boxes;
  for (const ocr::TextLine& line : result.lines) {
    ocr::AnnotatedBox box;
    for (const ocr::Point2f& p : line.points) box.points.push_back({p.x, p.y});
    box.text = ocr::to_code_points(line.text);
    boxes.push_back(std::move(box));
  }
  const std::string path = visualize_ + "/" + name + ".jpg";
  make_folders_for(path);
  ocr::write_image(path, ocr::annotate(page, boxes, *fonts_).view());
}

void Pictures::cut(const ocr::InputJob& job, const std::string& name, const ocr::ImageView& page,
                   const ocr::PageResult& result) {
  const cv::Mat image = ocr::as_mat(page);
  std::string labels;
  int n = 0;
  for (const ocr::TextLine& line : result.lines) {
    ocr::CropShape shape = ocr::crop_shape(line.points);
    if (line.points.size() == 4) {
      ocr::Quad quad;
      std::copy_n(line.points.begin(), 4, quad.begin());
      shape = ocr::crop_shape(quad);
    }
    cv::Mat crop = ocr::cut_crop(image, shape);
    if (!crop.isContinuous()) crop = crop.clone();
    char number[32];
    std::snprintf(number, sizeof number, ".%04d.png", ++n);
    const std::string file = name + number;
    make_folders_for(save_crops_ + "/" + file);
    ocr::write_image(save_crops_ + "/" + file,
                     {crop.data, crop.cols, crop.rows, static_cast<ptrdiff_t>(crop.step)});
    labels += file + "\t" + line.text + "\n";
  }
  std::lock_guard lock(mutex_);
  labels_[job.path] += labels;
}

void Pictures::document(const ocr::InputJob& job) {
  if (save_crops_.empty()) return;
  std::string labels;
  {
    std::lock_guard lock(mutex_);
    labels = std::move(labels_[job.path]);
    labels_.erase(job.path);
  }
  std::error_code e;
  fs::create_directories(save_crops_, e);
  std::ofstream out(save_crops_ + "/rec.txt", labels_begun_ ? std::ios::app : std::ios::trunc);
  labels_begun_ = true;
  out << labels;
  if (!out.flush()) throw train::DeviceError(save_crops_ + "/rec.txt: cannot be written");
}

}  // namespace app
