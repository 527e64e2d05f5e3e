#include "libtrain/autograd/gradient.h"

namespace train {
namespace {

struct Row {
  std::string_view op;  // Op::type()
  std::shared_ptr<const Gradient> (*make)(const Op& op);
};
constexpr Row kGradients[] = {
    {"Conv", conv_gradient},
    {"ConvTranspose", conv_transpose_gradient},
    {"MatMul", matmul_gradient},
    {"Add", add_gradient},
    {"Sub", sub_gradient},
    {"Mul", mul_gradient},
    {"Div", div_gradient},
    {"MaxPool", max_pool_gradient},
    {"AveragePool", average_pool_gradient},
    {"GlobalAveragePool", global_average_pool_gradient},
    {"GlobalMaxPool", global_max_pool_gradient},
    {"Identity", reshape_gradient},
    {"Reshape", reshape_gradient},
    {"Flatten", reshape_gradient},
    {"Squeeze", reshape_gradient},
    {"Unsqueeze", reshape_gradient},
    {"Transpose", transpose_gradient},
    {"Concat", concat_gradient},
    {"Split", split_gradient},
    {"Slice", slice_gradient},
    {"Pad", pad_gradient},
    {"Embedding", embedding_gradient},
    {"ReduceSum", reduce_gradient},
    {"ReduceMean", reduce_gradient},
    {"Softmax", softmax_gradient},
    {"LogSoftmax", softmax_gradient},
    {"LayerNormalization", layer_norm_gradient},
    {"BatchNormalization", batch_norm_gradient},
    {"BatchNormTrain", batch_norm_train_gradient},
    {"AffineAct", affine_act_gradient},
    {"PointwiseBranches", pointwise_branches_gradient},
    {"GroupNormalization", group_norm_gradient},
    {"InstanceNormalization", group_norm_gradient},
    {"Attention", attention_gradient},
    {"LstmTrain", lstm_gradient},
    {"Resize", resize_gradient},
    {"GridSample", grid_sample_gradient},
    {"Dropout", dropout_gradient},
    {"DropPath", dropout_gradient},
    {"CtcLoss", ctc_gradient},
    {"LinearCtcLoss", linear_ctc_gradient},
    {"MapLoss", map_loss_gradient},
    {"SoftmaxCrossEntropy", softmax_cross_entropy_gradient},
    {"Round16", round16_gradient},
};

}  // namespace

std::shared_ptr<const Gradient> make_gradient(const Op& op) {
  for (const Row& row : kGradients)
    if (row.op == op.type()) return row.make(op);
  if (auto unary = unary_gradient(op)) return unary;
  throw Error(cat("the op ", op.type(), " has no gradient; freeze what lies before it"));
}

const Array& GradContext::grad(size_t i) const {
  const Array& g = node_.outputs[i].slot->grad;
  if (!g.present) throw Error(cat(node_.op->describe(), ": no gradient reached output ", i));
  return g;
}

bool GradContext::needs(size_t i) const {
  return i < node_.inputs.size() && node_.inputs[i].slot && node_.inputs[i].slot->requires_grad;
}

void GradContext::set(size_t i, Array grad) {
  tape_.accumulate(*node_.inputs[i].slot, std::move(grad));
}

const Array& GradContext::checked(const Tape::Saved& s, const char* what, size_t i) const {
  if (s.array.tensor.defined() && s.array.tensor.storage()->version != s.version)
    throw Error(cat(node_.op->describe(), ": ", what, " ", i,
                    " was changed in place after the forward pass, and the gradient needs it; "
                    "change it after backward, or change a copy"));
  return s.array;
}

}  // namespace train
