// Builds an Instance: walks the nodes in order, evaluates what is constant, chooses layouts, shares
// buffers between views and in-place steps, and gives every buffer its place in the arena.
#include <algorithm>
#include <array>

#include "libtrain/cpu/layout.h"
#include "libtrain/graph/arena.h"
#include "libtrain/graph/by_image.h"
#include "libtrain/graph/evaluate.h"
#include "libtrain/graph/instance.h"
#include "libtrain/ops/broadcast.h"

namespace train {
namespace {

constexpr int64_t kMaxConstantBytes = int64_t{1}
                                      << 28;  // what evaluating constants may make per instance
constexpr size_t kAlign = 64;

// One value while building: what it is and where it lies in each layout it was asked for.
struct Known {
  bool ready = false;
  ValueInfo info;                  // in the layout it was made in
  std::array<Location, 2> places;  // by Layout; kNone where not made
  int uses_left = 0;
};

// Layout changes of f32 images.
std::unique_ptr<Plan> reorder_plan(Layout to) {
  return make_plan([to](Views in, Views out, void*) {
    const Shape& s = in[0].shape();
    const auto* x = in[0].as<float>();
    auto* y = out[0].as<float>();
    const int64_t hw = s[2] * s[3];
    if (to == Layout::kChannelsLast)
      cpu::nchw_to_nhwc(x, s[0], s[1], hw, y, s[1]);
    else
      cpu::nhwc_to_nchw(x, in[0].info->ld, s[0], s[1], hw, y);
  });
}

}  // namespace

class InstanceBuilder {
 public:
  InstanceBuilder(Instance& instance, const Graph& graph, const NetOptions& options,
                  std::span<const Feed> feeds, PackStore& packs, bool by_image)
      : out_(instance),
        graph_(graph),
        options_(options),
        feeds_(feeds),
        packs_(packs),
        by_image_(by_image),
        known_(graph.values.size()) {}

  void build() {
    count_uses();
    take_inputs();
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      try {
        add_node(i);
      } catch (const ShapeError& e) {
        const Node& n = graph_.nodes[i];
        throw ShapeError(cat("node '", n.name, "' (", n.op->type(), "): ", e.what()));
      }
    }
    take_outputs();
    place_concat_parts();
    if (by_image_) {
      std::vector<Location> kept = out_.feed_places_;
      kept.insert(kept.end(), out_.output_places_.begin(), out_.output_places_.end());
      group_by_image(out_.steps_, buffers_, kept);
    }
    lay_out();
  }

 private:
  void count_uses() {
    for (const Node& n : graph_.nodes)
      for (ValueId v : n.inputs)
        if (v != kNoValue) ++known_[v].uses_left;
    for (ValueId v : graph_.outputs)
      known_[v].uses_left += 1 << 20;  // outputs are never overwritten
    for (size_t v = 0; v < graph_.values.size(); ++v)
      if (graph_.values[v].constant)
        set_constant(static_cast<ValueId>(v), *graph_.values[v].constant);
  }

  void set_constant(ValueId v, Tensor t) {
    Known& k = known_[v];
    k.ready = true;
    k.info = ValueInfo(t.shape(), t.dtype());
    k.places[0] = {Location::kConstant, static_cast<int>(out_.constants_.size()), 0};
    out_.constants_.push_back(std::move(t));
  }

  void take_inputs() {
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      Known& k = known_[graph_.inputs[i].value];
      k.ready = true;
      k.info = ValueInfo(feeds_[i].tensor.shape(), feeds_[i].tensor.dtype());
      k.info.layout = feeds_[i].layout;
      if (k.info.channels_last()) k.info.ld = k.info.shape[1];
      const Location place = feeds_[i].in_arena ? new_place(k.info)
                                                : Location{Location::kFeed, static_cast<int>(i), 0};
      k.places[static_cast<int>(k.info.layout)] = place;
      out_.feed_places_.push_back(place);
      k.uses_left += 1 << 20;  // the caller's memory is not ours to overwrite
    }
  }

  int new_buffer(size_t bytes) {
    buffers_.push_back(
        {bytes, static_cast<int>(out_.steps_.size()), static_cast<int>(out_.steps_.size())});
    return static_cast<int>(buffers_.size()) - 1;
  }

  Location new_place(const ValueInfo& info) {
    return {Location::kArena,
            new_buffer(static_cast<size_t>(info.shape.numel()) * size_of(info.dtype)), 0};
  }

  // `v` in `layout`, adding a reorder step (or an evaluated copy of a constant) when it does not
  // lie so yet.
  Location place_in(ValueId v, Layout layout) {
    Known& k = known_[v];
    Location& wanted = k.places[static_cast<int>(layout)];
    if (wanted.kind != Location::kNone) return wanted;
    const Location have = k.places[1 - static_cast<int>(layout)];
    if (same_in_both_layouts(k.info.shape) &&
        (!k.info.channels_last() || k.info.ld == k.info.shape[1])) {
      wanted = have;
      return wanted;
    }
    if (k.info.dtype != DType::kF32 || k.info.shape.rank() != 4)
      throw ShapeError(
          cat("cannot change the layout of ", k.info.shape.str(), " of ", name_of(k.info.dtype)));
    Step s;
    s.infos = {in_layout(k.info, static_cast<Layout>(1 - static_cast<int>(layout))),
               in_layout(k.info, layout)};
    s.plan = reorder_plan(layout);
    s.inputs = 1;
    if (have.kind == Location::kConstant) {
      Tensor t(k.info.shape, DType::kF32);
      const View in{out_.constants_[have.index].raw(), &s.infos[0]}, out{t.raw(), &s.infos[1]};
      s.plan->run({&in, 1}, {&out, 1}, nullptr);
      wanted = {Location::kConstant, static_cast<int>(out_.constants_.size()), 0};
      out_.constants_.push_back(std::move(t));
      return wanted;
    }
    wanted = new_place(s.infos[1]);
    s.places = {have, wanted};
    if (by_image_ && k.info.shape[0] > 1) s.image_plan = reorder_plan(layout);
    add_step(std::move(s));
    return wanted;
  }

  static ValueInfo in_layout(ValueInfo info, Layout layout) {
    info.layout = layout;
    info.ld = layout == Layout::kChannelsLast ? info.shape[1] : 0;
    info.constant = nullptr;
    return info;
  }

  void add_step(Step s) {
    const int now = static_cast<int>(out_.steps_.size());
    for (const Location& p : s.places)
      if (p.kind == Location::kArena) buffers_[p.index].last = now;
    workspace_ = std::max(workspace_, s.plan->workspace_bytes);
    if (s.image_plan) workspace_ = std::max(workspace_, s.image_plan->workspace_bytes);
    out_.steps_.push_back(std::move(s));
  }

  void add_node(size_t index) {
    const Node& n = graph_.nodes[index];
    std::vector<ValueInfo> in, out(n.outputs.size());
    bool constant = true;
    for (ValueId v : n.inputs) {
      in.push_back(v == kNoValue ? ValueInfo::absent() : info_of(v));
      if (v != kNoValue && !in.back().constant) constant = false;
    }
    n.op->infer(in, out);
    for (const ValueInfo& o : out)  // before a plan takes memory in proportion
      if (o.shape.numel() * static_cast<int64_t>(size_of(o.dtype)) > options_.max_arena_bytes)
        throw ShapeError(cat("its result of shape ", o.shape.str(),
                             " needs more than the limit of ", options_.max_arena_bytes >> 20,
                             " MiB"));
    if (constant || !n.op->reads_data()) {
      evaluate(index, in, out);
    } else {
      plan_step(index, std::move(in), std::move(out));
    }
    for (ValueId v : n.inputs)
      if (v != kNoValue) --known_[v].uses_left;
  }

  ValueInfo info_of(ValueId v) const {
    const Known& k = known_[v];
    ValueInfo info = k.info;
    if (k.places[0].kind == Location::kConstant)
      info.constant = &out_.constants_[k.places[0].index];
    return info;
  }

  void evaluate(size_t index, const std::vector<ValueInfo>& in, std::vector<ValueInfo>& out) {
    const Node& n = graph_.nodes[index];
    for (const ValueInfo& o : out)
      constant_bytes_ += o.shape.numel() * static_cast<int64_t>(size_of(o.dtype));
    if (constant_bytes_ > kMaxConstantBytes)
      throw ShapeError("its constant results need too much memory");
    std::vector<Tensor> results = evaluate_op(*n.op, in, out, packs_.of(index));
    for (size_t i = 0; i < out.size(); ++i)
      if (n.outputs[i] != kNoValue) set_constant(n.outputs[i], std::move(results[i]));
  }

  void plan_step(size_t index, std::vector<ValueInfo> in, std::vector<ValueInfo> out) {
    const Node& n = graph_.nodes[index];
    const LayoutChoice choice = n.op->layouts(in, out);
    Step s;
    s.node = &n;
    s.inputs = in.size();
    for (size_t i = 0; i < in.size(); ++i) {
      Location place;
      if (in[i].present) {
        // A constant that the op reads at planning time (weights) keeps its pointer and its linear
        // order.
        place = place_in(n.inputs[i], choice.inputs[i]);
        const Tensor* constant = in[i].constant;
        if (in[i].layout != choice.inputs[i] || in[i].channels_last())
          in[i] = relayout(n.inputs[i], choice.inputs[i]);
        in[i].constant = constant;
      }
      s.places.push_back(place);
    }
    for (size_t i = 0; i < out.size(); ++i) {
      if (choice.outputs[i] == Layout::kChannelsLast)
        out[i] = in_layout(out[i], Layout::kChannelsLast);
      s.places.push_back(output_place(n, s, in, out, i));
    }
    for (size_t i = 0; i < out.size(); ++i) {
      if (n.outputs[i] == kNoValue) continue;
      Known& k = known_[n.outputs[i]];
      k.ready = true;
      k.info = out[i];
      k.places[static_cast<int>(out[i].layout)] = s.places[s.inputs + i];
    }
    if (n.op->is_view()) {
      touch(s);
      return;
    }
    s.plan = n.op->plan(in, out, packs_.of(index));
    s.flops = n.op->flops(in, out);
    if (by_image_ && n.op->by_image(in) && out.size() == 1) {
      std::vector<ValueInfo> all = in;
      all.push_back(out[0]);
      const auto one = infos_of_one_image(all, s.places);
      if (!one.empty())
        s.image_plan =
            n.op->plan(std::span(one).first(in.size()), std::span(one).last(1), packs_.of(index));
    }
    for (ValueInfo& i : in)
      i.constant = nullptr;  // plans have taken what they need; the pointers may move
    s.infos = std::move(in);
    s.infos.insert(s.infos.end(), out.begin(), out.end());
    add_step(std::move(s));
  }

  // The info of `v` as it lies in `layout` (its pixel stride may differ from C only in the layout
  // it was made in).
  ValueInfo relayout(ValueId v, Layout layout) const {
    const ValueInfo& made = known_[v].info;
    return made.layout == layout ? made : in_layout(made, layout);
  }

  // A view keeps its buffer alive as long as the view is used.
  void touch(const Step& s) {
    for (const Location& p : s.places)
      if (p.kind == Location::kArena) buffers_[p.index].last = static_cast<int>(out_.steps_.size());
  }

  Location output_place(const Node& n, const Step& s, const std::vector<ValueInfo>& in,
                        const std::vector<ValueInfo>& out, size_t i) {
    if (i == 0 && n.op->is_view()) {
      merge_uses(n.inputs[0], n.outputs[0]);
      return s.places[0];
    }
    if (i == 0) {
      for (size_t j = 0; j < in.size(); ++j) {
        if (s.places[j].kind != Location::kArena || !n.op->may_overwrite(static_cast<int>(j)))
          continue;
        if (in[j].shape != out[0].shape || in[j].dtype != out[0].dtype ||
            in[j].layout != out[0].layout)
          continue;
        if (in[j].channels_last() && in[j].ld != in[j].shape[1]) continue;
        if (buffer_uses(n.inputs[j]) == 1) return s.places[j];
      }
    }
    return new_place(out[i]);
  }

  // Uses still to come of a value, views of it included. Values that share a buffer through views
  // form a group.
  int buffer_uses(ValueId v) const {
    const int g = group(v);
    int uses = 0;
    for (const auto& [member, root] : groups_)
      if (root == g) uses += known_[member].uses_left;
    return g == v && uses == 0 ? known_[v].uses_left : uses;
  }
  int group(ValueId v) const {
    for (const auto& [member, root] : groups_)
      if (member == v) return root;
    return v;
  }
  void merge_uses(ValueId from, ValueId to) {
    const int g = group(from);
    if (g == from && std::ranges::none_of(groups_, [&](const auto& p) { return p.first == from; }))
      groups_.push_back({from, from});
    groups_.push_back({to, g});
  }

  void take_outputs() {
    for (ValueId v : graph_.outputs) {
      const Location place = place_in(v, Layout::kLinear);
      out_.output_infos_.push_back(in_layout(known_[v].info, Layout::kLinear));
      out_.output_places_.push_back(place);
    }
    for (const Location& place : out_.output_places_)  // beyond the reorders of other outputs
      if (place.kind == Location::kArena)
        buffers_[place.index].last = static_cast<int>(out_.steps_.size());
  }

  // A channel concat of images costs nothing when its inputs are written straight into its output:
  // done for inputs whose producer can write with a pixel stride and which nothing else reads. The
  // concat skips the parts that lie in place.
  void place_concat_parts() {
    for (size_t c = 0; c < out_.steps_.size(); ++c) {
      Step& concat = out_.steps_[c];
      if (!concat.node || concat.node->op->type() != "Concat" ||
          !concat.infos.back().channels_last())
        continue;
      const Location whole = concat.places.back();
      const ValueInfo& total = concat.infos.back();
      if (whole.kind != Location::kArena) continue;
      size_t channel = 0;
      for (size_t i = 0; i < concat.inputs; ++i) {
        const size_t offset = whole.offset + channel * size_of(total.dtype);
        channel += static_cast<size_t>(concat.infos[i].shape[1]);
        Step* producer = sole_producer(concat.places[i], c);
        if (!producer) continue;
        buffers_[concat.places[i].index].bytes = 0;
        const Location part{Location::kArena, whole.index, offset};
        producer->places[producer->inputs] = concat.places[i] = part;
        producer->infos[producer->inputs].ld = concat.infos[i].ld = total.ld;
        auto& buffer = buffers_[whole.index];
        buffer.first = std::min(buffer.first, static_cast<int>(producer - out_.steps_.data()));
      }
    }
  }

  // The step that writes the buffer at `place`, when it can write strided and only step `reader`
  // reads it.
  Step* sole_producer(const Location& place, size_t reader) {
    if (place.kind != Location::kArena || place.offset != 0) return nullptr;
    Step* producer = nullptr;
    for (size_t i = 0; i < out_.steps_.size(); ++i) {
      Step& s = out_.steps_[i];
      for (size_t p = 0; p < s.places.size(); ++p) {
        if (s.places[p].kind != Location::kArena || s.places[p].index != place.index) continue;
        if (p < s.inputs) {
          if (i != reader) return nullptr;
        } else if (producer || !s.node || p != s.inputs || !s.node->op->strided_output() ||
                   !s.infos[p].channels_last()) {
          return nullptr;
        } else {
          producer = &s;
        }
      }
    }
    size_t reads = 0;
    for (size_t p = 0; p < out_.steps_[reader].inputs; ++p)
      reads += out_.steps_[reader].places[p].kind == Location::kArena &&
               out_.steps_[reader].places[p].index == place.index;
    for (const Location& o : out_.output_places_)
      if (o.kind == Location::kArena && o.index == place.index) return nullptr;
    return reads == 1 ? producer : nullptr;
  }

  void lay_out() {
    ArenaLayout layout = pack_arena(buffers_, kAlign);
    out_.buffer_offsets_ = std::move(layout.offsets);
    out_.arena_bytes_ = layout.bytes + workspace_;
    for (Step& s : out_.steps_) s.workspace = layout.bytes;
    if (static_cast<int64_t>(out_.arena_bytes_) > options_.max_arena_bytes)
      throw ShapeError(cat("this input needs ", out_.arena_bytes_ >> 20,
                           " MiB of working memory, more than the limit of ",
                           options_.max_arena_bytes >> 20, " MiB"));
  }

  Instance& out_;
  const Graph& graph_;
  const NetOptions& options_;
  std::span<const Feed> feeds_;
  PackStore& packs_;
  const bool by_image_;
  std::vector<Known> known_;
  std::vector<ArenaBuffer> buffers_;
  std::vector<std::pair<ValueId, ValueId>> groups_;  // value -> the value whose buffer it views
  size_t workspace_ = 0;
  int64_t constant_bytes_ = 0;
};

// Several threads have more to share in a whole batch.
Instance::Instance(const Net& net, std::span<const Feed> feeds, PackStore& packs, bool whole)
    : graph_(&net.graph_) {
  InstanceBuilder(*this, net.graph_, net.options_, feeds, packs, !whole && current_threads() == 1)
      .build();
}

}  // namespace train
