// Trains the small net in a folder, going on from what is there; to be killed and started again.
// usage: resume_probe FOLDER [EPOCHS]; prints the SHA-256 of the final checkpoint.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "libtrain/core/sha256.h"
#include "tests/train/digits_run.h"

int main(int argc, char** argv) try {
  if (argc < 2) return std::fprintf(stderr, "usage: resume_probe FOLDER [EPOCHS]\n"), 2;
  train::ThreadPool pool(2);
  const train::PoolScope scope(&pool);
  train::test::DigitOptions options;
  options.folder = argv[1];
  options.samples = 400;
  options.epochs = argc > 2 ? std::atoi(argv[2]) : 4;
  options.save_every = 3;
  train::test::DigitRun run(options);
  run.trainer->resume_latest();
  const train::TrainResult result = run.trainer->run();
  if (result.end != train::TrainResult::End::kFinished) return 3;
  std::ifstream in(options.folder + "/latest.safetensors", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  std::printf("%s\n", train::sha256_hex(bytes).c_str());
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "resume_probe: %s\n", e.what());
  return 1;
}
