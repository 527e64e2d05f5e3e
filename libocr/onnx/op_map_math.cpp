// Rows of the operator table: element-wise functions, variadic ones, reductions.
#include <limits>

#include "libocr/onnx/op_map.h"
#include "libtrain/ops/move.h"
#include "libtrain/ops/nn.h"
#include "libtrain/ops/reduce.h"
#include "libtrain/ops/shape_ops.h"
#include "libtrain/ops/unary_math.h"

namespace ocr {
namespace {

using namespace train;  // NOLINT: the table speaks of little else
using cpu::Act;

// ---- Functions of one tensor

void finish_unary(NodeBuilder& b, Act kind, float alpha = 0, float beta = 0) {
  b.finish(std::make_shared<UnaryOp>(b.node.op_type(), cpu::Activation{kind, alpha, beta}),
           {b.in(0)});
}

template <Act kKind>
void unary(NodeBuilder& b) {
  finish_unary(b, kKind);
}

// One with attributes alpha and beta; their defaults in thousandths.
template <Act kKind, int kAlpha, int kBeta = 0>
void unary_alpha(NodeBuilder& b) {
  finish_unary(b, kKind, b.attr_float("alpha", kAlpha / 1000.f),
               b.attr_float("beta", kBeta / 1000.f));
}

void selu(NodeBuilder& b) {
  finish_unary(b, Act::kSelu, b.attr_float("alpha", 1.67326319217681884765625f),
               b.attr_float("gamma", 1.05070102214813232421875f));
}

void hard_swish(NodeBuilder& b) { finish_unary(b, Act::kHardSwish, 1.f / 6, .5f); }

void gelu(NodeBuilder& b) {
  const std::string how = b.attr_string("approximate", "none");
  if (how != "none" && how != "tanh") b.fail("approximate '" + how.substr(0, 40) + "' is unknown");
  finish_unary(b, how == "tanh" ? Act::kGeluTanh : Act::kGelu);
}

void shrink(NodeBuilder& b) {
  const float bias = b.attr_float("bias", 0), lambda = b.attr_float("lambd", .5f);
  const ValueId x = b.in(0);
  const ValueId low = b.make<BinaryOp>({x, b.scalar(-lambda)}, BinaryKind::kLess);
  const ValueId high = b.make<BinaryOp>({x, b.scalar(lambda)}, BinaryKind::kGreater);
  const ValueId up = b.make<BinaryOp>({x, b.scalar(bias)}, BinaryKind::kAdd);
  const ValueId down = b.make<BinaryOp>({x, b.scalar(bias)}, BinaryKind::kSub);
  const ValueId upper = b.make<WhereOp>({high, down, b.scalar(0)});
  b.finish(std::make_shared<WhereOp>(), {low, up, upper});
}

template <MathKind kKind>
void math(NodeBuilder& b) {
  b.finish(std::make_shared<MathOp>(kKind), {b.in(0)});
}

void is_inf(NodeBuilder& b) {
  b.finish(std::make_shared<MathOp>(MathKind::kIsInf, b.attr_int("detect_negative", 1) != 0,
                                    b.attr_int("detect_positive", 1) != 0),
           {b.in(0)});
}

// ---- Clip

void add_clip(NodeBuilder& b, float low, float high) {
  b.finish(std::make_shared<UnaryOp>("Clip", cpu::clip(low, high)), {b.in(0)});
}

void clip_6(NodeBuilder& b) {
  add_clip(b, b.attr_float("min", std::numeric_limits<float>::lowest()),
           b.attr_float("max", std::numeric_limits<float>::max()));
}

void clip_11(NodeBuilder& b) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  const auto low = b.has(1) ? b.constant_float(b.in(1)) : -inf;
  const auto high = b.has(2) ? b.constant_float(b.in(2)) : inf;
  if (low && high && *low <= *high && b.dtype(b.in(0)) == DType::kF32)
    return add_clip(b, *low, *high);
  ValueId x = b.in(0);
  if (!b.has(1) && !b.has(2)) return b.finish(std::make_shared<IdentityOp>(), {x});
  if (b.has(1) && b.has(2)) x = b.make<BinaryOp>({x, b.in(1)}, BinaryKind::kMax);
  b.finish(std::make_shared<BinaryOp>(b.has(2) ? BinaryKind::kMin : BinaryKind::kMax),
           {x, b.has(2) ? b.in(2) : b.in(1)});
}

// ---- Functions of two and more tensors

template <BinaryKind kKind>
void binary(NodeBuilder& b) {
  b.finish(std::make_shared<BinaryOp>(kKind), {b.in(0), b.in(1)});
}

void mod(NodeBuilder& b) {
  b.finish(std::make_shared<BinaryOp>(b.attr_int("fmod", 0) ? BinaryKind::kFmod : BinaryKind::kMod),
           {b.in(0), b.in(1)});
}

template <BinaryKind kKind, bool kMean = false>
void variadic(NodeBuilder& b) {
  ValueId sum = b.in(0);
  const int last = b.inputs() - 1;
  if (last == 0) return b.finish(std::make_shared<IdentityOp>(), {sum});
  for (int i = 1; i <= last; ++i) {
    if (i == last && !kMean) return b.finish(std::make_shared<BinaryOp>(kKind), {sum, b.in(i)});
    sum = b.make<BinaryOp>({sum, b.in(i)}, kKind);
  }
  b.finish(std::make_shared<BinaryOp>(BinaryKind::kDiv),
           {sum, b.scalar(static_cast<float>(last + 1))});
}

// ---- Reductions

// Axes as an attribute.
template <ReduceKind kKind>
void reduce_attr(NodeBuilder& b) {
  const ValueId axes = b.has_attr("axes") ? b.ints(b.attr_ints("axes")) : kNoValue;
  b.finish(std::make_shared<ReduceOp>(kKind, b.attr_int("keepdims", 1) != 0), {b.in(0), axes});
}

// Axes as an input.
template <ReduceKind kKind>
void reduce(NodeBuilder& b) {
  b.finish(std::make_shared<ReduceOp>(kKind, b.attr_int("keepdims", 1) != 0,
                                      b.attr_int("noop_with_empty_axes", 0) != 0),
           {b.in(0), b.opt(1)});
}

template <bool kMax>
void arg_extreme(NodeBuilder& b) {
  b.finish(
      std::make_shared<ArgExtremeOp>(kMax, b.attr_int("axis", 0), b.attr_int("keepdims", 1) != 0,
                                     b.attr_int("select_last_index", 0) != 0),
      {b.in(0)});
}

void top_k(NodeBuilder& b) {
  const ValueId k = b.opset < 10 ? b.ints({b.attr_int("k", 0)}) : b.in(1);
  b.add(std::make_shared<TopKOp>(b.attr_int("axis", -1), b.attr_int("largest", 1) != 0),
        {b.in(0), k}, {b.out(0), b.out(1)});
}

void cum_sum(NodeBuilder& b) {
  b.finish(
      std::make_shared<CumSumOp>(b.attr_int("exclusive", 0) != 0, b.attr_int("reverse", 0) != 0),
      {b.in(0), b.in(1)});
}

template <ReduceKind kKind>
void add_reduce_rows(std::vector<OpRow>& rows, const char* name, int axes_input_since) {
  rows.push_back({name, 1, reduce_attr<kKind>});
  rows.push_back({name, axes_input_since, reduce<kKind>});
}

}  // namespace

std::vector<OpRow> math_rows() {
  std::vector<OpRow> rows = {
      {"Relu", 6, unary<Act::kRelu>},
      {"LeakyRelu", 6, unary_alpha<Act::kLeakyRelu, 10>},
      {"Sigmoid", 6, unary<Act::kSigmoid>},
      {"HardSigmoid", 6, unary_alpha<Act::kHardSigmoid, 200, 500>},
      {"HardSwish", 14, hard_swish},
      {"Swish", 24, unary_alpha<Act::kSwish, 1000>},
      {"Tanh", 6, unary<Act::kTanh>},
      {"Gelu", 20, gelu},
      {"Elu", 6, unary_alpha<Act::kElu, 1000>},
      {"Selu", 6, selu},
      {"Celu", 12, unary_alpha<Act::kCelu, 1000>},
      {"Softplus", 1, unary<Act::kSoftplus>},
      {"Softsign", 1, unary<Act::kSoftsign>},
      {"ThresholdedRelu", 10, unary_alpha<Act::kThresholdedRelu, 1000>},
      {"Mish", 18, unary<Act::kMish>},
      {"Shrink", 9, shrink},
      {"Erf", 9, unary<Act::kErf>},
      {"Exp", 6, unary<Act::kExp>},
      {"Log", 6, unary<Act::kLog>},
      {"Sqrt", 6, unary<Act::kSqrt>},
      {"Abs", 6, unary<Act::kAbs>},
      {"Neg", 6, unary<Act::kNeg>},
      {"Reciprocal", 6, unary<Act::kReciprocal>},
      {"Floor", 6, unary<Act::kFloor>},
      {"Ceil", 6, unary<Act::kCeil>},
      {"Round", 11, unary<Act::kRound>},
      {"Sign", 9, unary<Act::kSign>},
      {"Sin", 7, math<MathKind::kSin>},
      {"Cos", 7, math<MathKind::kCos>},
      {"Tan", 7, math<MathKind::kTan>},
      {"Asin", 7, math<MathKind::kAsin>},
      {"Acos", 7, math<MathKind::kAcos>},
      {"Atan", 7, math<MathKind::kAtan>},
      {"Sinh", 9, math<MathKind::kSinh>},
      {"Cosh", 9, math<MathKind::kCosh>},
      {"Asinh", 9, math<MathKind::kAsinh>},
      {"Acosh", 9, math<MathKind::kAcosh>},
      {"Atanh", 9, math<MathKind::kAtanh>},
      {"Not", 1, math<MathKind::kNot>},
      {"IsNaN", 9, math<MathKind::kIsNaN>},
      {"IsInf", 10, is_inf},
      {"Clip", 6, clip_6},
      {"Clip", 11, clip_11},
      {"Add", 7, binary<BinaryKind::kAdd>},
      {"Sub", 7, binary<BinaryKind::kSub>},
      {"Mul", 7, binary<BinaryKind::kMul>},
      {"Div", 7, binary<BinaryKind::kDiv>},
      {"Pow", 7, binary<BinaryKind::kPow>},
      {"PRelu", 7, binary<BinaryKind::kPRelu>},
      {"Mod", 10, mod},
      {"Equal", 7, binary<BinaryKind::kEqual>},
      {"Less", 7, binary<BinaryKind::kLess>},
      {"LessOrEqual", 12, binary<BinaryKind::kLessOrEqual>},
      {"Greater", 7, binary<BinaryKind::kGreater>},
      {"GreaterOrEqual", 12, binary<BinaryKind::kGreaterOrEqual>},
      {"And", 7, binary<BinaryKind::kAnd>},
      {"Or", 7, binary<BinaryKind::kOr>},
      {"Xor", 7, binary<BinaryKind::kXor>},
      {"Sum", 6, variadic<BinaryKind::kAdd>},
      {"Mean", 6, variadic<BinaryKind::kAdd, true>},
      {"Max", 6, variadic<BinaryKind::kMax>},
      {"Min", 6, variadic<BinaryKind::kMin>},
      {"ArgMax", 1, arg_extreme<true>},
      {"ArgMin", 1, arg_extreme<false>},
      {"TopK", 1, top_k},
      {"CumSum", 11, cum_sum},
  };
  add_reduce_rows<ReduceKind::kSum>(rows, "ReduceSum", 13);
  add_reduce_rows<ReduceKind::kMean>(rows, "ReduceMean", 18);
  add_reduce_rows<ReduceKind::kMax>(rows, "ReduceMax", 18);
  add_reduce_rows<ReduceKind::kMin>(rows, "ReduceMin", 18);
  add_reduce_rows<ReduceKind::kProd>(rows, "ReduceProd", 18);
  add_reduce_rows<ReduceKind::kSumSquare>(rows, "ReduceSumSquare", 18);
  add_reduce_rows<ReduceKind::kL1>(rows, "ReduceL1", 18);
  add_reduce_rows<ReduceKind::kL2>(rows, "ReduceL2", 18);
  add_reduce_rows<ReduceKind::kLogSum>(rows, "ReduceLogSum", 18);
  add_reduce_rows<ReduceKind::kLogSumExp>(rows, "ReduceLogSumExp", 18);
  return rows;
}

}  // namespace ocr
