#include "libocr/image/collect.h"

#include <sys/stat.h>

#include "libocr/image/glob.h"
#include "tests/image/test_images.h"

namespace ocr {
namespace {

namespace fs = std::filesystem;

class Collect : public testing::Test {
 protected:
  void add(const std::string& name) {
    fs::create_directories(fs::path(folder_ / name).parent_path());
    write_bytes(folder_ / name, "x");
  }
  std::string at(const std::string& name) { return folder_ / name; }
  static std::vector<std::string> relatives(const Inputs& inputs) {
    std::vector<std::string> out;
    for (const InputJob& j : inputs.jobs) out.push_back(j.relative);
    return out;
  }
  static Inputs collect(std::vector<std::string> arguments, std::vector<std::string> lists = {},
                        bool recursive = true) {
    return collect_inputs({std::move(arguments), std::move(lists), recursive});
  }
  using V = std::vector<std::string>;

  TempFolder folder_;
};

TEST_F(Collect, FoldersAreReadRecursivelyInByteOrder) {
  for (const char* name :
       {"b.png", "B.JPG", "a/z.tiff", "a.webp", "a/b/c.pdf", "notes.txt", ".hidden.png",
        ".git/x.png", "\xe4\xbd\xa0 \xe5\xa5\xbd.jpg", "odd\xff\n.png", "noextension"})
    add(name);
  EXPECT_EQ(relatives(collect({folder_.path()})),
            (V{"B.JPG", "a.webp", "a/b/c.pdf", "a/z.tiff", "b.png", "odd\xff\n.png",
               "\xe4\xbd\xa0 \xe5\xa5\xbd.jpg"}));
  EXPECT_EQ(relatives(collect({folder_.path() + "/"}, {}, false)).size(), 5u);
  EXPECT_EQ(collect({folder_.path()}).jobs[2].path, at("a/b/c.pdf"));
  // Named directly, any name goes.
  EXPECT_EQ(relatives(collect({at("notes.txt"), at(".hidden.png")})),
            (V{"notes.txt", ".hidden.png"}));
}

TEST_F(Collect, LinksInCirclesEnd) {
  add("a/1.png");
  add("b/2.png");
  fs::create_directory_symlink(folder_.path(), at("a/up"));
  fs::create_directory_symlink(at("a"), at("b/other"));
  fs::create_symlink(at("gone"), at("b/dangling.png"));
  const Inputs inputs = collect({folder_.path()});
  EXPECT_EQ(relatives(inputs), (V{"a/1.png", "b/2.png"}));
  ASSERT_EQ(inputs.errors.size(), 1u);
  EXPECT_NE(inputs.errors[0].message.find("dangling.png"), std::string::npos);
}

TEST_F(Collect, WhatIsMissingIsAnErrorAndTheRestGoesOn) {
  add("a.png");
  add("empty/readme.md");
  const Inputs inputs =
      collect({at("none.png"), at("a.png"), at("empty"), at("*.gif"), at("a.png/b.png")});
  EXPECT_EQ(relatives(inputs), V{"a.png"});
  ASSERT_EQ(inputs.errors.size(), 4u);
  EXPECT_EQ(inputs.errors[0].message, at("none.png") + ": does not exist");
  EXPECT_EQ(inputs.errors[2].message, at("*.gif") + ": no file matches");
}

TEST_F(Collect, PatternsMirrorWhatIsBelowTheirFixedPart) {
  for (const char* name :
       {"x/1.png", "x/2.png", "x/y/3.png", "x/.h/4.png", "x/y/z/5.jpg", "[1].png"})
    add(name);
  EXPECT_EQ(relatives(collect({at("x/*.png")})), (V{"1.png", "2.png"}));
  EXPECT_EQ(relatives(collect({at("x/**/*.png")})), (V{"1.png", "2.png", "y/3.png"}));
  EXPECT_EQ(relatives(collect({at("**")})),
            (V{"[1].png", "x/1.png", "x/2.png", "x/y/3.png", "x/y/z/5.jpg"}));
  EXPECT_EQ(relatives(collect({at("*/y/**/?.jpg")})), (V{"x/y/z/5.jpg"}));
  // A file that exists wins over a pattern.
  EXPECT_EQ(relatives(collect({at("[1].png")})), V{"[1].png"});
}

TEST_F(Collect, EqualNamesAreToldApartAndRepeatsDropped) {
  add("a/1.png");
  add("b/1.png");
  const Inputs inputs = collect({at("a/1.png"), at("b/1.png"), at("a/1.png"), at("a")});
  ASSERT_EQ(inputs.jobs.size(), 2u);
  EXPECT_EQ(inputs.repeated, 2);
  EXPECT_EQ(inputs.jobs[0].relative, "1.png");
  EXPECT_TRUE(inputs.jobs[1].relative.ends_with("b/1.png"));
  EXPECT_NE(inputs.jobs[1].relative[0], '/');
}

TEST_F(Collect, ListsNamePathsOneALine) {
  add("set/a.png");
  add("set/b c.png");
  add("set/sub/d.png");
  add("elsewhere.dat");
  write_bytes(
      at("set/list.txt"),
      "\xEF\xBB\xBF"
      "a.png\r\n\nb c.png\t[{\"transcription\": \"x\"}]\nsub\nmissing.png\n../elsewhere.dat\n" +
          at("set/a.png"));
  const Inputs inputs = collect({}, {at("set/list.txt"), at("nolist")});
  EXPECT_EQ(relatives(inputs), (V{"a.png", "b c.png", "d.png", "_up/elsewhere.dat"}));
  EXPECT_EQ(inputs.repeated, 1);
  ASSERT_EQ(inputs.errors.size(), 2u);
  EXPECT_EQ(inputs.errors[0].path, "missing.png");
}

TEST_F(Collect, StandardInputIsOneJob) {
  const Inputs inputs = collect({"-"});
  ASSERT_EQ(inputs.jobs.size(), 1u);
  EXPECT_EQ(inputs.jobs[0].path, "-");
  EXPECT_EQ(inputs.jobs[0].relative, "stdin");
}

TEST(Glob, MatchesComponents) {
  EXPECT_TRUE(match_component("*", ""));
  EXPECT_TRUE(match_component("*.p?g", "a.b.png"));
  EXPECT_TRUE(match_component("a*b*c", "aXXbYYbZc"));
  EXPECT_FALSE(match_component("a*b*c", "aXXbYYbZ"));
  EXPECT_TRUE(match_component("?", "\xe4\xbd\xa0"));
  EXPECT_FALSE(match_component("??", "\xe4\xbd\xa0"));
  EXPECT_TRUE(match_component("?", "\xff"));
  EXPECT_TRUE(match_component("[a-c]x", "bx"));
  EXPECT_FALSE(match_component("[!a-c]x", "bx"));
  EXPECT_TRUE(match_component("[]x]", "]"));
  EXPECT_TRUE(match_component("[a", "[a"));
  EXPECT_TRUE(match_component("\\*", "*"));
  EXPECT_FALSE(match_component("\\*", "a"));
  EXPECT_FALSE(match_component("*", ".hidden"));
  EXPECT_TRUE(match_component(".*", ".hidden"));
  // Many stars against a long name must not take exponential time.
  EXPECT_FALSE(match_component("*a*a*a*a*a*a*a*a*a*a*b", std::string(2000, 'a')));
}

TEST(Glob, RootIsTheFixedPart) {
  EXPECT_EQ(glob_root("a/b/*.png"), "a/b/");
  EXPECT_EQ(glob_root("*.png"), "");
  EXPECT_EQ(glob_root("/a*/b.png"), "/");
}

}  // namespace
}  // namespace ocr
