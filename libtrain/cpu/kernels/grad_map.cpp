// Gradients of activations, layer normalisation and softmax. Rows are dense; sums run in
// order over the rows of a call, so that blocks of fixed size give the same bits on any thread.
#include "libtrain/cpu/kernels/grad_math.h"
#include "libtrain/cpu/kernels/grad_tables.h"

namespace train::cpu::OCR_ISA_NS {
namespace {

void act_grad(const Activation& act, const float* v, const float* dy, float* dx, int64_t n) {
  dispatch_slope(act.kind, [&]<Act A>() {
    const V a = set1(act.alpha), b = set1(act.beta);
    int64_t i = 0;
    for (; i + W <= n; i += W) store(dx + i, mul(load(dy + i), slope<A>(load(v + i), a, b)));
    if (i < n)
      store_n(dx + i, mul(load_n(dy + i, n - i), slope<A>(load_n(v + i, n - i), a, b)), n - i);
  });
}

// Sum of f(i) over the vectors of a row: lanes past the end must give 0.
template <class F>
OCR_INLINE float sum_row(int64_t cols, F&& f) {
  V s = zero();
  for (int64_t i = 0; i < cols; i += W) s = add(s, f(i, cols - i));
  return reduce_add(s);
}

void layer_norm_grad(const float* x, const float* dy, const float* scale, float eps, int64_t rows,
                     int64_t cols, float* dx, float* dscale, float* dbias) {
  const float n = static_cast<float>(cols);
  for (int64_t r = 0; r < rows; ++r, x += cols, dy += cols, dx += cols) {
    const float mean =
        sum_row(cols, [&](int64_t i, int64_t left) { return load_n(x + i, left); }) / n;
    float var = 0;
    {
      V s = zero();
      const V m = set1(mean);
      int64_t i = 0;
      for (; i + W <= cols; i += W) {
        const V d = sub(load(x + i), m);
        s = fma(d, d, s);
      }
      var = reduce_add(s);
      for (; i < cols; ++i) var += (x[i] - mean) * (x[i] - mean);
    }
    const V m = set1(mean), inv = set1(1.f / __builtin_sqrtf(var / n + eps));
    const auto g_of = [&](int64_t i, int64_t left) {
      const V g = load_n(dy + i, left);
      return scale ? mul(g, load_n(scale + i, left)) : g;
    };
    const auto xhat_of = [&](int64_t i, int64_t left) {
      return mul(sub(load_n(x + i, left), m), inv);
    };
    const V mean_g = set1(sum_row(cols, g_of) / n);
    const V mean_gx = set1(
        sum_row(cols, [&](int64_t i, int64_t l) { return mul(g_of(i, l), xhat_of(i, l)); }) / n);
    for (int64_t i = 0; i < cols; i += W) {
      const int64_t left = cols - i;
      const V xhat = xhat_of(i, left), d = load_n(dy + i, left);
      if (dscale) store_n(dscale + i, fma(d, xhat, load_n(dscale + i, left)), left);
      if (dbias) store_n(dbias + i, add(load_n(dbias + i, left), d), left);
      if (dx) store_n(dx + i, mul(inv, fnma(xhat, mean_gx, sub(g_of(i, left), mean_g))), left);
    }
  }
}

void softmax_grad(const float* y, const float* dy, float* dx, int64_t rows, int64_t cols,
                  bool log_form) {
  for (int64_t r = 0; r < rows; ++r, y += cols, dy += cols, dx += cols) {
    const V s = set1(sum_row(cols, [&](int64_t i, int64_t left) {
      const V d = load_n(dy + i, left);
      return log_form ? d : mul(d, load_n(y + i, left));
    }));
    for (int64_t i = 0; i < cols; i += W) {
      const int64_t left = cols - i;
      const V v = load_n(y + i, left), d = load_n(dy + i, left);
      store_n(dx + i, log_form ? fnma(exp_nonpositive(v), s, d) : mul(v, sub(d, s)), left);
    }
  }
}

void lstm_cell(float* z, const float* c_before, int64_t h, float* c, float* y) {
  for (int64_t k = 0; k < h; k += W) {
    const int64_t left = h - k;
    const V i = sigmoid(load_n(z + k, left)), f = sigmoid(load_n(z + h + k, left));
    const V g = tanh(load_n(z + 2 * h + k, left)), o = sigmoid(load_n(z + 3 * h + k, left));
    const V before = c_before ? load_n(c_before + k, left) : zero();
    const V now = fma(f, before, mul(i, g));
    store_n(z + k, i, left);
    store_n(z + h + k, f, left);
    store_n(z + 2 * h + k, g, left);
    store_n(z + 3 * h + k, o, left);
    store_n(c + k, now, left);
    store_n(y + k, mul(o, tanh(now)), left);
  }
}

void lstm_cell_grad(const float* gates, const float* c_before, const float* c, const float* dh,
                    int64_t h, float* dc, float* dz) {
  const V one = set1(1.f);
  for (int64_t k = 0; k < h; k += W) {
    const int64_t left = h - k;
    const V i = load_n(gates + k, left), f = load_n(gates + h + k, left);
    const V g = load_n(gates + 2 * h + k, left), o = load_n(gates + 3 * h + k, left);
    const V before = c_before ? load_n(c_before + k, left) : zero();
    const V t = tanh(load_n(c + k, left)), d = load_n(dh + k, left);
    const V dnow = fma(mul(d, o), fnma(t, t, one), load_n(dc + k, left));
    store_n(dz + k, mul(mul(dnow, g), mul(i, sub(one, i))), left);
    store_n(dz + h + k, mul(mul(dnow, before), mul(f, sub(one, f))), left);
    store_n(dz + 2 * h + k, mul(mul(dnow, i), fnma(g, g, one)), left);
    store_n(dz + 3 * h + k, mul(mul(d, t), mul(o, sub(one, o))), left);
    store_n(dc + k, mul(dnow, f), left);
  }
}

void dot_rows(const float* a, const float* b, int64_t rows, int64_t cols, float* y) {
  for (int64_t c = 0; c < cols; c += W) {
    const int64_t left = cols - c;
    V s = zero();
    for (int64_t r = 0; r < rows; ++r)
      s = fma(load_n(a + r * cols + c, left), load_n(b + r * cols + c, left), s);
    store_n(y + c, add(load_n(y + c, left), s), left);
  }
}

void dot_cols(const float* a, const float* b, int64_t rows, int64_t cols, float* out) {
  for (int64_t r = 0; r < rows; ++r, a += cols, b += cols)
    out[r] = sum_row(cols, [&](int64_t i, int64_t left) {
      return mul(load_n(a + i, left), load_n(b + i, left));
    });
}

void affine_act(const AffineActArgs& g, const float* x, float* y, int64_t n) {
  dispatch_slope(g.act.kind, [&]<Act A>() {
    const V s1 = set1(g.scale1), b1 = set1(g.bias1), s2 = set1(g.scale2), b2 = set1(g.bias2);
    const V a = set1(g.act.alpha), b = set1(g.act.beta);
    for (int64_t i = 0; i < n; i += W) {
      const V u = fma(load_n(x + i, n - i), s1, b1);
      store_n(y + i, fma(activate<A>(u, a, b), s2, b2), n - i);
    }
  });
}

void affine_act_grad(const AffineActArgs& g, const float* x, const float* dy, float* dx, int64_t n,
                     float* sums) {
  dispatch_slope(g.act.kind, [&]<Act A>() {
    const V s1 = set1(g.scale1), b1 = set1(g.bias1), s2 = set1(g.scale2);
    const V a = set1(g.act.alpha), b = set1(g.act.beta);
    V by_scale1 = zero(), by_bias1 = zero(), by_scale2 = zero(), by_bias2 = zero();
    for (int64_t i = 0; i < n; i += W) {  // lanes past the end read dy = 0
      const int64_t left = n - i;
      const V v = load_n(x + i, left), d = load_n(dy + i, left);
      const V u = fma(v, s1, b1), f = activate<A>(u, a, b);
      const V du = mul(mul(d, s2), slope<A>(reads_output(A) ? f : u, a, b));
      by_scale1 = fma(du, v, by_scale1);
      by_bias1 = add(du, by_bias1);
      by_scale2 = fma(d, f, by_scale2);
      by_bias2 = add(d, by_bias2);
      store_n(dx + i, mul(du, s1), left);
    }
    sums[0] = reduce_add(by_scale1);
    sums[1] = reduce_add(by_bias1);
    sums[2] = reduce_add(by_scale2);
    sums[3] = reduce_add(by_bias2);
  });
}

}  // namespace

constinit const GradTable kGradTable = {
    .act_grad = act_grad,
    .block_moments = block_moments,
    .norm_grad_sums = norm_grad_sums,
    .norm_grad_apply = norm_grad_apply,
    .layer_norm_grad = layer_norm_grad,
    .softmax_grad = softmax_grad,
    .depthwise_weight_row = depthwise_weight_row,
    .depthwise_input_row = depthwise_input_row,
    .lstm_cell = lstm_cell,
    .lstm_cell_grad = lstm_cell_grad,
    .dot_rows = dot_rows,
    .dot_cols = dot_cols,
    .affine_act = affine_act,
    .affine_act_grad = affine_act_grad,
    .small_product = small_product,
    .masked_softmax = masked_softmax,
    .scaled_softmax = scaled_softmax,
    .adam = adam,
    .sgd = sgd,
    .product_cols = product_cols,
    .pack_product = pack_product,
    .product_tile = product_tile,
};

}  // namespace train::cpu::OCR_ISA_NS
