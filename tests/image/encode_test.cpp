#include "libocr/image/encode.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cmath>

#include "libocr/image/atomic_file.h"
#include "libocr/image/decode.h"
#include "libtrain/core/error.h"
#include "tests/image/test_images.h"

namespace ocr {
namespace {

size_t file_count(const TempFolder& folder) {
  size_t n = 0;
  for ([[maybe_unused]] const auto& e : std::filesystem::directory_iterator(folder.path())) n++;
  return n;
}

TEST(Encode, PngKeepsEveryPixel) {
  const TempFolder folder;
  const Image image = noisy_image(123, 77);
  EncodeOptions options;
  options.dpi = 300;
  write_image(folder / "out.PNG", image.view(), options);
  const Page page = read_image(folder / "out.PNG");
  EXPECT_EQ(page.image.pixels, image.pixels);
  EXPECT_NEAR(page.info.dpi, 300, 0.01);
  EXPECT_EQ(file_count(folder), 1u);
  const Image part =
      open_document(encode_png(crop_view(image.view(), 10, 20, 30, 40)), "part").read_page(0).image;
  EXPECT_EQ(part.width, 30);
  EXPECT_EQ(pixel(part, 29, 39), pixel(image, 39, 59));
}

TEST(Encode, JpegIsCloseAndCarriesTheResolution) {
  const TempFolder folder;
  Image image(64, 48);
  for (int y = 0; y < 48; y++)
    for (int x = 0; x < 64; x++)
      for (int c = 0; c < 3; c++)
        image.row(y)[3 * x + c] = static_cast<uint8_t>(2 * x + y + 20 * c);
  EncodeOptions options;
  options.jpeg_quality = 95;
  options.dpi = 150;
  write_image(folder / "out.jpeg", image.view(), options);
  const Page page = read_image(folder / "out.jpeg");
  EXPECT_EQ(page.info.dpi, 150);
  double error = 0;
  for (size_t i = 0; i < image.pixels.size(); i++)
    error += std::abs(page.image.pixels[i] - image.pixels[i]);
  EXPECT_LT(error / static_cast<double>(image.pixels.size()), 3);
  EXPECT_EQ(encode_jpeg(image.view(), options), read_bytes(folder / "out.jpeg"));
}

TEST(Encode, RefusesWhatCannotBeStored) {
  const TempFolder folder;
  EXPECT_THROW(write_image(folder / "out.bmp", noisy_image(4, 4).view()), train::ConfigError);
  EXPECT_THROW(write_image(folder / "out.png", Image().view()), train::FormatError);
  EXPECT_THROW(write_image(folder / "out.jpg", Image(70000, 1, Bgr{}).view()), train::FormatError);
  EXPECT_THROW(write_image(folder / "none/out.jpg", noisy_image(4, 4).view()), train::DeviceError);
  EXPECT_EQ(file_count(folder), 0u);
}

TEST(Encode, FullDiskIsAnErrorAndLeavesTheOldFile) {
  const TempFolder folder;
  write_bytes(folder / "out.png", "old");
  const pid_t child = fork();
  if (child == 0) {  // a limit on file sizes fails writes as a full disk does
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{20000, 20000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      write_image(folder / "out.png", noisy_image(400, 400).view());
      ::_exit(1);
    } catch (const train::DeviceError& e) {
      ::_exit(std::string(e.what()).find("out.png: cannot be written") == std::string::npos ? 2
                                                                                            : 0);
    }
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(read_bytes(folder / "out.png"), (std::vector<uint8_t>{'o', 'l', 'd'}));
  EXPECT_EQ(file_count(folder), 1u);
}

TEST(AtomicFile, AppearsOnlyOnCommit) {
  const TempFolder folder;
  {
    AtomicFile file(folder / "a.txt");
    file.write("x", 1);
    EXPECT_FALSE(std::filesystem::exists(folder / "a.txt"));
  }
  EXPECT_EQ(file_count(folder), 0u);
  write_file(folder / "a.txt", std::string(200000, 'y'));
  EXPECT_EQ(read_bytes(folder / "a.txt").size(), 200000u);
  EXPECT_EQ(file_count(folder), 1u);
  // A name as long as file systems allow.
  write_file(folder / std::string(255, 'n'), "z");
  EXPECT_EQ(file_count(folder), 2u);
}

}  // namespace
}  // namespace ocr
