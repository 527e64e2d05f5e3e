// The differentiable functions without parameters, as calls on a tape.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "libtrain/autograd/tape.h"
#include "libtrain/cpu/activation.h"
#include "libtrain/ops/nn.h"

namespace train {

// ---- Element-wise functions of one value.

/// act(x); kNone gives x itself. Throws Error when recorded and the function has no derivative
/// here.
Variable activate(Tape& tape, const Variable& x, const cpu::Activation& act);
/// max(x, 0).
Variable relu(Tape& tape, const Variable& x);
/// min(max(x, 0), 6).
Variable relu6(Tape& tape, const Variable& x);
/// x clamp(x / 6 + 1/2, 0, 1).
Variable hard_swish(Tape& tape, const Variable& x);
/// clamp(slope x + offset, 0, 1). PyTorch: 1/6, 1/2; Paddle's SE blocks in MobileNetV3 and RSE-FPN:
/// 0.2, 1/2.
Variable hard_sigmoid(Tape& tape, const Variable& x, float slope = 1.f / 6, float offset = .5f);
Variable sigmoid(Tape& tape, const Variable& x);
/// x sigmoid(x), also called SiLU.
Variable swish(Tape& tape, const Variable& x);
/// x/2 (1 + erf(x / sqrt 2)).
Variable gelu(Tape& tape, const Variable& x);
Variable leaky_relu(Tape& tape, const Variable& x, float slope = .01f);
Variable tanh(Tape& tape, const Variable& x);

// ---- Arithmetic with numpy's broadcasting.

Variable add(Tape& tape, const Variable& a, const Variable& b);
Variable sub(Tape& tape, const Variable& a, const Variable& b);
Variable mul(Tape& tape, const Variable& a, const Variable& b);
Variable div(Tape& tape, const Variable& a, const Variable& b);
/// x times / plus a number.
Variable scale(Tape& tape, const Variable& x, float factor);
Variable offset(Tape& tape, const Variable& x, float number);
/// a times b over the last two axes (b's swapped with `trans_b`), leading axes broadcast; times
/// alpha.
Variable matmul(Tape& tape, const Variable& a, const Variable& b, bool trans_b = false,
                float alpha = 1);

// ---- Shapes.

/// x in another shape of as many elements (in logical order, whatever the layout); one -1 takes
/// what is left.
Variable reshape(Tape& tape, const Variable& x, const Shape& shape);
/// [N, ...] -> [N, the rest].
Variable flatten(Tape& tape, const Variable& x);
/// Takes out axes of size 1 / puts them in (places in the output).
Variable squeeze(Tape& tape, const Variable& x, const std::vector<int64_t>& axes);
Variable unsqueeze(Tape& tape, const Variable& x, const std::vector<int64_t>& axes);
/// Axis i of the result is axis perm[i] of x.
Variable transpose(Tape& tape, const Variable& x, const std::vector<int64_t>& perm);
Variable concat(Tape& tape, std::span<const Variable> parts, int64_t axis);
/// The elements [begin, end) of an axis; negative numbers count from its end.
Variable slice(Tape& tape, const Variable& x, int64_t axis, int64_t begin, int64_t end);
/// An image with `pads` (top, left, bottom, right) pixels of `value` around it.
Variable pad(Tape& tape, const Variable& x, const std::array<int, 4>& pads, float value = 0);
/// Rows of `table` [classes, C]: indices i64 of any shape -> [indices..., C]. Where an index is
/// `padding` the row is 0 and no gradient flows. Throws Error on an index outside the table.
Variable embed(Tape& tape, const Variable& table, const Variable& indices,
               std::optional<int64_t> padding = std::nullopt);
/// [N, C, 1, W] -> [N, W, C], and [N, C, H, W] -> [N, H W, C]: pixels become tokens.
Variable image_to_sequence(Tape& tape, const Variable& x);
/// [N, H W, C] -> [N, C, H, W].
Variable sequence_to_image(Tape& tape, const Variable& x, int64_t h, int64_t w);

// ---- Pools and resizing of images [N, C, H, W].

Variable max_pool(Tape& tape, const Variable& x, const Window& window);
/// Each window's mean over the pixels inside the image, or with `count_include_pad` over all.
Variable average_pool(Tape& tape, const Variable& x, const Window& window,
                      bool count_include_pad = false);
/// -> [N, C, 1, 1], over H and W.
Variable global_average_pool(Tape& tape, const Variable& x);
Variable global_max_pool(Tape& tape, const Variable& x);
/// -> [N, C, oh, ow]; H and W must be multiples of those (as all the nets here have it).
Variable adaptive_average_pool(Tape& tape, const Variable& x, int64_t oh, int64_t ow);
/// Nearest by whole factors: each pixel becomes factor x factor of them.
Variable upsample_nearest(Tape& tape, const Variable& x, int factor);
/// Nearest / bilinear to oh x ow, as PyTorch's interpolate: nearest takes floor(i h / oh).
Variable resize_nearest(Tape& tape, const Variable& x, int64_t oh, int64_t ow);
Variable resize_bilinear(Tape& tape, const Variable& x, int64_t oh, int64_t ow,
                         bool align_corners = false);

// ---- Reductions.

Variable softmax(Tape& tape, const Variable& x, int64_t axis = -1);
Variable log_softmax(Tape& tape, const Variable& x, int64_t axis = -1);
/// Over `axes`, or over all when there are none.
Variable mean(Tape& tape, const Variable& x, const std::vector<int64_t>& axes = {},
              bool keepdims = false);
Variable sum(Tape& tape, const Variable& x, const std::vector<int64_t>& axes = {},
             bool keepdims = false);

// ---- Random zeros, while training. The numbers come from the tape's seed.

/// Each element 0 with probability p, else x / (1 - p).
Variable dropout(Tape& tape, const Variable& x, float p);
/// The same for whole entries of the batch (stochastic depth).
Variable drop_path(Tape& tape, const Variable& x, float p);

}  // namespace train
