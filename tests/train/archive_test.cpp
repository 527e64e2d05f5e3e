// Archives: what was written comes back, other tools could read it, and damage is found.
#include "libtrain/train/archive.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "libtrain/core/error.h"
#include "libtrain/core/philox.h"
#include "tests/support/error_of.h"

namespace train {
namespace {

using test::error_of;
struct State {
  int64_t count = std::numeric_limits<int64_t>::min();
  double tenth = .1, infinite = std::numeric_limits<double>::infinity();
  std::string text = "Zeile\n\"\xC3\xA4\" \xE5\xAD\x97";
  Tensor a = Tensor::from<float>({2, 3}, {1, 2, 3, 4, 5, std::nanf("")});
  Tensor b = Tensor::from<int64_t>({}, {-7}), none, empty = Tensor::zeros({0, 4});

  void visit(StateVisitor& v) {
    v.value("count", count);
    const StateVisitor::Scope scope(v, "part");
    v.value("tenth", tenth);
    v.value("infinite", infinite);
    v.value("text", text);
    v.tensor("a", a);
    v.tensor("b", b);
    v.maybe_tensor("none", none);
    v.maybe_tensor("empty", empty);
  }
};

std::string archive_of(State state) {
  ArchiveWriter writer;
  state.visit(writer);
  return writer.bytes();
}

TEST(Archive, ComesBackWithTheSameBits) {
  const std::string bytes = archive_of({});
  State read{.count = 0,
             .tenth = 0,
             .infinite = 0,
             .text = "",
             .a = Tensor::zeros({2, 3}),
             .b = Tensor::from<int64_t>({}, {0}),
             .none = Tensor::zeros({1}),
             .empty = Tensor()};
  ArchiveReader reader = ArchiveReader::from_bytes(bytes, "x");
  read.visit(reader);
  reader.finish();
  EXPECT_TRUE(reader.is_ours());
  EXPECT_FALSE(read.none.defined());
  EXPECT_EQ(read.empty.shape(), (Shape{0, 4}));
  EXPECT_EQ(read.text, State().text);
  EXPECT_EQ(archive_of(read), bytes);
  EXPECT_EQ(bytes.substr(8, 16), R"({"__metadata__":)");
  EXPECT_EQ(reader.names(), (std::vector<std::string>{"part.a", "part.b", "part.empty"}));
  EXPECT_EQ(reader.get("part.b").to_ints()[0], -7);
}

TEST(Archive, EveryDamageIsFound) {
  const std::string bytes = archive_of({});
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] ^= 1;
    std::string message = error_of([&] { ArchiveReader::from_bytes(damaged, "file"); });
    // One change cannot be told from a file of another writer: of the name or value of "format".
    if (message.empty()) {
      const size_t format = bytes.find("\"format\":\"ocr-checkpoint-1\"");
      EXPECT_TRUE(at > format && at < format + 28) << at;
      EXPECT_FALSE(ArchiveReader::from_bytes(damaged, "file").is_ours());
    } else {
      EXPECT_TRUE(message.starts_with("file: ")) << message;
    }
  }
  for (size_t size = 0; size < bytes.size(); size += 7)
    EXPECT_NE(error_of([&] { ArchiveReader::from_bytes(bytes.substr(0, size), "file"); }), "");
}

TEST(Archive, TellsWhatDoesNotFit) {
  const std::string bytes = archive_of({});
  const auto load = [&](auto&& change) {
    return error_of([&] {
      ArchiveReader reader = ArchiveReader::from_bytes(bytes, "file");
      change(reader);
      reader.finish();
    });
  };
  EXPECT_EQ(load([](auto&) {}), "file: holds the tensor part.a, which this run does not have");
  EXPECT_EQ(load([](auto& r) {
              Tensor t({2, 4});
              r.tensor("part.a", t);
            }),
            "file: tensor part.a is f32 [2, 3], the run has f32 [2, 4]");
  EXPECT_EQ(load([](auto& r) {
              Tensor t({1});
              r.tensor("z", t);
            }),
            "file: lacks the tensor z");
  EXPECT_EQ(load([](auto& r) {
              int64_t v = 0;
              r.value("part.tenth", v);
            }),
            "file: the value part.tenth is no integer");
  ArchiveWriter twice;
  int64_t v = 1;
  twice.value("v", v);
  EXPECT_NE(error_of([&] { twice.value("v", v); }), "");
}

TEST(Archive, ReadsWeightsOfOtherWriters) {
  const std::string header =
      R"({"w":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}})" + std::string(10, ' ');
  std::string bytes(8, '\0');
  bytes[0] = static_cast<char>(header.size());
  bytes += header + std::string("\x00\x3C\x00\xC0", 4);
  const ArchiveReader reader = ArchiveReader::from_bytes(bytes, "x");
  EXPECT_FALSE(reader.is_ours());
  EXPECT_EQ(reader.get("w").to_doubles(), (std::vector<double>{1, -2}));
  // Hostile ones: no crash, one error.
  const char* bad[] = {
      R"({"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})",
      R"({"w":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,4]}})",
      R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})",
      R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})",
      R"({"w":{"dtype":"Q4","shape":[1],"data_offsets":[0,4]}})",
      R"({"w":[]})",
      R"({"__metadata__":{"a":1}})",
      R"({"w":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})",
      "[]"};
  for (const char* h : bad) {
    std::string file(8, '\0');
    file[0] = static_cast<char>(std::string(h).size());
    file += h + std::string(4, '\0');
    EXPECT_TRUE(error_of([&] { ArchiveReader::from_bytes(file, "f"); }).starts_with("f: ")) << h;
  }
}

TEST(Archive, WritesWholeFilesOrNone) {
  const std::string folder = testing::TempDir() + "archive_test";
  std::filesystem::create_directories(folder);
  const std::string path = folder + "/latest.safetensors";
  State state;
  ArchiveWriter writer;
  state.visit(writer);
  writer.write(path);
  writer.write(path);
  EXPECT_TRUE(ArchiveReader::open(path).is_ours());
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
  EXPECT_NE(error_of([&] { writer.write(folder + "/none/x"); }).find("No such file"),
            std::string::npos);
  EXPECT_NE(error_of([&] { ArchiveReader::open(folder + "/none"); }).find("No such file"),
            std::string::npos);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace train
