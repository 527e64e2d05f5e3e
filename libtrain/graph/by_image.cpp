#include "libtrain/graph/by_image.h"

#include <algorithm>

namespace train {
namespace {

// Bytes from one image of a value to the next.
size_t image_stride(const ValueInfo& info) {
  const Shape& s = info.shape;
  const int64_t elements = info.channels_last() ? s[2] * s[3] * info.ld : s.count(1, s.rank());
  return static_cast<size_t>(elements) * size_of(info.dtype);
}

// Who uses a buffer, and how.
struct Use {
  int first = -1, last = -1;  // steps
  size_t stride = 0;          // per image; 0 where uses differ
  bool kept = false;
};

std::vector<Use> uses_of(const std::vector<Step>& steps, size_t buffers,
                         std::span<const Location> kept) {
  std::vector<Use> uses(buffers);
  for (size_t i = 0; i < steps.size(); ++i)
    for (size_t p = 0; p < steps[i].places.size(); ++p) {
      const Location& place = steps[i].places[p];
      if (place.kind != Location::kArena) continue;
      Use& use = uses[place.index];
      const ValueInfo& info = steps[i].infos[p];
      const size_t stride = info.shape.rank() > 0 ? image_stride(info) : 0;
      if (use.first < 0) use = {static_cast<int>(i), 0, stride, use.kept};
      use.last = static_cast<int>(i);
      if (use.stride != stride) use.stride = 0;
    }
  for (const Location& place : kept)
    if (place.kind == Location::kArena) uses[place.index].kept = true;
  return uses;
}

}  // namespace

std::vector<ValueInfo> infos_of_one_image(std::span<const ValueInfo> infos,
                                          std::span<const Location> places) {
  const Shape& whole = infos.back().shape;
  if (whole.rank() < 2 || whole[0] < 2) return {};
  std::vector<ValueInfo> one(infos.begin(), infos.end());
  for (size_t i = 0; i < one.size(); ++i) {
    if (!one[i].present || places[i].kind == Location::kConstant) continue;
    if (one[i].shape.rank() != whole.rank() || one[i].shape[0] != whole[0]) return {};
    one[i].shape[0] = 1;
  }
  return one;
}

void group_by_image(std::vector<Step>& steps, std::vector<ArenaBuffer>& buffers,
                    std::span<const Location> kept) {
  const std::vector<Use> uses = uses_of(steps, buffers.size(), kept);
  const auto images = [&](size_t i) {
    return steps[i].image_plan ? steps[i].infos.back().shape[0] : 1;
  };
  for (size_t first = 0, end; first < steps.size(); first = end) {
    const int64_t count = images(first);
    for (end = first + 1; count > 1 && end < steps.size() && images(end) == count;) ++end;
    if (end - first < 2) continue;
    const int a = static_cast<int>(first), b = static_cast<int>(end) - 1;
    const auto within = [&](int buffer) {
      const Use& use = uses[buffer];
      return !use.kept && use.first >= a && use.last <= b && use.stride > 0 &&
             use.stride * static_cast<size_t>(count) == buffers[buffer].bytes;
    };
    for (size_t i = first; i < end; ++i) {
      Step& s = steps[i];
      s.group_end = end;
      s.images = count;
      s.plan = std::move(s.image_plan);
      for (size_t p = 0; p < s.places.size(); ++p) {
        const Location& place = s.places[p];
        const bool batched = s.infos[p].present && place.kind != Location::kConstant;
        const bool moves = batched && !(place.kind == Location::kArena && within(place.index));
        s.strides.push_back(moves ? image_stride(s.infos[p]) : 0);
        if (batched) s.infos[p].shape[0] = 1;
        if (moves && place.kind == Location::kArena) {
          ArenaBuffer& buffer = buffers[place.index];
          buffer.first = std::min(buffer.first, a);
          buffer.last = std::max(buffer.last, b);
        }
      }
    }
    std::vector<char> shrunk(buffers.size(), 0);
    for (size_t i = first; i < end; ++i)
      for (size_t p = 0; p < steps[i].places.size(); ++p) {
        const Location& place = steps[i].places[p];
        if (place.kind == Location::kArena && steps[i].infos[p].present &&
            steps[i].strides[p] == 0 && !std::exchange(shrunk[place.index], 1))
          buffers[place.index].bytes /= static_cast<size_t>(count);
      }
  }
}

}  // namespace train
