// PP-LCNetV3: depthwise-separable blocks whose convolutions have several branches in training
// (Ding et al. 2021, Vasu et al. 2022) and learnt affines around their activations.
#include "libocr/models/backbones.h"
#include "libtrain/autograd/affine_act.h"
#include "libtrain/autograd/branches.h"
#include "libtrain/core/error.h"

namespace ocr::models {
namespace {

struct Row {
  int kernel, in, out;
  Size det_stride, rec_stride;
  bool gate;
};

const std::vector<std::vector<Row>>& stages() {
  static const std::vector<std::vector<Row>> all{
      {{3, 16, 32, 1, 1, false}},
      {{3, 32, 64, 2, 1, false}, {3, 64, 64, 1, 1, false}},
      {{3, 64, 128, 2, {2, 1}, false}, {3, 128, 128, 1, 1, false}},
      {{3, 128, 256, 2, {1, 2}, false},
       {5, 256, 256, 1, 1, false},
       {5, 256, 256, 1, 1, false},
       {5, 256, 256, 1, 1, false},
       {5, 256, 256, 1, 1, false}},
      {{5, 256, 512, 2, {2, 1}, true},
       {5, 512, 512, 1, 1, true},
       {5, 512, 512, 1, {2, 1}, false},
       {5, 512, 512, 1, 1, false}},
  };
  return all;
}

int64_t scaled(double channels, double scale) { return make_divisible(channels * scale, 16); }

// Hard swish, then a learnt affine.
class AffineAct final : public Block {
 public:
  explicit AffineAct(double rate) : affine_(add<LearnableAffine>("lab", rate)) {}
  Variable operator()(Tape& tape, const Variable& x) const {
    return affine_(tape, activate(tape, x, Act::kHardSwish));
  }
  const LearnableAffine& affine() const { return affine_; }

 private:
  LearnableAffine& affine_;
};

// The sum of k x k branches, a 1 x 1 branch and an identity, each normalised. A stride of exactly
// 2 in both directions has no activation.
class RepLayer final : public Layer {
 public:
  RepLayer(int64_t in, int64_t out, int kernel, Size stride, int64_t groups,
           const PPLCNetV3Options& o)
      : identity_(in == out && stride == Size(1) ? &add<BatchNorm>("identity", in) : nullptr),
        branches_(add<List<ConvBn>>("conv_kxk")),
        act_(nullptr),
        active_(stride != Size(2)) {
    const int branches = o.conv_kxk_num;
    for (int i = 0; i < branches; ++i)
      branches_.append(in, out, window(kernel, stride), groups).spare_norm();
    if (kernel == 1 && groups == 1 && stride == Size(1) && branches + (identity_ ? 1 : 0) > 2)
      merged_ = std::make_shared<train::PointwiseBranchesOp>(branches, identity_ != nullptr,
                                                             branches_[0].norm().options().epsilon);
    if (kernel > 1)
      pointwise_ = &add<ConvBn>("conv_1x1", in, out, window(1, stride), groups).spare_norm();
    affine_ = &add<LearnableAffine>("lab", o.lab_lr);
    act_ = &add<AffineAct>("act", o.lab_lr);
    affine_and_act_ =
        std::make_shared<train::AffineActOp>(activation(active_ ? Act::kHardSwish : Act::kNone));
  }

  Variable operator()(Tape& tape, const Variable& x) const override {
    const Variable y = can_merge(tape) ? merged(tape, x) : sum(tape, x);
    if (training()) return affine_and_act(tape, y);
    const Variable z = (*affine_)(tape, y);
    return active_ ? (*act_)(tape, z) : z;
  }

 private:
  // Affine, activation and affine in one pass; an export has them one by one.
  Variable affine_and_act(Tape& tape, const Variable& x) const {
    std::vector<Variable> inputs{x, affine_->scale(), affine_->bias()};
    if (active_) inputs.insert(inputs.end(), {act_->affine().scale(), act_->affine().bias()});
    return tape.apply(affine_and_act_, inputs, 1)[0];
  }

  // The sum, branch by branch.
  Variable sum(Tape& tape, const Variable& x) const {
    Variable sum;
    const auto more = [&](const Variable& y) {
      sum = sum.defined() ? train::add(tape, sum, y) : y;
    };
    if (identity_) more((*identity_)(tape, x));
    if (pointwise_) more((*pointwise_)(tape, x));
    for (const ConvBn* branch : branches_) more((*branch)(tape, x));
    return sum;
  }

  // Mixed precision rounds within the branches, and ranks share their statistics one by one.
  bool can_merge(const Tape& tape) const {
    return merged_ && training() && !tape.autocasts() && !branches_[0].norm().is_synchronized();
  }

  // The sum in training, at once.
  Variable merged(Tape& tape, const Variable& x) const {
    std::vector<Variable> inputs{x};
    std::vector<const BatchNorm*> norms;
    for (const ConvBn* b : branches_) {
      inputs.insert(inputs.end(), {b->weight(), b->norm().weight(), b->norm().bias()});
      norms.push_back(&b->norm());
    }
    if (identity_) {
      inputs.insert(inputs.end(), {identity_->weight(), identity_->bias()});
      norms.push_back(identity_);
    }
    const auto out = tape.apply(merged_, inputs, train::PointwiseBranchesOp::kOutputs);
    const size_t channels = static_cast<size_t>(out[1].shape()[1]);
    const auto row = [&](size_t output, size_t i) {
      return out[output].value().span<float>().subspan(i * channels, channels);
    };
    for (size_t i = 0; i < norms.size(); ++i)
      norms[i]->follow_batch(row(1, i), row(3, i), x.shape().numel() / x.shape()[1]);
    return out[0];
  }

  BatchNorm* identity_;
  List<ConvBn>& branches_;
  ConvBn* pointwise_ = nullptr;
  LearnableAffine* affine_;
  AffineAct* act_;
  bool active_;
  std::shared_ptr<const train::AffineActOp> affine_and_act_;
  std::shared_ptr<const train::PointwiseBranchesOp> merged_;  // null: nothing to gain
};

class LcBlock final : public Layer {
 public:
  LcBlock(int64_t in, int64_t out, int kernel, Size stride, bool gate, const PPLCNetV3Options& o)
      : depthwise_(add<RepLayer>("dw_conv", in, in, kernel, stride, in, o)),
        gate_(gate ? &add<SqueezeExcite>("se", in, kPaddleSlope) : nullptr),
        pointwise_(add<RepLayer>("pw_conv", in, out, 1, 1, 1, o)) {}

  Variable operator()(Tape& tape, const Variable& x) const override {
    Variable y = depthwise_(tape, x);
    if (gate_) y = (*gate_)(tape, y);
    return pointwise_(tape, y);
  }

 private:
  RepLayer& depthwise_;
  SqueezeExcite* gate_;
  RepLayer& pointwise_;
};

class PPLCNetV3 final : public Backbone {
 public:
  explicit PPLCNetV3(const PPLCNetV3Options& o)
      : det_(o.det), stem_(add<ConvBn>("conv1", 3, scaled(16, o.scale), window(3, 2))) {
    if (o.conv_kxk_num < 1)
      throw train::Error(train::cat("conv_kxk_num must be at least 1, not ", o.conv_kxk_num));
    if (o.lr_mult_list.size() != 6)
      throw train::Error(
          train::cat("lr_mult_list must have 6 numbers, not ", o.lr_mult_list.size()));
    stem_.spare_norm().scale_learning_rate(static_cast<float>(o.lr_mult_list[0]));
    for (const auto& rows : stages()) {
      stages_.push_back(&add<Sequential>("blocks" + std::to_string(stages_.size() + 2)));
      for (const Row& r : rows)
        stages_.back()->append<LcBlock>(scaled(r.in, o.scale), scaled(r.out, o.scale), r.kernel,
                                        det_ ? r.det_stride : r.rec_stride, r.gate, o);
      stages_.back()->scale_learning_rate(static_cast<float>(o.lr_mult_list[stages_.size()]));
    }
    if (!det_) {
      channels_ = {scaled(512, o.scale)};
      return;
    }
    laterals_ = &add<List<Conv>>("layer_list");
    const int wanted[] = {16, 24, 56, 480};
    for (size_t i = 0; i < 4; ++i) {
      channels_.push_back(static_cast<int64_t>(wanted[i] * o.scale));
      laterals_->append(scaled(stages()[i + 1].back().out, o.scale), channels_[i], window(1));
    }
  }

  std::vector<Variable> operator()(Tape& tape, const Variable& images) const override {
    Variable x = stem_(tape, images);
    std::vector<Variable> scales;
    for (const Sequential* stage : stages_) {
      x = (*stage)(tape, x);
      scales.push_back(x);
    }
    if (!det_) return {row_of(tape, x, training())};
    scales.erase(scales.begin());  // 1/2
    for (size_t i = 0; i < scales.size(); ++i) scales[i] = (*laterals_)[i](tape, scales[i]);
    return scales;
  }

 private:
  bool det_;
  ConvBn& stem_;
  std::vector<Sequential*> stages_;
  List<Conv>* laterals_ = nullptr;
};

}  // namespace

std::unique_ptr<Backbone> make_pplcnet_v3(const PPLCNetV3Options& options) {
  return std::make_unique<PPLCNetV3>(options);
}

}  // namespace ocr::models
