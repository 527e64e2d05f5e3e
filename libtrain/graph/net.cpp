#include "libtrain/graph/net.h"

#include <time.h>

#include <algorithm>
#include <list>
#include <mutex>

#include "libtrain/cpu/layout.h"
#include "libtrain/graph/instance.h"
#include "libtrain/graph/passes.h"

namespace train {
namespace {

// Input shapes, types and layouts, and the thread count that workspaces were sized for.
using Key = std::vector<int64_t>;

void key_of(std::span<const Feed> feeds, bool whole, Key& key) {
  key.assign(1, current_threads() * 2 + whole);
  for (const Feed& f : feeds) {
    key.push_back(static_cast<int64_t>(f.tensor.dtype()) * 4 + static_cast<int64_t>(f.layout) * 2 +
                  f.in_arena);
    key.push_back(f.tensor.shape().rank());
    key.insert(key.end(), f.tensor.shape().begin(), f.tensor.shape().end());
  }
}

}  // namespace

char* Context::arena(size_t bytes) {
  peak_ = std::max(peak_, bytes);
  if (!arena_ || arena_->bytes() < bytes) {
    arena_.reset();  // before the larger one is taken: the peak is one arena, not two
    arena_ = std::make_shared<Storage>(bytes);
  }
  return static_cast<char*>(arena_->data());
}

struct Net::Cache {
  explicit Cache(size_t nodes) : packs(nodes) {}
  std::mutex mutex;
  std::list<std::pair<Key, std::shared_ptr<const Instance>>> instances;  // most recently used first
  size_t made = 0;
  PackStore packs;
};

Net::Net() = default;
Net::~Net() = default;

std::shared_ptr<Net> Net::compile(Graph graph, const NetOptions& options) {
  graph.validate();
  if (options.fuse)
    optimize(graph, options.precision);
  else if (options.precision == cpu::Precision::kBf16)
    lower_to_bf16(graph);
  auto net = std::shared_ptr<Net>(new Net);
  net->graph_ = std::move(graph);
  net->options_ = options;
  net->cache_ = std::make_unique<Cache>(net->graph_.nodes.size());
  return net;
}

std::shared_ptr<const Instance> Net::instance(std::span<const Feed> feeds,
                                              std::vector<int64_t>& key, bool whole) const {
  if (feeds.size() != graph_.inputs.size())
    throw ShapeError(cat("the net takes ", graph_.inputs.size(), " inputs, got ", feeds.size()));
  for (size_t i = 0; i < feeds.size(); ++i) {
    const GraphInput& want = graph_.inputs[i];
    const Tensor& t = feeds[i].tensor;
    const std::string& name = graph_.values[want.value].name;
    if (t.dtype() != want.dtype)
      throw ShapeError(
          cat("input '", name, "' is ", name_of(want.dtype), ", got ", name_of(t.dtype())));
    if (feeds[i].layout == Layout::kChannelsLast &&
        (t.shape().rank() != 4 || t.dtype() != DType::kF32))
      throw ShapeError(cat("input '", name, "': only f32 images of rank 4 can be channels-last"));
    bool fits = want.dims.empty() || static_cast<int>(want.dims.size()) == t.shape().rank();
    for (size_t d = 0; fits && d < want.dims.size(); ++d)
      fits = want.dims[d] < 0 || want.dims[d] == t.shape()[static_cast<int>(d)];
    if (!fits)
      throw ShapeError(cat("input '", name, "' does not take the shape ", t.shape().str()));
  }
  key_of(feeds, whole, key);
  {
    const std::lock_guard lock(cache_->mutex);
    auto& list = cache_->instances;
    for (auto it = list.begin(); it != list.end(); ++it)
      if (it->first == key) {
        list.splice(list.begin(), list, it);
        return it->second;
      }
  }
  // Planned outside the lock, so that other shapes keep running; two callers may plan the same
  // shape once each.
  auto made = std::make_shared<const Instance>(*this, feeds, cache_->packs, whole);
  const std::lock_guard lock(cache_->mutex);
  ++cache_->made;
  cache_->instances.emplace_front(key, made);
  if (cache_->instances.size() > options_.instance_cache) cache_->instances.pop_back();
  return made;
}

Feed Net::input(Context& context, const Shape& shape, Layout layout) const {
  // Memory that is not there: planning looks at shapes alone.
  const auto nowhere =
      std::make_shared<Storage>(nullptr, static_cast<size_t>(shape.numel()) * size_of(DType::kF32));
  Feed feed{Tensor(nowhere, 0, shape, DType::kF32), layout, true};
  const bool whole = context.inspect != nullptr;
  const auto made = instance(std::span(&feed, 1), context.key_, whole);
  context.arena(made->arena_bytes());
  feed.tensor = Tensor(context.storage(), made->feed_offset(0), shape, DType::kF32);
  return feed;
}

void Net::run(Context& context, std::span<const Feed> inputs, std::vector<Tensor>& outputs) const {
  // Whoever inspects values wants those of the whole batch.
  instance(inputs, context.key_, context.inspect != nullptr)->run(context, inputs, outputs);
}

size_t Net::plan(std::span<const Feed> inputs) const {
  Key key;
  return instance(inputs, key)->arena_bytes();
}

Net::Stats Net::stats() const {
  const std::lock_guard lock(cache_->mutex);
  return {cache_->made, cache_->packs.objects()};
}

namespace {

void inspect_outputs(const Context& context, const Graph& graph, const Step& step, Views outs) {
  for (size_t i = 0; i < outs.size(); ++i) {
    const ValueId v = step.node->outputs[i];
    if (v == kNoValue) continue;
    const ValueInfo& info = *outs[i].info;
    Tensor t(info.shape, info.dtype);
    if (info.channels_last()) {
      const Shape& s = info.shape;
      cpu::nhwc_to_nchw(outs[i].as<float>(), info.ld, s[0], s[1], s[2] * s[3], t.data<float>());
    } else {
      std::copy_n(outs[i].as<char>(), t.bytes(), static_cast<char*>(t.raw()));
    }
    context.inspect(step.node->name, graph.values[v].name, t);
  }
}

void record(std::vector<StepProfile>& profile, size_t index, const Step& step, double seconds) {
  if (profile.size() <= index) profile.resize(index + 1);
  StepProfile& p = profile[index];
  if (p.runs++ == 0) {
    p.node = step.node ? step.node->name : "reorder";
    p.op = step.node ? step.node->op->describe() : "Reorder";
    p.shape = step.infos[0].shape.str() + " -> " + step.infos[step.inputs].shape.str();
    if (step.images > 1) p.shape = cat(step.images, " x ", p.shape);
    p.best = seconds;
  }
  p.best = std::min(p.best, seconds);
  p.flops += step.flops;
  for (size_t i = 0; i < step.infos.size(); ++i) {
    if (!step.infos[i].present) continue;
    const bool batched = !step.strides.empty() && step.places[i].kind != Location::kConstant;
    p.bytes += static_cast<double>(step.infos[i].shape.numel()) *
               static_cast<double>(size_of(step.infos[i].dtype)) *
               static_cast<double>(batched ? step.images : 1);
  }
  p.seconds += seconds;
}

// Of one thread its processor time, so that a busy machine tells the same; else the clock's.
double profile_clock() {
  timespec t{};
  clock_gettime(current_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

}  // namespace

void Instance::run_step(size_t index, int64_t image, Context& context, std::span<const Feed> feeds,
                        char* arena) const {
  const Step& s = steps_[index];
  std::vector<View>& views = context.views_;
  views.resize(s.infos.size());
  for (size_t i = 0; i < s.infos.size(); ++i) {
    const Location& p = s.places[i];
    const size_t offset =
        p.offset + (s.strides.empty() ? 0 : s.strides[i] * static_cast<size_t>(image));
    void* data = nullptr;
    if (p.kind == Location::kArena) data = arena + buffer_offsets_[p.index] + offset;
    if (p.kind == Location::kConstant) data = constants_[p.index].raw();
    if (p.kind == Location::kFeed) data = static_cast<char*>(feeds[p.index].tensor.raw()) + offset;
    views[i] = {data, &s.infos[i]};
  }
  const Views all(views);
  s.plan->run(all.first(s.inputs), all.subspan(s.inputs), arena + s.workspace);
  if (context.inspect && s.node) inspect_outputs(context, *graph_, s, all.subspan(s.inputs));
}

void Instance::run(Context& context, std::span<const Feed> feeds,
                   std::vector<Tensor>& outputs) const {
  char* const arena = context.arena(arena_bytes_);
  for (size_t i = 0; i < feeds.size(); ++i)
    if (feeds[i].in_arena && feeds[i].tensor.raw() != arena + feed_offset(i))
      throw ShapeError("an input in the arena belongs to the run that follows Net::input()");
  std::vector<double> seconds(context.profile ? steps_.size() : 0, 0.0);
  for (size_t first = 0, end; first < steps_.size(); first = end) {
    end = std::max(first + 1, steps_[first].group_end);
    for (int64_t image = 0; image < steps_[first].images; ++image)
      for (size_t i = first; i < end; ++i) {
        const double start = context.profile ? profile_clock() : 0;
        run_step(i, image, context, feeds, arena);
        if (context.profile) seconds[i] += profile_clock() - start;
      }
  }
  for (size_t i = 0; i < seconds.size(); ++i) record(*context.profile, i, steps_[i], seconds[i]);
  outputs.resize(output_places_.size());
  for (size_t i = 0; i < output_places_.size(); ++i) {
    const Location& p = output_places_[i];
    const ValueInfo& info = output_infos_[i];
    if (p.kind == Location::kArena)
      outputs[i] =
          Tensor(context.storage(), buffer_offsets_[p.index] + p.offset, info.shape, info.dtype);
    else
      outputs[i] = (p.kind == Location::kConstant ? constants_[p.index] : feeds[p.index].tensor)
                       .reshaped(info.shape);
  }
}

}  // namespace train
