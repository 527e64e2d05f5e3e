// References in f64 for ops and their gradients: plain loops over linear (N, C, H, W) arrays, slow
// and evident. Gradients here pass finite differences; production gradients are held to them.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

namespace train::reference {

using Vec = std::vector<double>;

/// A convolution or a pool over [n, cin, h, w] -> [n, cout, oh, ow]; pads: top, left, bottom,
/// right.
struct Conv {
  int64_t n = 1, cin = 1, h = 1, w = 1, cout = 1, groups = 1;
  std::array<int, 2> kernel{1, 1}, stride{1, 1}, dilation{1, 1};
  std::array<int, 4> pads{};

  int64_t room(int a) const {
    return (a ? w : h) + pads[a] + pads[a + 2] - dilation[a] * (kernel[a] - 1) - 1;
  }
  int64_t oh() const { return room(0) / stride[0] + 1; }
  int64_t ow() const { return room(1) / stride[1] + 1; }
  bool fits() const { return room(0) >= 0 && room(1) >= 0; }
  int64_t x_size() const { return n * cin * h * w; }
  int64_t y_size() const { return n * cout * oh() * ow(); }
  int64_t w_size() const { return cout * (cin / groups) * kernel[0] * kernel[1]; }

  /// Calls f(y index, x index, w index) for every product of the convolution.
  template <class F>
  void each(F&& f) const {
    const int64_t ci = cin / groups, co = cout / groups;
    for (int64_t b = 0; b < n; ++b)
      for (int64_t o = 0; o < cout; ++o)
        for (int64_t oy = 0; oy < oh(); ++oy)
          for (int64_t ox = 0; ox < ow(); ++ox)
            for (int64_t i = 0; i < ci; ++i)
              for (int ky = 0; ky < kernel[0]; ++ky)
                for (int kx = 0; kx < kernel[1]; ++kx) {
                  const int64_t y = oy * stride[0] - pads[0] + ky * dilation[0];
                  const int64_t x = ox * stride[1] - pads[1] + kx * dilation[1];
                  if (y < 0 || y >= h || x < 0 || x >= w) continue;
                  f(((b * cout + o) * oh() + oy) * ow() + ox,
                    ((b * cin + o / co * ci + i) * h + y) * w + x,
                    ((o * ci + i) * kernel[0] + ky) * kernel[1] + kx);
                }
  }
};

inline Vec conv(const Conv& c, const Vec& x, const Vec& w, const Vec& bias) {
  Vec y(static_cast<size_t>(c.y_size()));
  const int64_t area = c.oh() * c.ow();
  for (int64_t i = 0; i < c.y_size(); ++i) y[i] = bias[i / area % c.cout];
  c.each([&](int64_t yi, int64_t xi, int64_t wi) { y[yi] += x[xi] * w[wi]; });
  return y;
}

inline void conv_grad(const Conv& c, const Vec& x, const Vec& w, const Vec& dy, Vec& dx, Vec& dw,
                      Vec& db) {
  dx.assign(static_cast<size_t>(c.x_size()), 0);
  dw.assign(static_cast<size_t>(c.w_size()), 0);
  db.assign(static_cast<size_t>(c.cout), 0);
  const int64_t area = c.oh() * c.ow();
  for (int64_t i = 0; i < c.y_size(); ++i) db[i / area % c.cout] += dy[i];
  c.each([&](int64_t yi, int64_t xi, int64_t wi) {
    dx[xi] += w[wi] * dy[yi];
    dw[wi] += x[xi] * dy[yi];
  });
}

/// For each output of max pooling (groups == cin == cout), the input that it takes: the first
/// largest in row order; -1 for a window in the padding.
inline std::vector<int64_t> max_pool_choice(const Conv& c, const Vec& x) {
  std::vector<int64_t> choice(static_cast<size_t>(c.y_size()), -1);
  c.each([&](int64_t yi, int64_t xi, int64_t) {
    if (choice[yi] < 0 || x[xi] > x[choice[yi]]) choice[yi] = xi;
  });
  return choice;
}

inline Vec max_pool(const Conv& c, const Vec& x) {
  Vec y;
  for (const int64_t i : max_pool_choice(c, x)) y.push_back(i < 0 ? -INFINITY : x[i]);
  return y;
}

inline Vec max_pool_grad(const Conv& c, const Vec& x, const Vec& dy) {
  Vec dx(x.size());
  const auto choice = max_pool_choice(c, x);
  for (size_t i = 0; i < dy.size(); ++i)
    if (choice[i] >= 0) dx[choice[i]] += dy[i];
  return dx;
}

/// x: [m, k], w: [n, k], bias: [n] -> [m, n].
inline Vec linear(int64_t m, int64_t k, int64_t n, const Vec& x, const Vec& w, const Vec& bias) {
  Vec y(static_cast<size_t>(m * n));
  for (int64_t r = 0; r < m; ++r)
    for (int64_t c = 0; c < n; ++c) {
      double s = bias[c];
      for (int64_t i = 0; i < k; ++i) s += x[r * k + i] * w[c * k + i];
      y[r * n + c] = s;
    }
  return y;
}

inline void linear_grad(int64_t m, int64_t k, int64_t n, const Vec& x, const Vec& w, const Vec& dy,
                        Vec& dx, Vec& dw, Vec& db) {
  dx.assign(static_cast<size_t>(m * k), 0);
  dw.assign(static_cast<size_t>(n * k), 0);
  db.assign(static_cast<size_t>(n), 0);
  for (int64_t r = 0; r < m; ++r)
    for (int64_t c = 0; c < n; ++c) {
      db[c] += dy[r * n + c];
      for (int64_t i = 0; i < k; ++i) {
        dx[r * k + i] += dy[r * n + c] * w[c * k + i];
        dw[c * k + i] += dy[r * n + c] * x[r * k + i];
      }
    }
}

inline Vec relu(const Vec& x) {
  Vec y(x);
  for (double& v : y) v = std::max(v, 0.);
  return y;
}

inline Vec relu_grad(const Vec& x, const Vec& dy) {
  Vec dx(dy);
  for (size_t i = 0; i < x.size(); ++i)
    if (x[i] <= 0) dx[i] = 0;
  return dx;
}

/// x: [planes, area] -> [planes], the mean.
inline Vec average(int64_t area, const Vec& x) {
  Vec y(x.size() / static_cast<size_t>(area));
  for (size_t i = 0; i < x.size(); ++i) y[i / area] += x[i] / static_cast<double>(area);
  return y;
}

inline Vec average_grad(int64_t area, const Vec& dy) {
  Vec dx(dy.size() * static_cast<size_t>(area));
  for (size_t i = 0; i < dx.size(); ++i) dx[i] = dy[i / area] / static_cast<double>(area);
  return dx;
}

/// Mean softmax cross-entropy of x [rows, classes]; `dx` (unless null) gets its gradient.
inline double cross_entropy(int64_t classes, const Vec& x, const std::vector<int64_t>& labels,
                            double smoothing, Vec* dx) {
  const auto rows = static_cast<int64_t>(labels.size());
  double loss = 0;
  if (dx) dx->assign(x.size(), 0);
  for (int64_t r = 0; r < rows; ++r) {
    const double* row = x.data() + r * classes;
    const double top = *std::max_element(row, row + classes);
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(row[c] - top);
    for (int64_t c = 0; c < classes; ++c) {
      const double log_p = row[c] - top - std::log(sum);
      const double target =
          smoothing / static_cast<double>(classes) + (c == labels[r] ? 1 - smoothing : 0);
      loss -= target * log_p / static_cast<double>(rows);
      if (dx) (*dx)[r * classes + c] = (std::exp(log_p) - target) / static_cast<double>(rows);
    }
  }
  return loss;
}

/// The largest deviation of `grad` from central differences of f at x, relative to 1 + |grad|.
inline double finite_difference_error(const std::function<double(const Vec&)>& f, Vec x,
                                      const Vec& grad, double step = 1e-5) {
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double at = x[i];
    x[i] = at + step;
    const double up = f(x);
    x[i] = at - step;
    const double down = f(x);
    x[i] = at;
    worst = std::max(worst, std::abs((up - down) / (2 * step) - grad[i]) / (1 + std::abs(grad[i])));
  }
  return worst;
}

inline double dot(const Vec& a, const Vec& b) {
  double s = 0;
  for (size_t i = 0; i < a.size(); ++i) s += a[i] * b[i];
  return s;
}

}  // namespace train::reference
