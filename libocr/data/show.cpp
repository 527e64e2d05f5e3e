#include "libocr/data/show.h"

#include <algorithm>
#include <opencv2/imgproc.hpp>

namespace ocr {

cv::Mat show_sample(const Sample& s) {
  cv::Mat image = s.image;
  if (image.type() == CV_32FC3) {
    const bool page = !s.polys.empty() || !s.shrink_map.empty();
    const cv::Scalar std = page ? cv::Scalar(.229, .224, .225) : cv::Scalar(.5, .5, .5);
    const cv::Scalar mean = page ? cv::Scalar(.485, .456, .406) : cv::Scalar(.5, .5, .5);
    cv::Mat raw;
    cv::multiply(image, std, raw);
    cv::add(raw, mean, raw);
    raw.convertTo(image, CV_8UC3, 255);
  } else {
    image = image.clone();
  }
  // In evaluation the boxes are those of the page before its resize.
  for (size_t i = 0; i < s.polys.size(); ++i) {
    std::vector<cv::Point> points;
    for (const cv::Point2d& p : s.polys[i])
      points.emplace_back(cvRound(p.x * s.ratio_w), cvRound(p.y * s.ratio_h));
    cv::polylines(image, points, true, s.ignore[i] ? cv::Scalar(0, 0, 255) : cv::Scalar(0, 200, 0));
  }
  for (const cv::Mat& map : {s.shrink_map, s.shrink_mask, s.threshold_map, s.threshold_mask}) {
    if (map.empty()) continue;
    cv::Mat grey, colour;
    map.convertTo(grey, CV_8U, 255);
    cv::cvtColor(grey, colour, cv::COLOR_GRAY2BGR);
    cv::hconcat(image, colour, image);
  }
  return image;
}

cv::Mat draw_outlines(const cv::Mat& page, const std::vector<Outline>& outlines, int longest) {
  const double f = std::min(1.0, static_cast<double>(longest) / std::max(page.cols, page.rows));
  cv::Mat small;
  cv::resize(page, small, cv::Size(), f, f, cv::INTER_AREA);
  for (const Outline& o : outlines) {
    std::vector<cv::Point> points;
    for (const Point2f& q : o.points) points.emplace_back(cvRound(q.x * f), cvRound(q.y * f));
    cv::polylines(small, points, true, cv::Scalar(o.colour.b, o.colour.g, o.colour.r), 2);
  }
  return small;
}

cv::Mat squash_line(const cv::Mat& line, int width, int height, bool all) {
  const bool wide =
      line.cols * static_cast<double>(height) > width * static_cast<double>(line.rows);
  if (!wide && !all) return line;
  cv::Mat out;
  cv::resize(line, out, cv::Size(width, height), 0, 0, cv::INTER_LINEAR);
  return out;
}

}  // namespace ocr
