#include "libocr/postprocess/tiles.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "fixture.h"

namespace ocr {
namespace {

Polygon box(float x0, float y0, float x1, float y1) {
  return {{x0, y0}, {x1, y0}, {x1, y1}, {x0, y1}};
}

constexpr int kPageWidth = 2200, kPageHeight = 1500;

// What a detector would find of whole lines in each tile: their parts inside it.
std::vector<Tile> cut_into_tiles(const std::vector<Polygon>& lines, int tile, int overlap) {
  std::vector<Tile> tiles;
  for (int y : tile_origins(kPageHeight, tile, overlap)) {
    for (int x : tile_origins(kPageWidth, tile, overlap)) {
      Tile t{x, y, std::min(tile, kPageWidth), std::min(tile, kPageHeight), {}};
      const float width = static_cast<float>(t.width - 1),
                  height = static_cast<float>(t.height - 1);
      for (const Polygon& line : lines) {
        Bounds b = bounds_of(line);
        b.x0 = std::max(b.x0 - static_cast<float>(x), 0.0f);
        b.y0 = std::max(b.y0 - static_cast<float>(y), 0.0f);
        b.x1 = std::min(b.x1 - static_cast<float>(x), width);
        b.y1 = std::min(b.y1 - static_cast<float>(y), height);
        if (b.x1 - b.x0 > 4 && b.y1 - b.y0 > 4)
          t.detections.push_back({box(b.x0, b.y0, b.x1, b.y1), 0.8});
      }
      tiles.push_back(std::move(t));
    }
  }
  return tiles;
}

std::vector<Polygon> page_of_lines() {
  std::vector<Polygon> lines;
  for (int i = 0; i < 30; ++i) {
    const float y = 20 + 48 * static_cast<float>(i);
    if (i % 3 == 0) {
      lines.push_back(box(30, y, 2150, y + 30));  // across several seams
    } else {
      for (int k = 0; k < 5; ++k) {
        const float x = 40 + 430 * static_cast<float>(k) + static_cast<float>(i * 31 % 60);
        lines.push_back(box(x, y, x + 300, y + 28));
      }
    }
  }
  return lines;
}

TEST(Tiles, OriginsCoverWithOverlap) {
  EXPECT_EQ(tile_origins(100, 100, 10), std::vector<int>{0});
  EXPECT_EQ(tile_origins(5, 100, 10), std::vector<int>{0});
  for (const int length : {101, 500, 999, 20000}) {
    const std::vector<int> at = tile_origins(length, 100, 30);
    EXPECT_EQ(at.front(), 0);
    EXPECT_EQ(at.back(), length - 100);
    for (size_t i = 1; i < at.size(); ++i) EXPECT_LE(at[i] - at[i - 1], 70);
  }
  EXPECT_THROW(tile_origins(100, 50, 50), train::ConfigError);
  EXPECT_THROW(tile_origins(0, 50, 10), train::ConfigError);
}

TEST(Tiles, SeamsVanish) {
  const std::vector<Polygon> lines = page_of_lines();
  for (const int tile : {700, 960, 1300}) {
    const auto merged = merge_tiles(cut_into_tiles(lines, tile, 128), kPageWidth, kPageHeight);
    ASSERT_EQ(merged.size(), lines.size()) << tile;
    for (const Polygon& line : lines) {
      const bool found = std::any_of(merged.begin(), merged.end(), [&](const Detection& d) {
        return polygon_iou(d.points, line) > 0.98;
      });
      EXPECT_TRUE(found) << tile << ": line at " << line[0].x << "," << line[0].y;
    }
    for (const Detection& d : merged) EXPECT_NEAR(d.score, 0.8, 1e-9);
  }
}

TEST(Tiles, OrderOfTilesAndBoxesDoesNotMatter) {
  std::vector<Tile> tiles = cut_into_tiles(page_of_lines(), 700, 100);
  std::mt19937 rng(8);
  for (Tile& t : tiles) {
    for (Detection& d : t.detections) {
      d.score = static_cast<double>(rng() % 100) / 100;
      for (Point2f& p : d.points) p.x += static_cast<float>(rng() % 3);
    }
  }
  const auto first = merge_tiles(tiles, kPageWidth, kPageHeight);
  for (int round = 0; round < 5; ++round) {
    std::shuffle(tiles.begin(), tiles.end(), rng);
    for (Tile& t : tiles) std::shuffle(t.detections.begin(), t.detections.end(), rng);
    const auto again = merge_tiles(tiles, kPageWidth, kPageHeight);
    ASSERT_EQ(again.size(), first.size());
    for (size_t i = 0; i < first.size(); ++i) {
      ASSERT_EQ(again[i].points, first[i].points);
      ASSERT_NEAR(again[i].score, first[i].score, 1e-12);
    }
  }
}

TEST(Tiles, NeighbouringLinesAreNotJoined) {
  // Tight lines, grown into each other by three pixels, cut by a vertical seam.
  std::vector<Polygon> lines;
  for (int i = 0; i < 20; ++i) {
    const float y = 10 + 25 * static_cast<float>(i);
    lines.push_back(box(20, y, 2100, y + 28));
  }
  EXPECT_EQ(merge_tiles(cut_into_tiles(lines, 960, 160), kPageWidth, kPageHeight).size(), 20u);
}

TEST(Tiles, RestsOfStackedLinesAreNotJoined) {
  // Short lines one below the other, at an edge: one tile sees narrow rests of them, the rests of
  // two lines even as one, and the other tile sees them whole.
  std::vector<Polygon> lines;
  for (int i = 0; i < 12; ++i) {
    const float y = 20 + 26 * static_cast<float>(i);
    lines.push_back(box(294, y, 363, y + 25));
  }
  std::vector<Tile> tiles{{0, 0, 310, 400, {}}, {250, 0, 310, 400, {}}};
  for (size_t i = 0; i < lines.size(); ++i) {
    const float y = lines[i][0].y;
    if (i == 4) {
      tiles[0].detections.push_back({box(294, y, 309, y + 51), 0.7});
    } else if (i != 5) {
      tiles[0].detections.push_back({box(294, y, 309, y + 25), 0.7});
    }
    tiles[1].detections.push_back({box(44, y, 113, y + 25), 0.9});
  }
  const auto merged = merge_tiles(tiles, 560, 400);
  ASSERT_EQ(merged.size(), lines.size());
  for (size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(merged[i].points, lines[i]);
  // Rests above each other that nothing covers stay two as well.
  tiles = {{0, 0, 310, 400, {{box(294, 10, 309, 35), 1}}},
           {0, 20, 310, 400, {{box(294, 14, 309, 40), 1}}},
           {250, 0, 310, 400, {}}};
  EXPECT_EQ(merge_tiles(tiles, 560, 420).size(), 2u);
}

TEST(Tiles, PartsBesideEachOtherStayApart) {
  // Rests over pairs of lines chain four of them to one group, but no line is that thick.
  Tile left{0, 0, 500, 300, {}}, right{400, 0, 500, 300, {}};
  for (int i = 0; i < 4; ++i) {
    const float y = 50 + 35 * static_cast<float>(i);
    left.detections.push_back({box(400, y, 499, y + 30), 1});
    if (i < 3) right.detections.push_back({box(0, y + 2, 300, y + 64), 1});
  }
  const auto merged = merge_tiles({left, right}, 900, 300);
  EXPECT_GE(merged.size(), 3u);
  for (const Detection& d : merged) EXPECT_LT(bounds_of(d.points).height(), 66);
}

TEST(Tiles, ColumnsOfVerticalWritingAreJoined) {
  std::vector<Tile> tiles;
  for (const int y : tile_origins(1500, 600, 120)) tiles.push_back({0, y, 400, 600, {}});
  for (Tile& t : tiles) {
    for (int column = 0; column < 5; ++column) {
      const float x = 30 + 50 * static_cast<float>(column), y = static_cast<float>(t.y);
      const float y0 = std::max(20.0f - y, 0.0f), y1 = std::min(1400.0f - y, 599.0f);
      t.detections.push_back({box(x, y0, x + 34, y1), 0.9});
    }
  }
  const auto merged = merge_tiles(tiles, 400, 1500);
  ASSERT_EQ(merged.size(), 5u);
  for (const Detection& d : merged) EXPECT_EQ(bounds_of(d.points).height(), 1380);
}

TEST(Tiles, SlantedLineIsJoinedAlongItsSlant) {
  // One line of slope 0.1, seen in two tiles of 600 that share 100 columns.
  const auto at = [](float x) { return 100 + 0.1f * x; };
  const auto part = [&](float x0, float x1, float origin) {
    return Polygon{{x0 - origin, at(x0)},
                   {x1 - origin, at(x1)},
                   {x1 - origin - 3, at(x1) + 30},
                   {x0 - origin - 3, at(x0) + 30}};
  };
  std::vector<Tile> tiles{{0, 0, 600, 400, {{part(50, 599, 0), 0.9}}},
                          {500, 0, 600, 400, {{part(503, 1000, 500), 0.7}}}};
  const auto merged = merge_tiles(tiles, 1100, 400);
  ASSERT_EQ(merged.size(), 1u);
  EXPECT_GT(polygon_iou(merged[0].points, part(50, 1000, 0)), 0.95);
  EXPECT_TRUE(merged[0].score > 0.7 && merged[0].score < 0.9);
}

TEST(Tiles, LinesHigherThanTheOverlapComeFromTheSmallerCopy) {
  // Letters 800 pixels high; the tiles of 500 show upper, middle and lower parts of them.
  const std::vector<Polygon> lines{box(100, 350, 2000, 1150), box(60, 1300, 800, 1330)};
  const std::vector<Tile> tiles = cut_into_tiles(lines, 500, 60);
  EXPECT_GT(merge_tiles(tiles, kPageWidth, kPageHeight).size(), 2u);
  const auto merged = merge_tiles(tiles, kPageWidth, kPageHeight, {}, {{lines[0], 0.9}});
  ASSERT_EQ(merged.size(), 2u);
  EXPECT_EQ(merged[0].points, lines[0]);
  EXPECT_EQ(merged[0].score, 0.9);
}

TEST(Tiles, AParagraphRunTogetherInTheSmallerCopyStaysLines) {
  std::vector<Polygon> lines;
  for (int i = 0; i < 8; ++i) {
    const float y = 500 + 40 * static_cast<float>(i);
    lines.push_back(box(100, y, 600, y + 24));
  }
  const std::vector<Tile> tiles = cut_into_tiles(lines, 700, 128);
  const Polygon block = box(96, 496, 604, 808);
  EXPECT_EQ(merge_tiles(tiles, kPageWidth, kPageHeight, {}, {{block, 0.7}}).size(), lines.size());
  // So do lines far apart, of which a box around three would be mostly paper.
  const auto few = cut_into_tiles({lines[0], lines[3], lines[6]}, 700, 128);
  EXPECT_EQ(merge_tiles(few, kPageWidth, kPageHeight, {}, {{block, 0.7}}).size(), 3u);
  // A line that a tile shows whole stays as the tile has it.
  const std::vector<Tile> one{{0, 0, 700, 700, {{box(50, 100, 600, 300), 0.8}}},
                              {600, 0, 700, 700, {}}};
  const auto same = merge_tiles(one, 1300, 700, {}, {{box(44, 92, 608, 308), 0.9}});
  ASSERT_EQ(same.size(), 1u);
  EXPECT_EQ(same[0].points, box(50, 100, 600, 300));
}

TEST(Tiles, UncutBoxesOfOneTileStayApart) {
  std::vector<Tile> tiles{{0, 0, 500, 500, {{box(10, 10, 200, 40), 1}, {box(15, 12, 190, 38), 1}}}};
  EXPECT_EQ(merge_tiles(tiles, 500, 500).size(), 2u);
  EXPECT_TRUE(merge_tiles({}, 10, 10).empty());
}

TEST(Tiles, PolygonsAreUnited) {
  const Polygon left{{10, 10}, {400, 10}, {499, 14}, {499, 44}, {400, 40}, {10, 40}};
  const Polygon right{{0, 12}, {99, 14}, {300, 20}, {300, 50}, {99, 44}, {0, 42}};
  std::vector<Tile> tiles{{0, 0, 500, 100, {{left, 1}}}, {400, 0, 500, 100, {{right, 1}}}};
  const auto merged = merge_tiles(tiles, 900, 100);
  ASSERT_EQ(merged.size(), 1u);
  EXPECT_GT(merged[0].points.size(), 6u);
  const Bounds b = bounds_of(merged[0].points);
  EXPECT_EQ(b.x0, 10);
  EXPECT_EQ(b.x1, 700);
}

TEST(Tiles, RandomBoxesNeverFail) {
  std::mt19937 rng(12);
  for (int round = 0; round < 200; ++round) {
    std::vector<Tile> tiles;
    for (int t = 0; t < 4; ++t) {
      Tile tile{static_cast<int>(rng() % 300), static_cast<int>(rng() % 300), 200, 200, {}};
      for (unsigned d = rng() % 12; d > 0; --d) {
        Polygon p(1 + rng() % 7);
        for (Point2f& q : p) q = {static_cast<float>(rng() % 220), static_cast<float>(rng() % 220)};
        if (rng() % 30 == 0) p[0].x = std::nanf("");
        tile.detections.push_back({p, 0.5});
      }
      tiles.push_back(std::move(tile));
    }
    for (const Detection& d : merge_tiles(tiles, 500, 500)) {
      for (Point2f p : d.points) ASSERT_TRUE(p.x >= 0 && p.x <= 499 && p.y >= 0 && p.y <= 499);
    }
  }
}

}  // namespace
}  // namespace ocr
