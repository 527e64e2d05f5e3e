#include "libtrain/ops/chain.h"

#include <algorithm>

#include "libtrain/ops/common.h"
#include "libtrain/ops/nn.h"

namespace train {
namespace {

constexpr int64_t kWholeBytes = 384
                                << 10;  // between the steps: with this little, one after the other
constexpr int64_t kChunkBytes = 160 << 10;  // between the steps: well inside an L2 cache

// The packed objects of the second op beside those of the first.
class SecondPacks final : public PackCache {
 public:
  explicit SecondPacks(PackCache& packs) : packs_(packs) {}

 protected:
  std::shared_ptr<const void> get_any(int slot,
                                      FunctionRef<std::shared_ptr<const void>()> make) override {
    return packs_.get<void>(slot + (1 << 30), make);
  }

 private:
  PackCache& packs_;
};

// `rows` rows of an image as an image of its own.
ValueInfo rows_of(const ValueInfo& v, int64_t rows) {
  ValueInfo r = v;
  if (v.present && v.channels_last()) r.shape = Shape{1, v.shape[1], rows, v.shape[3]};
  return r;
}

}  // namespace

bool ChainOp::rowwise(const Op& op, const Shape& w) {
  if (w.rank() != 4) return false;
  const auto suits = [](const Window& win, int stride) {
    return win.strides == std::array<int, 2>{stride, stride} &&
           win.dilations == std::array<int, 2>{1, 1} && win.pads == std::array<int, 4>{} &&
           win.auto_pad == AutoPad::kNotSet;
  };
  if (const auto* conv = dynamic_cast<const ConvOp*>(&op))
    return conv->groups == 1 && w.count(2, 4) == 1 && suits(conv->window, 1);
  const auto* up = dynamic_cast<const ConvTransposeOp*>(&op);
  return up && up->groups == 1 && w[2] == 2 && w[3] == 2 && suits(up->window, 2) &&
         !up->output_shape && up->output_padding == std::array<int, 2>{0, 0};
}

std::string ChainOp::describe() const { return first->describe() + " + " + second->describe(); }

// The infos of each op; second[0] is what lies between.
struct ChainOp::Parts {
  std::vector<ValueInfo> first, second;
};

ChainOp::Parts ChainOp::parts(Infos inputs) const {
  Parts p;
  p.first.assign(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(first_inputs));
  p.second.resize(1);
  first->infer(p.first, p.second);
  p.second[0].layout = Layout::kChannelsLast;
  p.second[0].ld = p.second[0].shape[1];
  p.second.insert(p.second.end(), inputs.begin() + static_cast<std::ptrdiff_t>(first_inputs),
                  inputs.end());
  return p;
}

void ChainOp::infer(Infos inputs, std::span<ValueInfo> outputs) const {
  second->infer(parts(inputs).second, outputs);
}

LayoutChoice ChainOp::layouts(Infos inputs, Infos outputs) const {
  const Parts p = parts(inputs);
  LayoutChoice a = first->layouts(p.first, Infos(p.second).first(1));
  const LayoutChoice b = second->layouts(p.second, outputs);
  a.inputs.insert(a.inputs.end(), b.inputs.begin() + 1, b.inputs.end());
  a.outputs = b.outputs;
  return a;
}

bool ChainOp::by_image(Infos inputs) const {
  const Parts p = parts(inputs);
  return first->by_image(p.first) && second->by_image(p.second);
}

double ChainOp::flops(Infos inputs, Infos outputs) const {
  const Parts p = parts(inputs);
  return first->flops(p.first, Infos(p.second).first(1)) + second->flops(p.second, outputs);
}

namespace {

class ChainPlan final : public Plan {
 public:
  // Rows are those of x, over all images of the batch.
  int64_t rows, chunk, threads;
  size_t first_inputs, between_bytes, slot_bytes;
  ValueInfo between;
  std::unique_ptr<Plan> first, second;

  void run(Views in, Views out, void* workspace) const override {
    char* const memory = static_cast<char*>(workspace);
    const int64_t parts = std::min(threads, rows);
    if (chunk >= rows) return run_rows(in, out, 0, rows, memory);
    parallel_for(parts, 1, [&](int64_t a, int64_t b) {
      for (int64_t part = a; part < b; ++part)
        for (int64_t r = rows * part / parts, end = rows * (part + 1) / parts; r < end; r += chunk)
          run_rows(in, out, r, std::min(chunk, end - r),
                   memory + static_cast<size_t>(part) * slot_bytes);
    });
  }

 private:
  // Rows [r, r + count) of x and what comes of them.
  void run_rows(Views in, Views out, int64_t r, int64_t count, char* memory) const {
    ValueInfo infos[kMost + 2];
    View views[kMost + 2];
    const size_t n = in.size();
    for (size_t i = 0; i <= n; ++i) views[i] = slice(i < n ? in[i] : out[0], r, count, infos[i]);
    View& mid = views[n + 1];
    infos[n + 1] = rows_of(between, count * between.shape[2] * between.shape[0] / rows);
    mid = {memory, &infos[n + 1]};
    first->run(Views(views, first_inputs), {&mid, 1}, memory + between_bytes);
    View rest[kMost];
    rest[0] = mid;
    std::copy(views + first_inputs, views + n, rest + 1);
    second->run(Views(rest, n - first_inputs + 1), {&views[n], 1}, memory + between_bytes);
  }

  View slice(const View& v, int64_t r, int64_t count, ValueInfo& info) const {
    info = *v.info;
    if (!v.data || !info.channels_last()) return {v.data, &info};
    const Shape& s = v.info->shape;
    const int64_t factor = s[0] * s[2] / rows;  // rows of it per row of x
    info = rows_of(*v.info, count * factor);
    return {v.as<float>() + r * factor * s[3] * pixel_stride(*v.info), &info};
  }

 public:
  static constexpr size_t kMost = 8;  // inputs
};

}  // namespace

std::unique_ptr<Plan> ChainOp::plan(Infos inputs, Infos outputs, PackCache& packs) const {
  require(inputs.size() <= ChainPlan::kMost, "a chain of too many inputs");
  const Parts p = parts(inputs);
  const ValueInfo& mid = p.second[0];
  const Shape& x = inputs[0].shape;
  auto plan = std::make_unique<ChainPlan>();
  plan->rows = x[0] * x[2];
  plan->threads = current_threads();
  plan->first_inputs = first_inputs;
  plan->between = mid;
  const int64_t bytes = mid.shape.numel() * 4, row_bytes = bytes / plan->rows;
  plan->chunk = bytes <= kWholeBytes ? plan->rows : std::max<int64_t>(1, kChunkBytes / row_bytes);
  plan->between_bytes =
      static_cast<size_t>((std::min(plan->chunk, plan->rows) * row_bytes + 127) / 64 * 64);
  SecondPacks second_packs(packs);
  plan->first = first->plan(p.first, Infos(p.second).first(1), packs);
  plan->second = second->plan(p.second, outputs, second_packs);
  plan->slot_bytes =
      plan->between_bytes +
      (std::max(plan->first->workspace_bytes, plan->second->workspace_bytes) + 63) / 64 * 64;
  plan->workspace_bytes =
      plan->slot_bytes * static_cast<size_t>(plan->chunk < plan->rows ? plan->threads : 1);
  return plan;
}

}  // namespace train
