// Puts the detections of overlapping tiles together: seams vanish, no line comes twice.
#pragma once
#include <vector>

#include "libocr/postprocess/db.h"

namespace ocr {

/// A tile's place on the page in page pixels, and what was detected in it, in the tile's own
/// coordinates (page pixels, origin at the tile's corner).
struct Tile {
  int x = 0, y = 0, width = 0, height = 0;
  std::vector<Detection> detections;
};

struct TileMergeOptions {
  float edge_margin = 4;           // a box within this of an inner tile edge counts as cut there;
                                   // for maps of another scale than the page: max(4, 4 / scale)
  double duplicate_overlap = 0.5;  // shared area / smaller area that makes two boxes one text
  double line_overlap = 0.6;       // shared height / smaller height of two parts of one line
};

/// Origins of tiles of `tile` pixels that cover [0, length) with at least `overlap` pixels in
/// common, spread evenly. One origin when the length fits one tile.
std::vector<int> tile_origins(int length, int tile, int overlap);

/// Detections of the whole page. Boxes of different tiles that show the same text are one: the one
/// that no seam cuts, else the larger. Parts of a line cut by a seam are joined to their smallest
/// enclosing rectangle (polygons: to their union), scores weighted by area. The result depends
/// neither on the order of the tiles nor on that of the detections in them; it is sorted by top,
/// then left. Points are clipped to the page.
///
/// `tall`: lines found in a smaller copy of the page, in page pixels, that may be higher than what
/// two tiles share, so that tiles show nothing but pieces of them. One replaces what lies in it,
/// unless a tile shows it whole, or shows whole other lines there: then the small copy has run
/// several into one.
std::vector<Detection> merge_tiles(const std::vector<Tile>& tiles, int page_width, int page_height,
                                   const TileMergeOptions& options = {},
                                   const std::vector<Detection>& tall = {});

}  // namespace ocr
