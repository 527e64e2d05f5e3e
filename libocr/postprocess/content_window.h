// The part of a page that holds content: where a small page lies on a large blank canvas it is seen
// the same wherever it lies, and the blank rest costs nothing.
#pragma once
#include <opencv2/core.hpp>

namespace ocr {

/// A page seen through a rectangle that may reach beyond it; there it is of the ground's colour.
/// Holds a view of the page, no copy.
class ContentWindow {
 public:
  /// The whole page.
  explicit ContentWindow(const cv::Mat& page);

  /// What is left of the page (8UC3) without the outer rows and columns of one colour, that of a
  /// corner, with `margin` pixels of that colour on each side, and sides rounded up to a multiple
  /// of `multiple`. A pixel has the colour when no channel is off by more than 3. The whole page
  /// where that would not be smaller; empty where there is nothing but the ground. Reads the
  /// margins once for each different colour of a corner.
  static ContentWindow of_content(const cv::Mat& page, int margin, int multiple);

  /// In page coordinates.
  const cv::Rect& area() const { return area_; }
  bool empty() const { return area_.empty(); }
  bool whole() const { return area_ == cv::Rect(0, 0, page_.cols, page_.rows); }

  /// A part in the window's coordinates: a view of the page, or a copy where it reaches beyond.
  cv::Mat part(const cv::Rect& rect) const;

  /// The window's pixels with each side divided by `factor`, averaged. Made in bands: needs little
  /// more memory than the result.
  cv::Mat shrunk(int factor) const;

 private:
  cv::Mat page_;
  cv::Rect area_;
  cv::Vec3b ground_;
};

}  // namespace ocr
