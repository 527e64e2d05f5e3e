#include "libtrain/graph/evaluate.h"

#include <algorithm>

#include "libtrain/cpu/layout.h"

namespace train {
namespace {

Tensor to_channels_last(const Tensor& t) {
  const Shape& s = t.shape();
  Tensor out(s, DType::kF32);
  cpu::nchw_to_nhwc(t.data<float>(), s[0], s[1], s[2] * s[3], out.data<float>(), s[1]);
  return out;
}

Tensor to_linear(const Tensor& t) {
  const Shape& s = t.shape();
  Tensor out(s, DType::kF32);
  cpu::nhwc_to_nchw(t.data<float>(), s[1], s[0], s[1], s[2] * s[3], out.data<float>());
  return out;
}

void set_layout(ValueInfo& v, Layout layout) {
  v.layout = layout;
  v.ld = layout == Layout::kChannelsLast ? v.shape[1] : 0;
}

}  // namespace

std::vector<Tensor> evaluate_op(const Op& op, std::vector<ValueInfo> in, std::vector<ValueInfo> out,
                                PackCache& packs) {
  for (ValueInfo& v : in) set_layout(v, Layout::kLinear);
  std::vector<Tensor> results;
  for (const ValueInfo& v : out) results.emplace_back(v.shape, v.dtype);
  if (op.is_view()) {
    std::copy_n(static_cast<const char*>(in[0].constant->raw()), results[0].bytes(),
                static_cast<char*>(results[0].raw()));
    return results;
  }
  const LayoutChoice choice = op.layouts(in, out);
  std::vector<Tensor> converted(in.size());  // kept alive while the plan runs
  std::vector<View> inputs, outputs;
  for (size_t i = 0; i < in.size(); ++i) {
    void* data = in[i].present && in[i].constant ? in[i].constant->raw() : nullptr;
    if (data && choice.inputs[i] == Layout::kChannelsLast) {
      converted[i] = to_channels_last(*in[i].constant);
      data = converted[i].raw();
      set_layout(in[i], Layout::kChannelsLast);
    }
    inputs.push_back({data, &in[i]});
  }
  for (size_t i = 0; i < out.size(); ++i) {
    set_layout(out[i], choice.outputs[i]);
    outputs.push_back({results[i].raw(), &out[i]});
  }
  const auto plan = op.plan(in, out, packs);
  const Storage workspace(plan->workspace_bytes);
  plan->run(inputs, outputs, workspace.data());
  for (size_t i = 0; i < out.size(); ++i)
    if (out[i].channels_last()) results[i] = to_linear(results[i]);
  return results;
}

}  // namespace train
