// Running stretches of steps image by image: what lies between them then stays in the cache, and
// one image's worth of memory is enough for it.
#pragma once
#include <span>
#include <vector>

#include "libtrain/graph/arena.h"
#include "libtrain/graph/instance.h"

namespace train {

/// `infos` with a batch of one where the value at the same place of `places` is no constant. Empty
/// unless all those have rank and batch of the last info, more than one image.
std::vector<ValueInfo> infos_of_one_image(std::span<const ValueInfo> infos,
                                          std::span<const Location> places);

/// Finds the stretches of at least two steps that have an `image_plan`, and makes them run image by
/// image. Buffers that only such a stretch uses shrink to one image; others that it uses are alive
/// during all of it. `kept`: places that are the net's, its inputs and outputs.
void group_by_image(std::vector<Step>& steps, std::vector<ArenaBuffer>& buffers,
                    std::span<const Location> kept);

}  // namespace train
