// Times training steps of nets shaped like PP-OCR's mobile recogniser and detector, op by op.
// usage: train_step [rec|db] [batch] [steps] [threads]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "libtrain/autograd/ctc.h"
#include "libtrain/autograd/map_loss.h"
#include "libtrain/core/philox.h"
#include "libtrain/nn/sequence.h"
#include "libtrain/optim/adam.h"

namespace {

using namespace train;

class Net : public nn::Module {
 protected:
  template <class T, class... A>
  T& make(A&&... args) {
    auto m = std::make_unique<T>(std::forward<A>(args)...);
    T& made = *m;
    add_module(std::to_string(owned_.size()), made);
    owned_.push_back(std::move(m));
    return made;
  }

 private:
  std::vector<std::unique_ptr<nn::Module>> owned_;
};

// Convolution, batch norm, hard swish.
class ConvBn final : public Net {
 public:
  ConvBn(int64_t in, int64_t out, std::array<int, 2> kernel, std::array<int, 2> stride,
         int64_t groups = 1, const cpu::Activation& act = cpu::hard_swish())
      : conv_(make<nn::Conv2d>(in, out,
                               nn::ConvOptions{.kernel = kernel,
                                               .stride = stride,
                                               .padding = {kernel[0] / 2, kernel[1] / 2},
                                               .groups = groups,
                                               .bias = false})),
        norm_(make<nn::BatchNorm2d>(out)),
        act_(act) {}
  Variable operator()(Tape& tape, const Variable& x) const {
    return norm_(tape, conv_(tape, x), act_);
  }

 private:
  nn::Conv2d& conv_;
  nn::BatchNorm2d& norm_;
  cpu::Activation act_;
};

// Depthwise, optional squeeze and excitation, pointwise.
class Block final : public Net {
 public:
  Block(int64_t in, int64_t out, int k, std::array<int, 2> stride, bool gate)
      : dw_(make<ConvBn>(in, in, std::array{k, k}, stride, in)),
        pw_(make<ConvBn>(in, out, std::array{1, 1}, std::array{1, 1})) {
    if (!gate) return;
    squeeze_ = &make<nn::Conv2d>(in, in / 4, 1);
    excite_ = &make<nn::Conv2d>(in / 4, in, 1);
  }
  Variable operator()(Tape& tape, const Variable& x) const {
    Variable y = dw_(tape, x);
    if (squeeze_) {
      const Variable s = relu(tape, (*squeeze_)(tape, global_average_pool(tape, y)));
      y = mul(tape, y, hard_sigmoid(tape, (*excite_)(tape, s)));
    }
    return pw_(tape, y);
  }

 private:
  ConvBn &dw_, &pw_;
  nn::Conv2d *squeeze_ = nullptr, *excite_ = nullptr;
};

// PPLCNetV3 x0.95, one branch, with an SVTR neck of two blocks and CTC over 6,625 classes.
class Recogniser final : public Net {
 public:
  Recogniser() : stem_(make<ConvBn>(3, 16, std::array{3, 3}, std::array{2, 2})) {
    struct Row {
      int k;
      int64_t in, out;
      std::array<int, 2> stride;
      bool gate;
    };
    for (const Row& r : {Row{3, 16, 32, {1, 1}, false}, Row{3, 32, 64, {1, 1}, false},
                         Row{3, 64, 64, {1, 1}, false}, Row{3, 64, 128, {2, 1}, false},
                         Row{3, 128, 128, {1, 1}, false}, Row{3, 128, 240, {1, 2}, false},
                         Row{5, 240, 240, {1, 1}, false}, Row{5, 240, 240, {1, 1}, false},
                         Row{5, 240, 240, {1, 1}, false}, Row{5, 240, 240, {1, 1}, false},
                         Row{5, 240, 480, {2, 1}, true}, Row{5, 480, 480, {1, 1}, true},
                         Row{5, 480, 480, {2, 1}, false}, Row{5, 480, 480, {1, 1}, false}})
      blocks_.push_back(&make<Block>(r.in, r.out, r.k, r.stride, r.gate));
    const auto swish = [&](int64_t in, int64_t out, std::array<int, 2> k) {
      return &make<ConvBn>(in, out, k, std::array{1, 1}, 1, cpu::swish());
    };
    necks_ = {swish(480, 60, {1, 3}), swish(60, 120, {1, 1}), swish(120, 480, {1, 1}),
              swish(960, 60, {1, 3}), swish(60, 120, {1, 1})};
    for (int i = 0; i < 2; ++i) {
      norms_.push_back(&make<nn::LayerNorm>(120, 1e-5f));
      attention_.push_back(
          &make<nn::SelfAttention>(nn::AttentionOptions{.channels = 120, .heads = 8}));
      norms_.push_back(&make<nn::LayerNorm>(120, 1e-5f));
      mlp_.push_back(&make<nn::Linear>(120, 240));
      mlp_.push_back(&make<nn::Linear>(240, 120));
    }
    head_ = &make<nn::Linear>(120, 6625);
  }
  Variable operator()(Tape& tape, const Variable& image, const Variable& labels,
                      const Variable& lengths) const {
    Variable x = stem_(tape, image);
    for (const Block* b : blocks_) x = (*b)(tape, x);
    Window pool;
    pool.kernel = pool.strides = {3, 2};
    x = average_pool(tape, x, pool);
    Variable y = (*necks_[1])(tape, (*necks_[0])(tape, x));
    const int64_t h = y.shape()[2], w = y.shape()[3];
    Variable t = image_to_sequence(tape, y);
    for (size_t i = 0; i < 2; ++i) {
      t = add(tape, t, (*attention_[i])(tape, (*norms_[2 * i])(tape, t)));
      const Variable m = swish(tape, (*mlp_[2 * i])(tape, (*norms_[2 * i + 1])(tape, t)));
      t = add(tape, t, (*mlp_[2 * i + 1])(tape, m));
    }
    y = (*necks_[2])(tape, sequence_to_image(tape, t, h, w));
    const Variable both[] = {x, y};
    y = (*necks_[4])(tape, (*necks_[3])(tape, concat(tape, both, 1)));
    return linear_ctc_loss(tape, image_to_sequence(tape, y), head_->weight(), head_->bias(), labels,
                           lengths)
        .loss;
  }

 private:
  ConvBn& stem_;
  std::vector<Block*> blocks_;
  std::vector<ConvBn*> necks_;
  std::vector<nn::LayerNorm*> norms_;
  std::vector<nn::SelfAttention*> attention_;
  std::vector<nn::Linear*> mlp_;
  nn::Linear* head_;
};

// PPLCNetV3 x0.75 with a feature pyramid of 96 channels and DB's two heads.
class Detector final : public Net {
 public:
  Detector() : stem_(make<ConvBn>(3, 16, std::array{3, 3}, std::array{2, 2})) {
    const auto block = [&](int64_t in, int64_t out, int k, int s, bool gate = false) {
      blocks_.push_back(&make<Block>(in, out, k, std::array{s, s}, gate));
    };
    block(16, 32, 3, 1), block(32, 48, 3, 2), block(48, 48, 3, 1), block(48, 96, 3, 2);
    block(96, 96, 3, 1), block(96, 192, 3, 2);
    for (int i = 0; i < 4; ++i) block(192, 192, 5, 1);
    block(192, 384, 5, 2, true), block(384, 384, 5, 1, true);
    for (const int64_t c : {48, 96, 192, 384}) {
      lateral_.push_back(&make<nn::Conv2d>(c, 96, nn::ConvOptions{.bias = false}));
      smooth_.push_back(&make<nn::Conv2d>(
          96, 24, nn::ConvOptions{.kernel = {3, 3}, .padding = {1, 1}, .bias = false}));
    }
    const nn::ConvOptions up{.kernel = {2, 2}, .stride = {2, 2}};
    for (int i = 0; i < 2; ++i) {
      heads_.push_back(&make<ConvBn>(96, 24, std::array{3, 3}, std::array{1, 1}, 1,
                                     cpu::Activation{cpu::Act::kRelu}));
      ups_.push_back(&make<nn::ConvTranspose2d>(24, 24, up));
      norms_.push_back(&make<nn::BatchNorm2d>(24));
      ups_.push_back(&make<nn::ConvTranspose2d>(24, 1, up));
    }
  }
  Variable operator()(Tape& tape, const Variable& image, const Variable& map,
                      const Variable& mask) const {
    Variable x = stem_(tape, image);
    std::vector<Variable> taps;
    for (size_t i = 0; i < blocks_.size(); ++i) {
      x = (*blocks_[i])(tape, x);
      if (i == 2 || i == 4 || i == 9 || i == 11) taps.push_back(x);
    }
    std::vector<Variable> parts(4);
    Variable above;
    for (size_t i = 4; i-- > 0;) {
      const Variable here = (*lateral_[i])(tape, taps[i]);
      above = above.defined() ? add(tape, here, upsample_nearest(tape, above, 2)) : here;
      const Variable y = (*smooth_[i])(tape, above);
      parts[3 - i] = i ? upsample_nearest(tape, y, 1 << i) : y;
    }
    const Variable fused = concat(tape, parts, 1);
    std::vector<Variable> maps;
    for (size_t i = 0; i < 2; ++i) {
      Variable y = (*ups_[2 * i])(tape, (*heads_[i])(tape, fused));
      y = (*norms_[i])(tape, y, {cpu::Act::kRelu});
      maps.push_back(sigmoid(tape, (*ups_[2 * i + 1])(tape, y)));
    }
    maps.push_back(sigmoid(tape, scale(tape, sub(tape, maps[0], maps[1]), 50)));
    return db_loss(tape, concat(tape, maps, 1), map, mask, map, mask).total;
  }

 private:
  ConvBn& stem_;
  std::vector<Block*> blocks_;
  std::vector<nn::Conv2d*> lateral_, smooth_;
  std::vector<ConvBn*> heads_;
  std::vector<nn::ConvTranspose2d*> ups_;
  std::vector<nn::BatchNorm2d*> norms_;
};

Variable noise(const Shape& shape, const char* name, bool bits = false) {
  Tensor t(shape);
  const RandomStream random(1, stream_of(name));
  for (int64_t i = 0; i < t.numel(); ++i) {
    const float v = random.uniform(static_cast<uint64_t>(i), -1, 1);
    t.data<float>()[i] = bits ? (v > .6f ? 1.f : 0.f) : v;
  }
  return Variable::input(t);
}

void report(const Eager& eager, double seconds, int steps) {
  double counted = 0;
  std::vector<std::pair<double, std::string>> rows;
  for (const auto& [name, t] : eager.profile()) {
    rows.push_back({t.seconds, name});
    counted += t.seconds;
  }
  std::sort(rows.rbegin(), rows.rend());
  for (const auto& [s, name] : rows)
    std::printf("%8.2f ms %5.1f %%  %s x %zu\n", s / steps * 1e3, s / seconds * 100, name.c_str(),
                eager.profile().at(name).calls / static_cast<size_t>(steps));
  std::printf("%8.2f ms %5.1f %%  the rest\n", (seconds - counted) / steps * 1e3,
              (seconds - counted) / seconds * 100);
}

}  // namespace

int main(int argc, char** argv) {
  const auto number = [&](int i, int otherwise) {
    return argc > i ? std::atoi(argv[i]) : otherwise;
  };
  const bool rec = argc < 2 || std::string(argv[1]) == "rec";
  const int batch = number(2, rec ? 32 : 4), steps = number(3, 5), threads = number(4, 1);
  ThreadPool pool(threads);
  const PoolScope scope(&pool);
  Recogniser recogniser;
  Detector detector;
  nn::Module& model = rec ? static_cast<nn::Module&>(recogniser) : detector;
  model.initialize(1);
  optim::Adam adam(model.parameters(), {.learning_rate = 1e-3});
  const Variable image =
      rec ? noise({batch, 3, 48, 320}, "image") : noise({batch, 3, 640, 640}, "image");
  const Variable map = noise({batch, 1, rec ? 1 : 640, rec ? 1 : 640}, "map", true);
  Tensor labels({batch, 8}, DType::kI64), lengths({batch}, DType::kI64);
  for (int64_t i = 0; i < labels.numel(); ++i) labels.data<int64_t>()[i] = 1 + i * 37 % 6000;
  for (int i = 0; i < batch; ++i) lengths.data<int64_t>()[i] = 8;
  Eager eager(size_t{1} << 30);
  double best = 1e9, total = 0;
  for (int step = 0; step < steps + 2; ++step) {
    if (step == 2) eager.set_profiling(true);
    const auto start = std::chrono::steady_clock::now();
    Tape tape(eager, true, static_cast<uint64_t>(step));
    const Variable loss =
        rec ? recogniser(tape, image, Variable::input(labels), Variable::input(lengths))
            : detector(tape, image, map, map);
    adam.clear_grad();
    tape.backward(loss);
    adam.step();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::printf("step %d loss %.4f: %.1f ms\n", step,
                static_cast<double>(*loss.value().data<float>()), took.count() * 1e3);
    if (step < 2) continue;
    best = std::min(best, took.count());
    total += took.count();
  }
  report(eager, total, steps);
  std::printf(
      "%s batch %d, %d threads: best %.1f ms, mean %.1f ms, %.2f images/s; tensors %zu MiB\n",
      rec ? "rec" : "db", batch, threads, best * 1e3, total / steps * 1e3, batch / best,
      eager.memory().stats().peak >> 20);
}
