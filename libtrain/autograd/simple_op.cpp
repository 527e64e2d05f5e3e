#include "libtrain/autograd/simple_op.h"

namespace train {
namespace {

class SimpleOp final : public Op {
 public:
  SimpleOp(std::string type, OpLayout layout, InferFn infer, PlanFn plan)
      : type_(std::move(type)), layout_(layout), infer_(std::move(infer)), plan_(std::move(plan)) {}
  std::string_view type() const override { return type_; }
  void infer(Infos inputs, std::span<ValueInfo> outputs) const override { infer_(inputs, outputs); }
  LayoutChoice layouts(Infos inputs, Infos outputs) const override {
    LayoutChoice c = Op::layouts(inputs, outputs);
    if (layout_ == OpLayout::kLinear) return c;
    if (layout_ == OpLayout::kFollow && !inputs[0].channels_last()) return c;
    for (size_t i = 0; i < inputs.size(); ++i) c.inputs[i] = image_layout(inputs[i]);
    for (size_t i = 0; i < outputs.size(); ++i) c.outputs[i] = image_layout(outputs[i]);
    return c;
  }
  std::unique_ptr<Plan> plan(Infos inputs, Infos outputs, PackCache&) const override {
    return plan_(inputs, outputs);
  }

 private:
  static Layout image_layout(const ValueInfo& v) {
    return v.shape.rank() == 4 && v.dtype == DType::kF32 ? Layout::kChannelsLast : Layout::kLinear;
  }
  std::string type_;
  OpLayout layout_;
  InferFn infer_;
  PlanFn plan_;
};

}  // namespace

std::shared_ptr<const Op> make_op(std::string type, OpLayout layout, InferFn infer, PlanFn plan) {
  return std::make_shared<SimpleOp>(std::move(type), layout, std::move(infer), std::move(plan));
}

InferFn shape_of_input(size_t i) {
  return [i](Infos inputs, std::span<ValueInfo> outputs) {
    outputs[0] = ValueInfo(inputs[i].shape, DType::kF32);
  };
}

}  // namespace train
