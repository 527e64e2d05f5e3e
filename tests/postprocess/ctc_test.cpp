#include "libocr/postprocess/ctc.h"

#include <cmath>
#include <random>

#include "fixture.h"
#include "libocr/text/utf8.h"

namespace ocr {
namespace {

const Dictionary& letters() {  // classes: 0 blank, 1..5 a..e, 6 中, 7 文, 8 space
  static const Dictionary d =
      Dictionary::from_list({"a", "b", "c", "d", "e", "中", "文"}, SpaceClass::kAppend, "letters");
  return d;
}

std::vector<CtcStep> steps_of(std::initializer_list<int> indices) {
  std::vector<CtcStep> steps;
  for (int i : indices) steps.push_back({i, 0.9f, 0.0f});
  return steps;
}

TEST(Ctc, EqualsThePublicDecoder) {
  std::ifstream file = open_fixture("ctc.txt");
  std::string word, alphabet, text;
  file >> word >> alphabet;
  const Dictionary dictionary =
      Dictionary::from_list(split_code_points(alphabet), SpaceClass::kAppend, "fixture");
  int lines = 0;
  while (file >> word) {
    size_t n = 0;
    double score = 0;
    file >> n;
    std::vector<CtcStep> steps(n);
    for (CtcStep& s : steps) file >> s.index;
    for (CtcStep& s : steps) {
      int thousandths = 0;
      file >> thousandths;
      s.prob = static_cast<float>(thousandths) / 1000.0f;
    }
    file >> score;
    std::getline(file, text);
    std::getline(file, text);
    const CtcLine line = ctc_decode(steps, dictionary);
    EXPECT_EQ("|" + line.text, text);
    EXPECT_NEAR(line.score, score, 1.1e-5);
    ++lines;
  }
  EXPECT_EQ(lines, 40);
}

TEST(Ctc, RepeatsAndBlanks) {
  EXPECT_EQ(ctc_decode(steps_of({1, 1, 0, 1, 2, 2, 0, 0}), letters()).text, "aab");
  EXPECT_EQ(ctc_decode(steps_of({0, 0, 0}), letters()).text, "");
  EXPECT_EQ(ctc_decode(steps_of({0, 0, 0}), letters()).score, 0);
  EXPECT_EQ(ctc_decode({}, letters()).text, "");
  const CtcLine line = ctc_decode(steps_of({0, 3, 3, 3, 0, 8, 7}), letters());
  EXPECT_EQ(line.text, "c 文");
  EXPECT_EQ(line.chars[0].first_step, 1);
  EXPECT_EQ(line.chars[0].last_step, 3);
  EXPECT_THROW(ctc_decode(steps_of({9}), letters()), train::ShapeError);
  EXPECT_THROW(ctc_decode(steps_of({-1}), letters()), train::ShapeError);
}

TEST(Ctc, ScoreIsTheMeanOfFirstSteps) {
  std::vector<CtcStep> steps = steps_of({1, 1, 0, 2});
  steps[0].prob = 0.5f;
  steps[1].prob = 0.1f;
  steps[2].prob = 0.2f;
  steps[3].prob = 1.0f;
  EXPECT_DOUBLE_EQ(ctc_decode(steps, letters()).score, 0.75);
}

TEST(Ctc, StepsFromProbabilities) {
  std::mt19937 rng(9);
  std::uniform_real_distribution<float> d(0, 1);
  for (int64_t classes : {1, 2, 15, 16, 17, 33, 100}) {
    const int64_t ld = classes + 3, steps = 5;
    std::vector<float> probs(static_cast<size_t>(ld * steps), 5.0f);
    for (int64_t t = 0; t < steps; ++t) {
      for (int64_t c = 0; c < classes; ++c) probs[static_cast<size_t>(t * ld + c)] = d(rng);
    }
    std::vector<CtcStep> out(5);
    ctc_steps(probs.data(), ld, steps, classes, classes - 1, out);
    for (int64_t t = 0; t < steps; ++t) {
      const float* row = probs.data() + t * ld;
      const float* best = std::max_element(row, row + classes);
      ASSERT_EQ(out[static_cast<size_t>(t)].index, best - row);
      ASSERT_EQ(out[static_cast<size_t>(t)].prob, *best);
      ASSERT_EQ(out[static_cast<size_t>(t)].space_prob, row[classes - 1]);
    }
  }
  const float tie[] = {0.1f, 0.4f, 0.4f, NAN};
  CtcStep step;
  ctc_steps(tie, 4, 1, 4, -1, {&step, 1});
  EXPECT_EQ(step.index, 1) << "the first of equal maxima, never NaN";
  const float none[] = {NAN, NAN};
  ctc_steps(none, 2, 1, 2, -1, {&step, 1});
  EXPECT_EQ(step.index, 0);
  EXPECT_EQ(step.prob, 0);
  EXPECT_THROW(ctc_steps(tie, 3, 1, 4, -1, {&step, 1}), train::ShapeError);
}

// Characters at steps 0, 2, 4, then a wide gap, then 10 and 12; P(space) peaks at step 7.
std::vector<CtcStep> gapped(float space_prob) {
  std::vector<CtcStep> steps = steps_of({1, 0, 2, 0, 3, 0, 0, 0, 0, 0, 4, 0, 5});
  steps[7].space_prob = space_prob;
  steps[1].space_prob = 0.9f;  // within a narrow gap: must not count
  return steps;
}

TEST(Ctc, SpacesComeBackWhereGapAndProbabilityAgree) {
  SpaceRecovery spaces{true, 0.1f, 1.6f};
  const CtcLine line = ctc_decode(gapped(0.3f), letters(), spaces);
  EXPECT_EQ(line.text, "abc de");
  EXPECT_TRUE(line.chars[3].recovered);
  EXPECT_EQ(line.chars[3].first_step, 7);
  EXPECT_FLOAT_EQ(line.chars[3].score, 0.3f);
  EXPECT_NEAR(line.score, 0.9, 1e-6) << "the score is that of the greedy path";
  EXPECT_EQ(ctc_decode(gapped(0.1f), letters(), spaces).text, "abcde") << "must exceed tau";
  EXPECT_EQ(ctc_decode(gapped(0.3f), letters()).text, "abcde") << "off";
  spaces.alpha = 3.0f;
  EXPECT_EQ(ctc_decode(gapped(0.3f), letters(), spaces).text, "abcde") << "must exceed alpha";
  spaces.alpha = 0.4f;
  EXPECT_EQ(ctc_decode(gapped(0.3f), letters(), spaces).text, "a bc de");
}

TEST(Ctc, NoSecondSpaceBesideASpace) {
  std::vector<CtcStep> steps = steps_of({1, 0, 2, 0, 8, 0, 0, 0, 0, 0, 0, 3});
  for (CtcStep& s : steps) s.space_prob = 0.5f;
  EXPECT_EQ(ctc_decode(steps, letters(), {true, 0.1f, 1.0f}).text, "ab c");
  const Dictionary none = Dictionary::from_list({"a", "b"}, SpaceClass::kNone, "none");
  EXPECT_EQ(ctc_decode(steps_of({1, 0, 0, 0, 2}), none, {true, 0.0f, 0.1f}).text, "ab");
}

TEST(Ctc, WordAndCharacterBoxes) {
  // 20 steps over 160 columns; the crop of 80 x 24 pixels fills all 160: one step is 4 pixels.
  const CtcLine line =
      ctc_decode(steps_of({0, 1, 0, 2, 0, 8, 0, 3, 3, 0, 6, 0, 7, 0, 4, 0, 0, 0, 0, 0}), letters());
  ASSERT_EQ(line.text, "ab c中文d");
  const StepScale scale{20, 160, 160, 80};
  const Quad quad{{{100, 50}, {180, 50}, {180, 74}, {100, 74}}};
  const CropMapper mapper(crop_shape(quad));
  const std::vector<TextBox> words = word_boxes(line, scale, 24, mapper);
  std::vector<std::string> texts;
  for (const TextBox& w : words) texts.push_back(w.text);
  EXPECT_EQ(texts, (std::vector<std::string>{"ab", "c", "中", "文", "d"}));
  // 'b' stands for step 3 -> 12 px; half an advance of 8 px and the margin at the end of a word
  // (0.15 line heights) end it at 19.6, just before the middle of the space; 'a' meets the edge.
  EXPECT_NEAR(words[0].quad[0].x, 100, 1e-3);
  EXPECT_NEAR(words[0].quad[1].x, 119.6, 1e-3);
  EXPECT_NEAR(words[0].quad[0].y, 50, 1e-3);
  EXPECT_NEAR(words[0].quad[2].y, 74, 1e-3);
  EXPECT_NEAR(words[0].score, 0.9, 1e-6);
  EXPECT_EQ(char_boxes(line, scale, 24, mapper).size(), 6u);
}

TEST(Ctc, ColumnsAreOrderedAndInsideTheCrop) {
  std::mt19937 rng(21);
  for (int round = 0; round < 500; ++round) {
    std::vector<CtcStep> steps(1 + rng() % 60);
    for (CtcStep& s : steps) {
      s = {static_cast<int32_t>(rng() % 3 ? 0 : rng() % 9), 0.5f,
           static_cast<float>(rng() % 9) / 9};
    }
    const CtcLine line = ctc_decode(steps, letters(), {round % 2 == 0, 0.1f, 1.6f});
    const StepScale scale{static_cast<int64_t>(steps.size()), 320,
                          1 + static_cast<int>(rng() % 320), 1 + static_cast<int>(rng() % 900)};
    float end = 0;
    for (const Columns& c : char_columns(line, scale, 30)) {
      ASSERT_LE(end, c.x0 + 1e-3f);
      ASSERT_LE(c.x0, c.x1);
      ASSERT_LE(c.x1, static_cast<float>(scale.crop_width));
      end = c.x1;
    }
  }
}

}  // namespace
}  // namespace ocr
