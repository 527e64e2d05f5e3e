#include "libocr/onnx/export_map.h"

#include <algorithm>
#include <bit>
#include <numbers>

#include "libocr/onnx/export.h"
#include "libtrain/core/error.h"
#include "libtrain/ops/grid_sample.h"
#include "libtrain/ops/move.h"
#include "libtrain/ops/nn.h"
#include "libtrain/ops/reduce.h"
#include "libtrain/ops/rnn.h"

namespace ocr {
namespace {

using namespace train;  // NOLINT: the table speaks of little else
using cpu::Act;
using onnx::AttributeProto;
using onnx::NodeProto;

// ---- Attributes.

void set(NodeProto& n, const char* key, int64_t v) {
  AttributeProto& a = *n.add_attribute();
  a.set_name(key);
  a.set_type(AttributeProto::INT);
  a.set_i(v);
}
void set(NodeProto& n, const char* key, float v) {
  AttributeProto& a = *n.add_attribute();
  a.set_name(key);
  a.set_type(AttributeProto::FLOAT);
  a.set_f(v);
}
void set(NodeProto& n, const char* key, const std::string& v) {
  AttributeProto& a = *n.add_attribute();
  a.set_name(key);
  a.set_type(AttributeProto::STRING);
  a.set_s(v);
}
template <class Ints>
void set_ints(NodeProto& n, const char* key, const Ints& v) {
  AttributeProto& a = *n.add_attribute();
  a.set_name(key);
  a.set_type(AttributeProto::INTS);
  for (const auto i : v) a.add_ints(i);
}

template <class T>
const T& op_of(const NodeWriter& w) {
  return dynamic_cast<const T&>(*w.node().op);
}

// The node as it is, inputs and output in order.
NodeProto& plain(NodeWriter& w, const char* type) { return w.add(type, w.all_inputs(), {w.out()}); }

// ---- Convolutions and pools.

void set_window(NodeWriter& w, NodeProto& n, const Window& window, bool dilations = true) {
  if (window.auto_pad != AutoPad::kNotSet) w.fail("has auto_pad, which is not written");
  set_ints(n, "kernel_shape", window.kernel);
  set_ints(n, "strides", window.strides);
  set_ints(n, "pads", window.pads);
  if (dilations) set_ints(n, "dilations", window.dilations);
}

void check_plain(const NodeWriter& w, const cpu::Epilogue& e) {
  if (e.act.kind != Act::kNone || e.residual != cpu::Residual::kNone || e.post_scale != 1 ||
      e.post_bias != 0)
    w.fail("was fused with what follows it: write the graph before it is optimised");
}

// The kernel is the weights', whatever the op's window says.
Window with_kernel(const NodeWriter& w, Window window) {
  const Tensor* weights = w.constant(1);
  if (!weights || weights->shape().rank() != 4) w.fail("has computed weights");
  window.kernel = {static_cast<int>(weights->shape()[2]), static_cast<int>(weights->shape()[3])};
  return window;
}

void conv(NodeWriter& w) {
  const auto& op = op_of<ConvOp>(w);
  check_plain(w, op.epilogue);
  NodeProto& n = plain(w, "Conv");
  set_window(w, n, with_kernel(w, op.window));
  set(n, "group", op.groups);
}

void conv_transpose(NodeWriter& w) {
  const auto& op = op_of<ConvTransposeOp>(w);
  check_plain(w, op.epilogue);
  if (op.output_shape) w.fail("has an output_shape, which is not written");
  NodeProto& n = plain(w, "ConvTranspose");
  set_window(w, n, with_kernel(w, op.window));
  set(n, "group", op.groups);
  set_ints(n, "output_padding", op.output_padding);
}

void pool(NodeWriter& w) {
  const auto& op = op_of<PoolOp>(w);
  const bool max = op.kind == PoolKind::kMax;
  if (!max && op.window.dilations != std::array<int, 2>{1, 1})
    w.fail("has dilations, which opset 17 lacks");
  NodeProto& n = plain(w, max ? "MaxPool" : "AveragePool");
  set_window(w, n, op.window, max);
  set(n, "ceil_mode", int64_t{op.window.ceil_mode});
  if (!max) set(n, "count_include_pad", int64_t{op.count_include_pad});
}

void global_pool(NodeWriter& w) {
  plain(w, op_of<GlobalPoolOp>(w).kind == PoolKind::kMax ? "GlobalMaxPool" : "GlobalAveragePool");
}

const char* coordinates(cpu::ResizeCoord c) {
  constexpr const char* names[] = {"half_pixel", "asymmetric", "align_corners",
                                   "pytorch_half_pixel", "half_pixel_symmetric"};
  return names[static_cast<int>(c)];
}

void resize(NodeWriter& w) {
  const cpu::ResizeDesc& d = op_of<ResizeOp>(w).desc;
  constexpr const char* modes[] = {"nearest", "linear", "cubic"};
  constexpr const char* roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
  if (d.coord == cpu::ResizeCoord::kHalfPixelSymmetric)
    w.fail("has coordinates that opset 17 lacks");
  std::vector<std::string> inputs{w.in(0), "", w.in(1)};
  if (w.has(2)) inputs.push_back(w.in(2));
  NodeProto& n = w.add("Resize", inputs, {w.out()});
  set(n, "mode", std::string(modes[static_cast<int>(d.mode)]));
  set(n, "coordinate_transformation_mode", std::string(coordinates(d.coord)));
  if (d.mode == cpu::ResizeMode::kNearest)
    set(n, "nearest_mode", std::string(roundings[static_cast<int>(d.nearest)]));
  if (d.mode == cpu::ResizeMode::kCubic) {
    set(n, "cubic_coeff_a", d.cubic_a);
    set(n, "exclude_outside", int64_t{d.exclude_outside});
  }
}

void grid_sample(NodeWriter& w) {
  const GridSampleOptions& o = op_of<GridSampleOp>(w).options;
  NodeProto& n = plain(w, "GridSample");
  set(n, "mode", std::string("bilinear"));
  set(n, "padding_mode", std::string(o.padding == SamplePadding::kZeros ? "zeros" : "border"));
  set(n, "align_corners", int64_t{o.align_corners});
}

// ---- Products.

Tensor transposed(const Tensor& m) {
  const int64_t rows = m.shape()[0], columns = m.shape()[1];
  Tensor t({columns, rows});
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      t.data<float>()[c * rows + r] = m.data<float>()[r * columns + c];
  return t;
}

void matmul(NodeWriter& w) {
  const auto& op = op_of<MatMulOp>(w);
  check_plain(w, op.epilogue);
  std::string b = w.in(1);
  if (op.trans_b) {
    const Tensor* m = w.constant(1);
    if (!m || m->shape().rank() != 2) w.fail("has a transposed factor that is no constant matrix");
    b = w.initializer(transposed(*m));
  }
  std::string y = w.out();
  const bool bias = w.has(2), scaled = op.alpha != 1;
  std::string product = bias || scaled ? w.part("product") : y;
  w.add("MatMul", {w.in(0), b}, {product});
  if (scaled) {
    const std::string times = bias ? w.part("scaled") : y;
    w.add("Mul", {product, w.initializer(Tensor::scalar(op.alpha))}, {times});
    product = times;
  }
  if (bias) w.add("Add", {product, w.in(2)}, {y});
}

// ---- Normalisations.

void softmax(NodeWriter& w) {
  const auto& op = op_of<SoftmaxOp>(w);
  set(plain(w, op.log ? "LogSoftmax" : "Softmax"), "axis", op.axis);
}

void batch_norm(NodeWriter& w) {
  set(plain(w, "BatchNormalization"), "epsilon", op_of<BatchNormOp>(w).epsilon);
}

void layer_norm(NodeWriter& w) {
  const auto& op = op_of<LayerNormOp>(w);
  NodeProto& n = plain(w, "LayerNormalization");
  set(n, "axis", op.axis);
  set(n, "epsilon", op.epsilon);
}

// ---- Functions of one number.

void unary(NodeWriter& w) {
  const cpu::Activation& a = op_of<UnaryOp>(w).activation;
  const auto scalar = [&](float v) { return w.initializer(Tensor::scalar(v)); };
  switch (a.kind) {
    case Act::kClip:
      w.add("Clip", {w.in(0), scalar(a.alpha), scalar(a.beta)}, {w.out()});
      return;
    case Act::kLeakyRelu:
      set(plain(w, "LeakyRelu"), "alpha", a.alpha);
      return;
    case Act::kHardSigmoid: {
      NodeProto& n = plain(w, "HardSigmoid");
      set(n, "alpha", a.alpha);
      set(n, "beta", a.beta);
      return;
    }
    case Act::kHardSwish:
      if (a.alpha == 1.f / 6 && a.beta == .5f) {
        plain(w, "HardSwish");
      } else {
        const std::string gate = w.part("gate");
        NodeProto& n = w.add("HardSigmoid", {w.in(0)}, {gate});
        set(n, "alpha", a.alpha);
        set(n, "beta", a.beta);
        w.add("Mul", {w.in(0), gate}, {w.out()});
      }
      return;
    case Act::kSwish: {
      std::string x = w.in(0);
      if (a.alpha != 1) {
        x = w.part("scaled");
        w.add("Mul", {w.in(0), scalar(a.alpha)}, {x});
      }
      const std::string gate = w.part("gate");
      w.add("Sigmoid", {x}, {gate});
      w.add("Mul", {w.in(0), gate}, {w.out()});
      return;
    }
    case Act::kGelu: {  // an operator of its own only since opset 20
      const std::string scaled = w.part("scaled"), erf = w.part("erf"), one = w.part("sum"),
                        product = w.part("product");
      w.add("Div", {w.in(0), scalar(std::numbers::sqrt2_v<float>)}, {scaled});
      w.add("Erf", {scaled}, {erf});
      w.add("Add", {erf, scalar(1)}, {one});
      w.add("Mul", {w.in(0), one}, {product});
      w.add("Mul", {product, scalar(.5f)}, {w.out()});
      return;
    }
    case Act::kRelu:
    case Act::kSigmoid:
    case Act::kTanh:
    case Act::kErf:
    case Act::kExp:
    case Act::kLog:
    case Act::kSqrt:
    case Act::kAbs:
    case Act::kNeg:
      plain(w, std::string(w.node().op->type()).c_str());
      return;
    default:
      w.fail("has no form in ONNX here");
  }
}

// Of equal name in ONNX, without attributes.
void same_name(NodeWriter& w) { plain(w, std::string(w.node().op->type()).c_str()); }

void reduce(NodeWriter& w) {
  const auto& op = op_of<ReduceOp>(w);
  std::vector<std::string> inputs{w.in(0)};
  const Tensor* axes = w.constant(1);
  if (w.has(1) && !axes) w.fail("has computed axes");
  // Axes are an input of ReduceSum alone before opset 18.
  if (axes && op.kind == ReduceKind::kSum) inputs.push_back(w.in(1));
  NodeProto& n = w.add(std::string(op.type()).c_str(), inputs, {w.out()});
  if (axes && op.kind != ReduceKind::kSum) set_ints(n, "axes", axes->to_ints());
  set(n, "keepdims", int64_t{op.keepdims});
}

// ---- Movement.

void reshape(NodeWriter& w) {
  NodeProto& n = plain(w, "Reshape");
  const Tensor* shape = w.constant(1);
  const bool zeros = !shape || std::ranges::count(shape->to_ints(), 0) > 0;
  if (op_of<ReshapeOp>(w).allow_zero && zeros) set(n, "allowzero", int64_t{1});
}

void flatten(NodeWriter& w) { set(plain(w, "Flatten"), "axis", op_of<FlattenOp>(w).axis); }

void transpose(NodeWriter& w) {
  const auto& op = op_of<TransposeOp>(w);
  NodeProto& n = plain(w, "Transpose");
  if (!op.perm.empty()) set_ints(n, "perm", op.perm);
}

void concat(NodeWriter& w) { set(plain(w, "Concat"), "axis", op_of<ConcatOp>(w).axis); }

void split(NodeWriter& w) {
  std::vector<std::string> outputs;
  for (size_t i = 0; i < w.node().outputs.size(); ++i) outputs.push_back(w.out(i));
  set(w.add("Split", w.all_inputs(), outputs), "axis", op_of<SplitOp>(w).axis);
}

void pad(NodeWriter& w) {
  constexpr const char* modes[] = {"constant", "reflect", "edge", "wrap"};
  const auto mode = static_cast<int>(op_of<PadOp>(w).mode);
  if (mode == 3 || w.inputs() > 3) w.fail("has a form that opset 17 lacks");
  set(plain(w, "Pad"), "mode", std::string(modes[mode]));
}

void gather(NodeWriter& w) { set(plain(w, "Gather"), "axis", op_of<GatherOp>(w).axis); }

// ---- Recurrent layers.

void lstm(NodeWriter& w) {
  const auto& op = op_of<RnnOp>(w);
  constexpr const char* directions[] = {"forward", "reverse", "bidirectional"};
  const Act gates[] = {Act::kSigmoid, Act::kTanh, Act::kTanh};
  for (int64_t d = 0; d < op.directions(); ++d)
    for (size_t i = 0; i < 3; ++i)
      if (op.activations[static_cast<size_t>(d)][i].kind != gates[i])
        w.fail("has functions other than LSTM's");
  if (op.cell != RnnCell::kLstm || op.batch_first || op.clip != 0) w.fail("is not written");
  std::vector<std::string> outputs;
  for (size_t i = 0; i < w.node().outputs.size(); ++i) outputs.push_back(w.out(i));
  NodeProto& n = w.add("LSTM", w.all_inputs(), outputs);
  set(n, "hidden_size", op.hidden);
  set(n, "direction", std::string(directions[static_cast<int>(op.direction)]));
}

// ---- The table: the op's type in the engine and who writes it.

struct Row {
  std::string_view type;
  void (*write)(NodeWriter&);
};
constexpr Row kRows[] = {
    {"Abs", unary},
    {"Add", same_name},
    {"AveragePool", pool},
    {"BatchNormalization", batch_norm},
    {"Clip", unary},
    {"Concat", concat},
    {"Conv", conv},
    {"ConvTranspose", conv_transpose},
    {"Div", same_name},
    {"Erf", unary},
    {"Exp", unary},
    {"Flatten", flatten},
    {"Gather", gather},
    {"Gelu", unary},
    {"GlobalAveragePool", global_pool},
    {"GlobalMaxPool", global_pool},
    {"GridSample", grid_sample},
    {"HardSigmoid", unary},
    {"HardSwish", unary},
    {"Identity", same_name},
    {"LSTM", lstm},
    {"LayerNormalization", layer_norm},
    {"LeakyRelu", unary},
    {"Log", unary},
    {"LogSoftmax", softmax},
    {"MatMul", matmul},
    {"Max", same_name},
    {"MaxPool", pool},
    {"Min", same_name},
    {"Mul", same_name},
    {"Neg", unary},
    {"Pad", pad},
    {"Pow", same_name},
    {"ReduceMax", reduce},
    {"ReduceMean", reduce},
    {"ReduceMin", reduce},
    {"ReduceSum", reduce},
    {"Relu", unary},
    {"Reshape", reshape},
    {"Resize", resize},
    {"Sigmoid", unary},
    {"Slice", same_name},
    {"Softmax", softmax},
    {"Split", split},
    {"Sqrt", unary},
    {"Squeeze", same_name},
    {"Sub", same_name},
    {"Swish", unary},
    {"Tanh", unary},
    {"Transpose", transpose},
    {"Unsqueeze", same_name},
};
static_assert(std::ranges::is_sorted(kRows, {}, &Row::type));

}  // namespace

std::vector<std::string> exported_ops() {
  std::vector<std::string> all;
  for (const Row& row : kRows) all.emplace_back(row.type);
  return all;
}

void NodeWriter::write(const Node& node) {
  node_ = &node;
  parts_ = written_ = 0;
  const auto row = std::ranges::lower_bound(kRows, node.op->type(), {}, &Row::type);
  if (row == std::end(kRows) || row->type != node.op->type()) fail("has no form in ONNX here");
  row->write(*this);
}

std::vector<std::string> NodeWriter::all_inputs() const {
  std::vector<std::string> all;
  for (size_t i = 0; i < inputs(); ++i) all.push_back(in(i));
  while (!all.empty() && all.back().empty()) all.pop_back();
  return all;
}

std::string NodeWriter::out(size_t i) const {
  const ValueId v = node_->outputs[i];
  return v == kNoValue ? "" : names_[static_cast<size_t>(v)];
}

std::string NodeWriter::initializer(const Tensor& tensor) {
  const std::string name = part("constant");
  write_tensor(tensor, name, *out_.add_initializer());
  return name;
}

NodeProto& NodeWriter::add(const char* type, const std::vector<std::string>& inputs,
                           const std::vector<std::string>& outputs) {
  NodeProto& n = *out_.add_node();
  n.set_op_type(type);
  n.set_name(written_++ == 0 ? node_->name : cat(node_->name, '/', type, written_));
  for (const std::string& i : inputs) n.add_input(i);
  for (const std::string& o : outputs) n.add_output(o);
  return n;
}

void NodeWriter::fail(const std::string& why) const {
  throw Error(cat("node '", node_->name, "' (", node_->op->describe(), ") ", why));
}

int onnx_type_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return onnx::TensorProto::FLOAT;
    case DType::kF64:
      return onnx::TensorProto::DOUBLE;
    case DType::kF16:
      return onnx::TensorProto::FLOAT16;
    case DType::kBF16:
      return onnx::TensorProto::BFLOAT16;
    case DType::kI8:
      return onnx::TensorProto::INT8;
    case DType::kU8:
      return onnx::TensorProto::UINT8;
    case DType::kI32:
      return onnx::TensorProto::INT32;
    case DType::kI64:
      return onnx::TensorProto::INT64;
    case DType::kBool:
      return onnx::TensorProto::BOOL;
  }
  throw Error("a type that ONNX does not have");
}

void write_tensor(const Tensor& tensor, const std::string& name, onnx::TensorProto& to) {
  static_assert(std::endian::native == std::endian::little, "raw_data is little-endian");
  to.set_name(name);
  to.set_data_type(onnx_type_of(tensor.dtype()));
  for (const int64_t d : tensor.shape()) to.add_dims(d);
  to.set_raw_data(tensor.raw(), tensor.bytes());
}

}  // namespace ocr
