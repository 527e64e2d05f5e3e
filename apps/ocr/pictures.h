// Annotated pages and cut-out lines, written while a page's pixels are there.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "libocr/image/collect.h"
#include "libocr/image/font.h"
#include "libocr/image/image.h"
#include "libocr/pipeline/result.h"

namespace app {

/// page() is called from many threads, document() from one at a time.
class Pictures {
 public:
  Pictures(std::string visualize, std::string save_crops);
  bool wanted() const { return !visualize_.empty() || !save_crops_.empty(); }
  /// A page's picture and crops. Failures become warnings of the result: the text is still good.
  void page(const ocr::InputJob& job, int page_count, const ocr::ImageView& page,
            ocr::PageResult& result);
  /// Appends the labels of a document's crops to rec.txt.
  void document(const ocr::InputJob& job);

 private:
  void draw(const std::string& name, const ocr::ImageView& page, const ocr::PageResult& result);
  void cut(const ocr::InputJob& job, const std::string& name, const ocr::ImageView& page,
           const ocr::PageResult& result);

  std::string visualize_, save_crops_;
  std::unique_ptr<ocr::FontSet> fonts_;
  std::mutex mutex_;
  std::map<std::string, std::string> labels_;  // input -> lines for rec.txt
  bool labels_begun_ = false;
};

}  // namespace app
