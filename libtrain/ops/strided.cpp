#include "libtrain/ops/strided.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace train {
namespace {

constexpr int64_t kGrain = 1 << 15;  // elements per task at least
constexpr int64_t kTile = 16;

// Offsets of the multi-index number `index` over axes[0, count).
std::array<int64_t, 2> offsets_at(std::span<const CopyAxis> axes, int64_t index) {
  std::array<int64_t, 2> at{0, 0};
  for (size_t k = axes.size(); k-- > 0;) {
    const int64_t i = index % axes[k].size;
    index /= axes[k].size;
    at[0] += i * axes[k].src;
    at[1] += i * axes[k].dst;
  }
  return at;
}

bool merges(const CopyAxis& outer, const CopyAxis& inner) {
  return outer.src == inner.src * inner.size && outer.dst == inner.dst * inner.size;
}

}  // namespace

std::array<int64_t, Shape::kMaxRank> strides_of(const ValueInfo& v) {
  std::array<int64_t, Shape::kMaxRank> s{};
  if (v.channels_last()) {
    const int64_t h = v.shape[2], w = v.shape[3], ld = std::max(v.ld, v.shape[1]);
    s[0] = h * w * ld;
    s[1] = 1;
    s[2] = w * ld;
    s[3] = ld;
    return s;
  }
  int64_t step = 1;
  for (int i = v.shape.rank(); i-- > 0;) {
    s[i] = step;
    step *= v.shape[i];
  }
  return s;
}

std::vector<int64_t> dense_strides(std::span<const int64_t> shape) {
  std::vector<int64_t> s(shape.size());
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    s[i] = step;
    step *= shape[i];
  }
  return s;
}

StridedCopy::StridedCopy(std::vector<CopyAxis> axes, size_t element_size) : element_(element_size) {
  empty_ = std::ranges::any_of(axes, [](const CopyAxis& a) { return a.size == 0; });
  if (empty_) return;
  std::erase_if(axes, [](const CopyAxis& a) { return a.size == 1; });
  std::ranges::stable_sort(
      axes, [](const CopyAxis& a, const CopyAxis& b) { return std::abs(a.dst) > std::abs(b.dst); });
  for (const CopyAxis& a : axes) {
    if (!axes_.empty() && merges(axes_.back(), a)) {
      axes_.back() = {axes_.back().size * a.size, a.src, a.dst};
    } else {
      axes_.push_back(a);
    }
  }
  if (axes_.empty()) axes_.push_back({1, 1, 1});
  const CopyAxis& last = axes_.back();
  if (last.dst != 1 || last.src == 1 || last.src == 0) return;
  for (size_t k = 0; k + 1 < axes_.size(); ++k)
    if (axes_[k].src == 1 && axes_[k].size >= 4 && last.size >= 4) {
      std::rotate(axes_.begin() + static_cast<int>(k), axes_.begin() + static_cast<int>(k) + 1,
                  axes_.end() - 1);
      tiled_ = true;
      return;
    }
}

void StridedCopy::run(const void* src, void* dst) const {
  if (empty_) return;
  const auto go = [&](auto type) {
    using T = decltype(type);
    if (tiled_)
      run_tiled(static_cast<const T*>(src), static_cast<T*>(dst));
    else
      run_typed(static_cast<const T*>(src), static_cast<T*>(dst));
  };
  switch (element_) {
    case 1:
      return go(uint8_t{});
    case 2:
      return go(uint16_t{});
    case 4:
      return go(uint32_t{});
    default:
      return go(uint64_t{});
  }
}

template <class T>
void StridedCopy::run_typed(const T* src, T* dst) const {
  const CopyAxis inner = axes_.back();
  if (axes_.size() == 1 && inner.src == 1 && inner.dst == 1) {
    parallel_for(inner.size, 8 * kGrain, [&](int64_t a, int64_t b) {
      std::memcpy(dst + a, src + a, static_cast<size_t>(b - a) * sizeof(T));
    });
    return;
  }
  const std::span<const CopyAxis> outer(axes_.data(), axes_.size() - 1);
  int64_t rows = 1;
  for (const CopyAxis& a : outer) rows *= a.size;
  parallel_for(rows, std::max<int64_t>(1, kGrain / inner.size), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const auto [s, d] = offsets_at(outer, r);
      const T* from = src + s;
      T* to = dst + d;
      if (inner.src == 1 && inner.dst == 1) {
        std::memcpy(to, from, static_cast<size_t>(inner.size) * sizeof(T));
      } else if (inner.src == 0 && inner.dst == 1) {
        std::fill_n(to, inner.size, *from);
      } else {
        for (int64_t i = 0; i < inner.size; ++i) to[i * inner.dst] = from[i * inner.src];
      }
    }
  });
}

// The last axis but one is contiguous in src, the last one in dst: square tiles keep both in cache.
template <class T>
void StridedCopy::run_tiled(const T* src, T* dst) const {
  const CopyAxis cols = axes_.back(), rows = axes_[axes_.size() - 2];
  const std::span<const CopyAxis> outer(axes_.data(), axes_.size() - 2);
  int64_t count = 1;
  for (const CopyAxis& a : outer) count *= a.size;
  const int64_t blocks = (rows.size + kTile - 1) / kTile;
  const int64_t grain = std::max<int64_t>(1, kGrain / (kTile * cols.size));
  parallel_for(count * blocks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const auto [s, d] = offsets_at(outer, t / blocks);
      const int64_t r0 = t % blocks * kTile, r1 = std::min(rows.size, r0 + kTile);
      for (int64_t c0 = 0; c0 < cols.size; c0 += kTile) {
        const int64_t c1 = std::min(cols.size, c0 + kTile);
        for (int64_t r = r0; r < r1; ++r) {
          const T* from = src + s + r;
          T* to = dst + d + r * rows.dst;
          for (int64_t c = c0; c < c1; ++c) to[c] = from[c * cols.src];
        }
      }
    }
  });
}

StridedCopy copy_between(const ValueInfo& from, const ValueInfo& to) {
  const auto s = strides_of(from), d = strides_of(to);
  std::vector<CopyAxis> axes;
  for (int i = 0; i < to.shape.rank(); ++i) axes.push_back({to.shape[i], s[i], d[i]});
  return {std::move(axes), size_of(to.dtype)};
}

LayoutChoice follow_input(Infos inputs, Infos outputs) {
  LayoutChoice choice;
  choice.inputs.assign(inputs.size(), Layout::kLinear);
  choice.outputs.assign(outputs.size(), Layout::kLinear);
  if (inputs[0].shape.rank() != 4 || !inputs[0].channels_last()) return choice;
  choice.inputs[0] = Layout::kChannelsLast;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].shape.rank() == 4) choice.outputs[i] = Layout::kChannelsLast;
  return choice;
}

}  // namespace train
