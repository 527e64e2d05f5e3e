#include "libocr/image/decode.h"

#include <sys/stat.h>

#include <sstream>
#include <thread>

#include "libtrain/core/error.h"
#include "tests/image/test_images.h"

namespace ocr {
namespace {

struct Expected {
  std::string name;
  int page, width, height;
  std::string crc;
  int orientation;
  double dpi;
};

// The expected pixels were made on white.
DecodeOptions on_white() {
  DecodeOptions options;
  options.background = Background::kColour;
  return options;
}

std::vector<Expected> expected_images() {
  std::vector<Expected> all;
  std::ifstream in(fixture("expected.tsv"));
  Expected e;
  while (in >> e.name >> e.page >> e.width >> e.height >> e.crc >> e.orientation >> e.dpi)
    all.push_back(e);
  return all;
}

std::string crc_text(const Image& image) {
  std::ostringstream s;
  s << std::hex;
  s.width(8);
  s.fill('0');
  s << crc32(image);
  return s.str();
}

std::string error_of(const std::string& name, const DecodeOptions& options = {}, int page = 0) {
  try {
    read_image(fixture(name), options, page);
  } catch (const train::Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Decode, EveryFixtureHasItsPixels) {
  const std::vector<Expected> all = expected_images();
  ASSERT_GT(all.size(), 130u);
  for (const Expected& e : all) {
    SCOPED_TRACE(e.name);
    try {
      Document document = open_document(fixture(e.name), on_white());
      const PageInfo info = document.page_info(e.page);
      EXPECT_EQ(info.width, e.width);
      EXPECT_EQ(info.height, e.height);
      const Page page = document.read_page(e.page);
      EXPECT_EQ(page.image.width, e.width);
      EXPECT_EQ(page.image.height, e.height);
      EXPECT_EQ(page.image.pixels.size(), size_t(3) * size_t(e.width) * size_t(e.height));
      EXPECT_EQ(crc_text(page.image), e.crc);
      EXPECT_EQ(page.info.orientation, e.orientation);
      EXPECT_NEAR(page.info.dpi, e.dpi, 0.01);
      EXPECT_TRUE(page.warnings.empty()) << page.warnings.front();
    } catch (const train::Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

TEST(Decode, FromMemoryIsTheSameAsFromAFile) {
  for (const Expected& e : expected_images()) {
    Document document = open_document(read_bytes(fixture(e.name)), "upload", on_white());
    EXPECT_EQ(crc_text(document.read_page(e.page).image), e.crc) << e.name;
  }
}

TEST(Decode, PipesAreReadToTheirEndAndEndlessOnesRefused) {
  const TempFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::thread writer([&] {
    const std::vector<uint8_t> bytes = read_bytes(fixture("rgb8.png"));
    write_bytes(folder / "pipe", {bytes.begin(), bytes.end()});
  });
  const Image image = read_image(folder / "pipe").image;
  writer.join();
  EXPECT_EQ(image.pixels, read_image(fixture("rgb8.png")).image.pixels);
  DecodeOptions options;
  options.max_file_bytes = 1 << 20;
  EXPECT_THROW(open_document("/dev/zero", options), train::FormatError);
}

TEST(Decode, ExifCanBeIgnored) {
  DecodeOptions options;
  options.exif_orientation = false;
  for (const char* name : {"exif_6.jpg", "exif_6.png", "exif_8.webp", "orientation_6.tif"}) {
    const Page page = read_image(fixture(name), options);
    EXPECT_EQ(page.image.width, 37) << name;
    EXPECT_NE(page.info.orientation, 1) << name;
    EXPECT_FALSE(page.info.oriented) << name;
  }
}

TEST(Decode, BadFilesGiveOneClearErrorAndNothingOnStderr) {
  const std::vector<std::pair<const char*, const char*>> cases = {
      {"bad_truncated.jpg", "truncated"},
      {"bad_truncated_progressive.jpg", "truncated"},
      {"bad_truncated.png", "truncated"},
      {"bad_crc.png", "not a valid PNG"},
      {"bad_truncated.bmp", "truncated"},
      {"bad_zero_size.bmp", "no pixels"},
      {"bad_truncated.webp", "truncated"},
      {"bad_truncated.tif", "truncated"},
      {"bad_float.tif", "not supported"},
      {"bad_truncated.ppm", "truncated"},
      {"bad_number.pgm", "number"},
      {"bad_truncated.gif", "truncated"},
      {"bad_huge.pdf", "lower dpi"},
      {"bad_broken.pdf", "not a PDF that can be read"},
      {"bad_empty.png", "empty"},
      {"bad_text.jpg", "not an image"},
      {"bad_heic.heic", "HEIC"},
      {"locked.pdf", "encrypted"},
      {"does_not_exist.png", "cannot be opened"},
      {"", "folder"},
  };
  testing::internal::CaptureStderr();
  for (const auto& [name, words] : cases) {
    const std::string message = error_of(name);
    EXPECT_NE(message.find(words), std::string::npos) << name << ": " << message;
    EXPECT_NE(message.find(name), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Decode, LimitsHoldForEveryFormat) {
  for (const char* name : {"rgb_420.jpg", "rgb8.png", "rgb24.bmp", "lossy.webp", "rgb_raw.tif",
                           "p6.ppm", "plain.gif", "pages.pdf"}) {
    DecodeOptions options;
    options.max_side = 30;
    EXPECT_NE(error_of(name, options).find("limit"), std::string::npos) << error_of(name, options);
    options = {};
    options.max_pixels = 1000;
    EXPECT_NE(error_of(name, options).find("limit"), std::string::npos) << error_of(name, options);
    options = {};
    options.max_memory = 3000;
    EXPECT_NE(error_of(name, options).find("limit"), std::string::npos) << error_of(name, options);
  }
}

TEST(Decode, JpegsAreDecodedSmallerOnRequest) {
  DecodeOptions options;
  options.scale_denom = 4;
  const Page page = read_image(fixture("exif_6.jpg"), options);
  EXPECT_EQ(page.image.width, 8);  // of 29
  EXPECT_EQ(page.image.height, 10);
  options.scale_denom = 3;
  EXPECT_THROW(read_image(fixture("rgb_420.jpg"), options), train::ConfigError);
}

TEST(Decode, DamageInTheMiddleOfAJpegIsAWarning) {
  std::vector<uint8_t> bytes = read_bytes(fixture("restarts.jpg"));
  bytes[bytes.size() - 60] = 0xFF, bytes[bytes.size() - 59] = 0xD3;
  const Page page = open_document(bytes, "damaged.jpg").read_page(0);
  EXPECT_EQ(page.image.width, 37);
  EXPECT_FALSE(page.warnings.empty());
}

TEST(Decode, TransparencyIsLaidOnTheBackgroundAskedFor) {
  DecodeOptions options;
  options.background = Background::kColour;
  options.background_colour = {10, 20, 30};
  EXPECT_EQ(pixel(read_image(fixture("rgba8.png"), options).image, 0, 0), (Bgr{10, 20, 30}));
  // By default light text on nothing goes on black, anything else on white.
  EXPECT_EQ(pixel(read_image(fixture("light_on_clear.png")).image, 0, 0), (Bgr{0, 0, 0}));
  EXPECT_EQ(pixel(read_image(fixture("rgba8.png")).image, 0, 0), (Bgr{255, 255, 255}));
}

TEST(Decode, PdfPagesAreRenderedAtTheResolution) {
  DecodeOptions options;
  options.dpi = 144;
  Document document = open_document(fixture("pages.pdf"), options);
  ASSERT_EQ(document.page_count(), 3);
  const Page first = document.read_page(0);
  EXPECT_EQ(first.image.width, 200);
  EXPECT_EQ(first.image.height, 100);
  EXPECT_EQ(first.info.dpi, 144);
  const Bgr red{0, 0, 255}, white{255, 255, 255};
  EXPECT_EQ(pixel(first.image, 50, 25), red);
  EXPECT_EQ(pixel(first.image, 150, 25), white);
  EXPECT_EQ(pixel(first.image, 50, 75), white);
  const Page turned = document.read_page(1);  // clockwise
  EXPECT_EQ(turned.image.width, 100);
  EXPECT_EQ(turned.image.height, 200);
  EXPECT_EQ(pixel(turned.image, 75, 50), red);
  EXPECT_EQ(pixel(turned.image, 25, 50), white);
  EXPECT_EQ(pixel(document.read_page(2).image, 60, 60), (Bgr{255, 0, 0}));
  EXPECT_THROW(document.read_page(3), train::DataError);
}

TEST(Decode, EncryptedPdfOpensWithItsPassword) {
  DecodeOptions options;
  options.pdf_password = "wrong";
  EXPECT_NE(error_of("locked.pdf", options).find("password given"), std::string::npos);
  options.pdf_password = "secret";
  EXPECT_EQ(pixel(read_image(fixture("locked.pdf"), options).image, 20, 20), (Bgr{0, 0, 255}));
}

TEST(Decode, ThreadsDoNotDisturbEachOther) {
  const std::vector<Expected> all = expected_images();
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (size_t t = 0; t < wrong.size(); t++)
    threads.emplace_back([&, t] {
      for (size_t i = t; i < all.size(); i += 2) {
        const Expected& e = all[i];
        wrong[t] += crc_text(read_image(fixture(e.name), on_white(), e.page).image) != e.crc;
        wrong[t] += error_of("bad_truncated.tif").find("bad_truncated.tif: is truncated") ==
                    std::string::npos;
        if (i % 16 == t) wrong[t] += read_image(fixture("pages.pdf")).image.width != 278;
      }
    });
  for (std::thread& t : threads) t.join();
  for (const int n : wrong) EXPECT_EQ(n, 0);
}

TEST(Decode, EveryCutOfAFileIsAnErrorOrAnImage) {
  testing::internal::CaptureStderr();
  for (const char* name : {"rgb_420.jpg", "exif_6.png", "rle4.bmp", "alpha_lossy.webp",
                           "rgb_tiff_lzw.tif", "p3.ppm", "transparent.gif", "pages.pdf"}) {
    const std::vector<uint8_t> whole = read_bytes(fixture(name));
    for (size_t size = 0; size < whole.size(); size += 1 + whole.size() / 60) {
      try {
        open_document({whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size)}, "cut")
            .read_page(0);
      } catch (const train::Error& e) {
        EXPECT_EQ(std::string(e.what()).rfind("cut: ", 0), 0u) << e.what();
      }
    }
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// Peak resident memory of this process in KiB.
int64_t peak_kib() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("VmHWM:", 0) == 0) return std::stoll(line.substr(6));
  return 0;
}

void put_le(std::vector<uint8_t>& bytes, size_t at, int n, uint32_t value) {
  for (int i = 0; i < n; i++)
    bytes.at(at + static_cast<size_t>(i)) = static_cast<uint8_t>(value >> (8 * i));
}
void put_be(std::vector<uint8_t>& bytes, size_t at, int n, uint32_t value) {
  for (int i = 0; i < n; i++)
    bytes.at(at + static_cast<size_t>(i)) = static_cast<uint8_t>(value >> (8 * (n - 1 - i)));
}

// Where a little-endian TIFF keeps the value of a tag.
size_t tiff_value_at(const std::vector<uint8_t>& b, int tag) {
  const size_t directory = b[4] | b[5] << 8 | b[6] << 16;
  for (size_t i = 0; i < (b[directory] | size_t{b[directory + 1]} << 8); i++) {
    const size_t entry = directory + 2 + 12 * i;
    if ((b[entry] | b[entry + 1] << 8) == tag) return entry + 8;
  }
  return b.size();
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint32_t kSide = 4000;  // sanitizers write shadow memory for what is only reserved
#else
constexpr uint32_t kSide = 20000;
#endif

TEST(Decode, AFewBytesDoNotMakeAHugeImageResident) {
  std::vector<std::vector<uint8_t>> files;
  for (const char* name :
       {"rgb_420.jpg", "rgb8.png", "plain.gif", "rgb24.bmp", "bad_truncated.tif"})
    files.push_back(read_bytes(fixture(name)));
  std::vector<uint8_t>& jpeg = files[0];
  for (size_t i = 0; i + 9 < jpeg.size(); i++)
    if (jpeg[i] == 0xFF && jpeg[i + 1] == 0xC0)
      put_be(jpeg, i + 5, 2, kSide), put_be(jpeg, i + 7, 2, kSide);
  put_be(files[1], 16, 4, kSide), put_be(files[1], 20, 4, kSide);
  put_be(files[1], 29, 4, crc32(files[1].data() + 12, 17));
  for (size_t i = 6; i + 9 < files[2].size(); i++)  // the first image descriptor, after the palette
    if (files[2][i] == 0x2C && files[2][i + 5] == 37 && files[2][i + 7] == 29) {
      put_le(files[2], i + 5, 2, kSide), put_le(files[2], i + 7, 2, kSide);
      break;
    }
  put_le(files[3], 18, 4, kSide), put_le(files[3], 22, 4, kSide);
  for (const int tag : {256, 257, 278}) put_le(files[4], tiff_value_at(files[4], tag), 4, kSide);
  put_le(files[4], tiff_value_at(files[4], 279), 4, 3 * kSide * kSide);
  const std::string pnm = "P6 " + std::to_string(kSide) + " " + std::to_string(kSide) + " 255 xyz";
  files.emplace_back(pnm.begin(), pnm.end());
  const int64_t before = peak_kib();
  for (const auto& file : files) {
    try {
      open_document(file, "bomb").read_page(0);
      ADD_FAILURE() << "decoded a file that was cut, beginning " << file[0] << file[1];
    } catch (const train::FormatError& e) {
      const std::string what = e.what();
      EXPECT_TRUE(what.find("is truncated") != what.npos ||
                  what.find("Not enough image data") != what.npos ||
                  what.find("before image complete") != what.npos)
          << what;
    }
  }
  EXPECT_LT(peak_kib() - before, 100 << 10);
}

TEST(PageRange, NamesPagesFromOne) {
  using V = std::vector<int>;
  EXPECT_EQ(parse_page_range("1-3,7", 10), (V{0, 1, 2, 6}));
  EXPECT_EQ(parse_page_range("", 3), (V{0, 1, 2}));
  EXPECT_EQ(parse_page_range("2-", 4), (V{1, 2, 3}));
  EXPECT_EQ(parse_page_range("-2", 4), (V{0, 1}));
  EXPECT_EQ(parse_page_range(" 3 , 1, 2-3", 4), (V{0, 1, 2}));
  EXPECT_EQ(parse_page_range("2-2000000000", 3), (V{1, 2}));
  EXPECT_EQ(parse_page_range("9", 3), V{});
  for (const char* bad : {"0", "a", "1-x", "3-1", ",", "1,,2", "-", "1.5", "99999999999"})
    EXPECT_THROW(parse_page_range(bad, 3), train::ConfigError) << bad;
}

}  // namespace
}  // namespace ocr
