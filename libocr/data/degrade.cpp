#include "libocr/data/degrade.h"

#include <algorithm>
#include <cmath>
#include <opencv2/imgproc.hpp>

namespace ocr {
namespace {

constexpr double kPi = 3.14159265358979323846;

// Ink is lifted and paper darkened: v becomes ink + v (paper - ink) / 255, by channel.
void fade(cv::Mat& image, double strength, Random& random) {
  const double ink = random.uniform(0, 70) * strength;
  const double grey = 255 - random.uniform(0, 30) * strength;
  cv::Vec3d paper;
  for (int c = 0; c < 3; ++c) paper[c] = grey - random.uniform(0, 16) * strength;
  cv::Mat table(1, 256, CV_8UC3);
  for (int v = 0; v < 256; ++v) {
    for (int c = 0; c < 3; ++c)
      table.at<cv::Vec3b>(0, v)[c] = cv::saturate_cast<uchar>(ink + v * (paper[c] - ink) / 255);
  }
  cv::LUT(image, table, image);
}

// Light that falls off over the page: a few random levels, smoothly in between.
void shade(cv::Mat& image, double strength, Random& random) {
  cv::Mat levels(3, 3, CV_32F), light;
  for (int i = 0; i < 9; ++i)
    levels.at<float>(i / 3, i % 3) = static_cast<float>(1 - random.uniform(0, 0.35) * strength);
  cv::resize(levels, light, image.size(), 0, 0, cv::INTER_CUBIC);
  for (int y = 0; y < image.rows; ++y) {
    auto* row = image.ptr<cv::Vec3b>(y);
    const auto* f = light.ptr<float>(y);
    for (int x = 0; x < image.cols; ++x) {
      for (int c = 0; c < 3; ++c)
        row[x][c] = cv::saturate_cast<uchar>(static_cast<float>(row[x][c]) * f[x]);
    }
  }
}

// A turn about the middle by up to 1.5 degrees, of a line by so little that its ends move by 3 % of
// its height, and corners moved by up to 1 % of the shorter side.
cv::Matx33d pose(cv::Size size, double strength, Random& random) {
  const double slant =
      2 * 0.03 * std::min(size.width, size.height) / std::max(size.width, size.height);
  const double most = std::min(1.5 * kPi / 180, slant);
  const double angle = random.uniform(-most, most) * strength;
  const double reach = 0.01 * strength * std::min(size.width, size.height);
  const cv::Point2f middle(size.width * 0.5f, size.height * 0.5f);
  const auto sine = static_cast<float>(std::sin(angle)),
             cosine = static_cast<float>(std::cos(angle));
  const float w = static_cast<float>(size.width), h = static_cast<float>(size.height);
  const cv::Point2f from[4] = {{0, 0}, {w, 0}, {w, h}, {0, h}};
  cv::Point2f to[4];
  for (int i = 0; i < 4; ++i) {
    const cv::Point2f d = from[i] - middle;
    to[i] = middle + cv::Point2f(cosine * d.x - sine * d.y, sine * d.x + cosine * d.y) +
            cv::Point2f(static_cast<float>(random.uniform(-reach, reach)),
                        static_cast<float>(random.uniform(-reach, reach)));
  }
  return cv::Matx33d(cv::getPerspectiveTransform(from, to));
}

// Fewer pixels, brought back to the old size, as a scan at a lower resolution that was enlarged.
void coarsen(cv::Mat& image, double strength, Random& random) {
  const double factor = 1 - random.uniform(0.1, 0.5) * std::min(strength, 1.5);
  const cv::Size size = image.size();
  const cv::Size small(std::max(1, cvRound(size.width * factor)),
                       std::max(1, cvRound(size.height * factor)));
  cv::Mat fewer;
  cv::resize(image, fewer, small, 0, 0, cv::INTER_AREA);
  cv::resize(fewer, image, size, 0, 0, random.chance(0.5) ? cv::INTER_LINEAR : cv::INTER_CUBIC);
}

void add_noise(cv::Mat& image, double sigma, Random& random) {
  cv::RNG generator(random.bits());
  cv::Mat noise(image.size(), CV_16SC3), sum;
  generator.fill(noise, cv::RNG::NORMAL, 0, sigma);
  cv::add(image, noise, sum, cv::noArray(), CV_8UC3);
  image = sum;
}

void drop_colour(cv::Mat& image, bool two_levels, double threshold) {
  cv::Mat grey;
  cv::cvtColor(image, grey, cv::COLOR_BGR2GRAY);
  if (two_levels) {  // against the paper around, as scanners do
    cv::Mat paper;
    cv::blur(grey, paper, cv::Size(51, 51));
    for (int y = 0; y < grey.rows; ++y) {
      uchar* row = grey.ptr<uchar>(y);
      const uchar* around = paper.ptr<uchar>(y);
      for (int x = 0; x < grey.cols; ++x) row[x] = row[x] < threshold * around[x] ? 0 : 255;
    }
  }
  cv::cvtColor(grey, image, cv::COLOR_GRAY2BGR);
}

}  // namespace

Degraded degrade(const cv::Mat& image, double strength, Random& random) {
  Degraded out;
  out.image = image.clone();
  if (strength <= 0) return out;
  if (random.chance(0.7)) fade(out.image, strength, random);
  if (random.chance(0.8)) {
    out.map = pose(image.size(), strength, random);
    cv::Mat turned;
    cv::warpPerspective(out.image, turned, out.map, image.size(), cv::INTER_CUBIC,
                        cv::BORDER_REPLICATE);
    out.image = turned;
  }
  if (random.chance(0.5)) shade(out.image, strength, random);
  if (random.chance(0.5)) coarsen(out.image, strength, random);
  if (random.chance(0.5))
    cv::GaussianBlur(out.image, out.image, cv::Size(), random.uniform(0.3, 1.0) * strength);
  if (random.chance(0.6)) add_noise(out.image, random.uniform(2, 12) * strength, random);
  const double look = random.uniform();
  if (look < 0.4) drop_colour(out.image, look < 0.08, random.uniform(0.7, 0.85));
  out.jpeg_quality = std::clamp(cvRound(95 - random.uniform(0, 55) * strength), 10, 95);
  return out;
}

std::vector<TextBoxLabel> moved(std::vector<TextBoxLabel> boxes, const Degraded& picture) {
  for (TextBoxLabel& box : boxes) {
    for (cv::Point2d& p : box.points) {
      const cv::Vec3d q = picture.map * cv::Vec3d(p.x, p.y, 1);
      p.x = std::clamp<double>(std::round(q[0] / q[2]), 0, picture.image.cols - 1);
      p.y = std::clamp<double>(std::round(q[1] / q[2]), 0, picture.image.rows - 1);
    }
  }
  return boxes;
}

}  // namespace ocr
