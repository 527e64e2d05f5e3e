// STN_ON: a localisation net and a thin-plate spline.
#include <cmath>

#include "libocr/models/transforms.h"
#include "libtrain/autograd/grid_sample.h"
#include "libtrain/core/error.h"

namespace ocr::models {
namespace {

using train::cat;
using train::Tensor;

struct Place {
  double x, y;
};

// Half of the points along the upper edge, from left to right, then half along the lower one.
std::vector<Place> edge_points(int count, double margin_x, double margin_y) {
  std::vector<Place> points;
  const int half = count / 2;
  for (const double y : {margin_y, 1 - margin_y})
    for (int i = 0; i < half; ++i)
      points.push_back({margin_x + (1 - 2 * margin_x) * i / (half - 1), y});
  return points;
}

// A thin plate's bend at distance r of a point: r^2 log r.
double bend(const Place& a, const Place& b) {
  const double square = (a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y);
  return square > 0 ? .5 * square * std::log(square) : 0;
}

// What a spline is made of at `p`: the bend of each control point, 1, x and y.
std::vector<double> terms(const Place& p, const std::vector<Place>& control) {
  std::vector<double> row;
  for (const Place& c : control) row.push_back(bend(p, c));
  row.insert(row.end(), {1, p.x, p.y});
  return row;
}

using Matrix = std::vector<std::vector<double>>;  // rows

// a x = b for the columns of b, by elimination; x is left in b.
void solve(Matrix& a, Matrix& b) {
  const size_t n = a.size();
  for (size_t k = 0; k < n; ++k) {
    size_t pivot = k;
    for (size_t i = k + 1; i < n; ++i)
      if (std::abs(a[i][k]) > std::abs(a[pivot][k])) pivot = i;
    std::swap(a[k], a[pivot]);
    std::swap(b[k], b[pivot]);
    if (std::abs(a[k][k]) < 1e-12)
      throw train::Error("STN_ON: control points that coincide (tps_margins, num_control_points)");
    for (size_t i = 0; i < n; ++i) {
      if (i == k) continue;
      const double factor = a[i][k] / a[k][k];
      for (size_t j = k; j < n; ++j) a[i][j] -= factor * a[k][j];
      for (size_t j = 0; j < b[i].size(); ++j) b[i][j] -= factor * b[k][j];
    }
  }
  for (size_t k = 0; k < n; ++k)
    for (double& v : b[k]) v /= a[k][k];
}

// [H W, points]: the place in the image that a pixel of the result is read at is the row's product
// with the points' places in the image. The spline through the points is linear in them, and what
// it is made of is fixed.
Tensor spline_matrix(const std::vector<Place>& control, int h, int w) {
  const size_t points = control.size(), n = points + 3;
  Matrix kernel, pixels(n);
  for (const Place& c : control) kernel.push_back(terms(c, control));
  for (size_t k = 0; k < 3; ++k) {  // the bends sum to 0, and so do their moments
    std::vector<double> row(n, 0);
    for (size_t i = 0; i < points; ++i) row[i] = kernel[i][points + k];
    kernel.push_back(row);
  }
  for (int y = 0; y < h; ++y)
    for (int x = 0; x < w; ++x) {
      const std::vector<double> at = terms({double(x) / (w - 1), double(y) / (h - 1)}, control);
      for (size_t k = 0; k < n; ++k) pixels[k].push_back(at[k]);
    }
  solve(kernel, pixels);  // the kernel is symmetric
  const int64_t count = int64_t{h} * w;
  Tensor m({count, static_cast<int64_t>(points)});
  for (int64_t i = 0; i < count; ++i)
    for (size_t k = 0; k < points; ++k)
      m.data<float>()[i * static_cast<int64_t>(points) + static_cast<int64_t>(k)] =
          static_cast<float>(pixels[k][static_cast<size_t>(i)]);
  return m;
}

// Six convolutions, the sides halved between them.
class Convolutions final : public Layer {
 public:
  Convolutions() {
    int64_t in = 3;
    for (const int64_t out : {32, 64, 128, 256, 256, 256}) {
      ConvBn& block = add<ConvBn>(std::to_string(2 * blocks_.size()), in, out, window(3), 1,
                                  Act::kRelu, ConvBnNames{"0", "1"}, true);
      block.each_parameter([out](nn::Parameter& p) {
        if (p.init.kind == nn::Init::Kind::kConstant) return;
        p.init = {nn::Init::Kind::kNormal, std::sqrt(2. / (9. * static_cast<double>(out)))};
      });
      blocks_.push_back(&block);
      in = out;
    }
  }
  Variable operator()(Tape& tape, const Variable& images) const override {
    Variable x = (*blocks_[0])(tape, images);
    for (size_t i = 1; i < blocks_.size(); ++i)
      x = (*blocks_[i])(tape, train::max_pool(tape, x, padded_window(2, 2, 0)));
    return x;
  }

 private:
  std::vector<const ConvBn*> blocks_;
};

class NormedLinear final : public Layer {
 public:
  NormedLinear(int64_t in, int64_t out)
      : linear_(add<nn::Linear>("0", in, out)), norm_(add<BatchNorm>("1", out)) {
    linear_.each_parameter([](nn::Parameter& p) {
      p.init = p.name == "weight" ? nn::Init{nn::Init::Kind::kNormal, .001} : nn::Init{};
    });
  }
  Variable operator()(Tape& tape, const Variable& x) const override {
    const Variable y = train::unsqueeze(tape, linear_(tape, x), {2, 3});
    return train::flatten(tape, norm_(tape, y, activation(Act::kRelu)));
  }

 private:
  nn::Linear& linear_;
  BatchNorm& norm_;
};

// Images of 32 x 64 -> control points [N, 2, points], x and y from 0 to 1 across the image.
class Localization final : public Block {
 public:
  Localization(int points, bool sigmoid)
      : points_(points),
        sigmoid_(sigmoid),
        convolutions_(add<Convolutions>("stn_convnet")),
        first_(add<NormedLinear>("stn_fc1", 2 * 256, 512)),
        second_(add<nn::Linear>("stn_fc2", 512, 2 * points)) {
    // At first the points are the image's own edges, whatever it shows.
    nn::Init edges{nn::Init::Kind::kValues};
    for (const Place& p : edge_points(points, .01, .01))
      for (const double v : {p.x, p.y})
        edges.values.push_back(static_cast<float>(sigmoid ? -std::log(1 / v - 1) : v));
    second_.each_parameter(
        [&](nn::Parameter& p) { p.init = p.name == "weight" ? nn::Init{} : edges; });
  }
  Variable operator()(Tape& tape, const Variable& images) const {
    const Variable x = first_(tape, train::flatten(tape, convolutions_(tape, images)));
    Variable places = second_(tape, train::scale(tape, x, .1f));
    if (sigmoid_) places = train::sigmoid(tape, places);
    return train::transpose(tape, train::reshape(tape, places, {-1, points_, 2}), {0, 2, 1});
  }

 private:
  int64_t points_;
  bool sigmoid_;
  Convolutions& convolutions_;
  NormedLinear& first_;
  nn::Linear& second_;
};

class Stn final : public Layer {
 public:
  explicit Stn(const StnOptions& o)
      : in_(o.tps_inputsize[0], o.tps_inputsize[1]),
        out_(o.tps_outputsize[0], o.tps_outputsize[1]),
        head_(add<Localization>("stn_head", o.num_control_points, o.stn_activation == "sigmoid")),
        spline_(Variable::constant(
            spline_matrix(edge_points(o.num_control_points, o.tps_margins[0], o.tps_margins[1]),
                          out_.h, out_.w))) {}

  Variable operator()(Tape& tape, const Variable& images) const override {
    const Variable points = head_(tape, train::resize_bilinear(tape, images, in_.h, in_.w, true));
    // Places outside the image are its border's; the grid runs from -1 to 1.
    Variable places = train::matmul(tape, points, spline_, true);
    places = train::hard_sigmoid(tape, places, 1, 0);
    places = train::offset(tape, train::scale(tape, places, 2), -1);
    places = train::transpose(tape, places, {0, 2, 1});
    return train::grid_sample(tape, images, train::reshape(tape, places, {-1, out_.h, out_.w, 2}));
  }

 private:
  Size in_, out_;
  Localization& head_;
  Variable spline_;
};

}  // namespace

std::unique_ptr<Layer> make_stn(const StnOptions& o) {
  const auto need = [](bool ok, const char* what) {
    if (!ok) throw train::Error(cat("STN_ON: ", what));
  };
  need(o.tps_inputsize == std::vector{32, 64},
       "tps_inputsize must be [32, 64]: the net has no other size");
  need(o.tps_outputsize.size() == 2 && o.tps_outputsize[0] > 1 && o.tps_outputsize[1] > 1 &&
           o.tps_outputsize[0] <= 1024 && o.tps_outputsize[1] <= 4096,
       "tps_outputsize must be [height, width], 2 to 1024 and 2 to 4096");
  need(o.num_control_points >= 4 && o.num_control_points <= 256 && o.num_control_points % 2 == 0,
       "num_control_points must be even, 4 to 256");
  need(o.tps_margins.size() == 2 && o.tps_margins[0] >= 0 && o.tps_margins[0] < .5 &&
           o.tps_margins[1] >= 0 && o.tps_margins[1] < .5,
       "tps_margins must be [x, y], each from 0 to below 0.5");
  need(o.stn_activation == "none" || o.stn_activation == "sigmoid",
       "stn_activation is none or sigmoid");
  return std::make_unique<Stn>(o);
}

}  // namespace ocr::models
