#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "fixture.h"
#include "libocr/postprocess/cls.h"
#include "libocr/postprocess/reading_order.h"

namespace ocr {
namespace {

Polygon box(float x, float y, float w, float h) {
  return {{x, y}, {x + w, y}, {x + w, y + h}, {x, y + h}};
}

std::vector<int> identity(size_t n) {
  std::vector<int> out(n);
  std::iota(out.begin(), out.end(), 0);
  return out;
}

// Orders the boxes, given in the order a person reads them, after shuffling.
std::vector<int> read_shuffled(const std::vector<Polygon>& boxes, unsigned seed,
                               const ReadingOrderOptions& options = {}) {
  std::vector<int> at = identity(boxes.size());
  std::mt19937 rng(seed);
  std::shuffle(at.begin(), at.end(), rng);
  std::vector<Polygon> shuffled;
  for (int i : at) shuffled.push_back(boxes[static_cast<size_t>(i)]);
  std::vector<int> out;
  for (int i : reading_order(shuffled, options)) out.push_back(at[static_cast<size_t>(i)]);
  return out;
}

void expect_read_in_order(const std::vector<Polygon>& boxes) {
  for (unsigned seed = 0; seed < 5; ++seed) {
    EXPECT_EQ(read_shuffled(boxes, seed), identity(boxes.size())) << "seed " << seed;
  }
}

std::vector<Polygon> slanted(std::vector<Polygon> boxes, double degrees) {
  const double c = std::cos(degrees * M_PI / 180), s = std::sin(degrees * M_PI / 180);
  for (Polygon& b : boxes) {
    for (Point2f& p : b) {
      p = {static_cast<float>(p.x * c - p.y * s), static_cast<float>(p.x * s + p.y * c)};
    }
  }
  return boxes;
}

void add_column(std::vector<Polygon>* boxes, float x, float y, int lines, float width,
                float pitch = 30) {
  for (int i = 0; i < lines; ++i) {
    const float w = i == lines - 1 ? width * 0.4f : width - static_cast<float>(i * 7 % 5) * 6;
    boxes->push_back(box(x, y + static_cast<float>(i) * pitch, w, 22));
  }
}

TEST(ReadingOrder, PeersOrdersEqualTheirs) {
  std::ifstream file = open_fixture("order.txt");
  std::string word, name;
  int cases = 0;
  while (file >> word >> name) {
    size_t n = 0;
    file >> n;
    std::vector<Polygon> boxes(n);
    for (Polygon& b : boxes) {
      Point2f p;
      file >> p.x >> p.y;
      b = box(p.x, p.y, 40, 9);
    }
    std::vector<int> expected(n);
    for (int& i : expected) file >> i;
    const std::vector<int> got =
        name == "rapid"
            ? order_rapidocr(boxes)
            : order_paddle(boxes, name == "full" ? BubbleVariant::kFull : BubbleVariant::kShort);
    EXPECT_EQ(got, expected) << name << " " << n;
    ++cases;
  }
  EXPECT_EQ(cases, 72);
}

TEST(ReadingOrder, SingleLineAndNothing) {
  expect_read_in_order({box(5, 5, 300, 20)});
  expect_read_in_order({box(5, 8, 90, 20), box(100, 5, 90, 22), box(200, 10, 50, 18)});
  EXPECT_TRUE(reading_order({}).empty());
}

TEST(ReadingOrder, TwoColumnsUnderATitleAndOverAFooter) {
  std::vector<Polygon> page{box(150, 10, 500, 40)};
  add_column(&page, 20, 80, 12, 350);
  add_column(&page, 420, 80, 10, 350);
  page.push_back(box(380, 460, 60, 20));  // page number, across the gutter
  expect_read_in_order(page);
  for (const double degrees : {-4.0, -1.0, 2.0, 6.0}) {
    SCOPED_TRACE(degrees);
    expect_read_in_order(slanted(page, degrees));
  }
}

TEST(ReadingOrder, ColumnsWhoseLinesDoNotAlign) {
  std::vector<Polygon> page;
  add_column(&page, 20, 80, 12, 300, 30);
  add_column(&page, 360, 91, 14, 280, 27);
  add_column(&page, 690, 70, 9, 300, 33);
  expect_read_in_order(page);
}

TEST(ReadingOrder, TitlesBetweenColumns) {
  std::vector<Polygon> page{box(40, 5, 700, 30)};
  add_column(&page, 20, 60, 6, 340);
  add_column(&page, 420, 60, 6, 340);
  page.push_back(box(40, 260, 700, 30));
  add_column(&page, 20, 310, 7, 340);
  add_column(&page, 420, 310, 5, 340);
  expect_read_in_order(page);
}

TEST(ReadingOrder, ReceiptsAreReadByRows) {
  std::vector<Polygon> page{box(100, 5, 200, 24)};
  for (int i = 0; i < 12; ++i) {
    const float y = 50 + 28 * static_cast<float>(i);
    page.push_back(box(10, y, 120 + static_cast<float>(i * 13 % 60), 20));
    page.push_back(box(360, y + 2, 50, 19));  // the price
  }
  expect_read_in_order(page);
}

TEST(ReadingOrder, WideTablesAreReadByRows) {
  std::vector<Polygon> page;
  for (int row = 0; row < 8; ++row) {
    for (int column = 0; column < 5; ++column) {
      page.push_back(box(20 + 160 * static_cast<float>(column), 30 + 40 * static_cast<float>(row),
                         40 + static_cast<float>((row * 5 + column * 3) % 4) * 8, 20));
    }
  }
  expect_read_in_order(page);
}

TEST(ReadingOrder, FinancialTablesAreReadByRows) {
  // A wide column of names and two of figures; together the figures are as wide as running text.
  std::vector<Polygon> page{box(700, 20, 420, 19)};  // running header at the right
  for (int i = 0; i < 14; ++i) {
    const float y = 90 + 50 * static_cast<float>(i);
    page.push_back(box(160, y, 300 + static_cast<float>(i * 37 % 150), 22));
    page.push_back(box(768, y - 2, 125, 29));
    page.push_back(box(990, y - 2, 124, 29));
  }
  expect_read_in_order(page);
}

TEST(ReadingOrder, HeaderOverTheRightColumnComesFirst) {
  std::vector<Polygon> page{box(500, 10, 270, 20)};
  add_column(&page, 20, 80, 12, 350);
  add_column(&page, 420, 80, 10, 350);
  expect_read_in_order(page);
}

TEST(ReadingOrder, NumberedListsStayTogether) {
  std::vector<Polygon> page;
  for (int i = 0; i < 9; ++i) {
    const float y = 20 + 30 * static_cast<float>(i);
    page.push_back(box(10, y, 18, 20));
    page.push_back(box(60, y, 400 - static_cast<float>(i % 3) * 30, 21));
  }
  expect_read_in_order(page);
}

TEST(ReadingOrder, VerticalChineseFromRightToLeft) {
  std::vector<Polygon> page;
  for (int column = 0; column < 8; ++column) {
    const float x = 500 - 45 * static_cast<float>(column);
    page.push_back(box(x, 20, 30, column == 5 ? 200.0f : 400.0f));
    if (column == 5) page.push_back(box(x, 240, 30, 150));
  }
  expect_read_in_order(page);
  expect_read_in_order(slanted(page, 3));
  ReadingOrderOptions options;
  options.direction = WritingDirection::kHorizontal;
  EXPECT_NE(read_shuffled(page, 1, options), identity(page.size()));
}

TEST(ReadingOrder, IsAlwaysAPermutationAndStable) {
  std::mt19937 rng(3);
  const float nan = std::nanf("");
  for (int round = 0; round < 300; ++round) {
    std::vector<Polygon> boxes(rng() % 80);
    for (Polygon& b : boxes) {
      const auto r = [&rng](unsigned n) { return static_cast<float>(rng() % n); };
      b = box(r(600), r(600), r(200), r(40));
      if (round % 10 == 0 && rng() % 5 == 0) b[rng() % 4].x = nan;
      if (round % 10 == 1 && rng() % 5 == 0) b.resize(rng() % 4);
      if (round % 10 == 2) b.push_back({r(600), r(600)});
    }
    for (const auto& order : {reading_order(boxes), order_paddle(boxes), order_rapidocr(boxes)}) {
      std::vector<int> sorted = order;
      std::sort(sorted.begin(), sorted.end());
      ASSERT_EQ(sorted, identity(boxes.size()));
    }
    ASSERT_EQ(reading_order(boxes), reading_order(boxes));
  }
}

TEST(ReadingOrder, ManyBoxesAreOrderedQuickly) {
  std::vector<Polygon> page;
  for (int i = 0; i < 6000; ++i) {
    page.push_back(box(static_cast<float>(i % 2) * 400, static_cast<float>(i / 2) * 30, 60, 20));
  }
  EXPECT_EQ(reading_order(page), identity(page.size()));
}

TEST(Cls, TopClassAndThreshold) {
  const float probs[] = {0.2f, 0.8f}, even[] = {0.5f, 0.5f}, bad[] = {std::nanf(""), 0.3f};
  EXPECT_EQ(top_class(probs).label, 1);
  EXPECT_EQ(top_class(even).label, 0);
  EXPECT_EQ(top_class(bad).label, 1);
  EXPECT_EQ(top_class({}).score, 0);
  EXPECT_TRUE(is_upside_down({180, 0.91f}, 0.9));
  EXPECT_FALSE(is_upside_down({180, 0.9f}, 0.9f)) << "above, not at, the threshold";
  EXPECT_FALSE(is_upside_down({0, 0.99f}, 0.9));
  EXPECT_TRUE(is_upside_down({180, 0.51f}, 0));
}

TEST(Cls, PageVote) {
  EXPECT_EQ(vote_page_turn({}).degrees, 0);
  std::vector<LineVote> votes(9, {200, 20, false, 0.9f});
  votes.push_back({20, 200, true, 0.9f});
  EXPECT_EQ(vote_page_turn(votes).degrees, 0);
  EXPECT_EQ(vote_page_turn(std::vector<LineVote>(5, {200, 20, true, 0.9f})).degrees, 180);
  EXPECT_EQ(vote_page_turn(std::vector<LineVote>(5, {20, 200, false, 0.9f})).degrees, 270);
  EXPECT_EQ(vote_page_turn(std::vector<LineVote>(5, {20, 200, true, 0.9f})).degrees, 90);
  // A bare majority is not enough for a turn.
  votes.assign(5, {200, 20, true, 0.9f});
  votes.insert(votes.end(), 4, {200, 20, false, 0.9f});
  EXPECT_EQ(vote_page_turn(votes).degrees, 0);
  EXPECT_EQ(vote_page_turn(votes, 0.5).degrees, 180);
}

}  // namespace
}  // namespace ocr
