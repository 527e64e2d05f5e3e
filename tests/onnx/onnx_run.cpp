// onnx_run [--no-fuse] [--threads N] [--all FOLDER] [--profile RUNS] MODEL IN.npy... -- OUT.npy...:
// runs a model on tensors from files. --all writes every value that the run computes as
// FOLDER/<number>.npy with an index; --profile prints the mean time of a run and of its slowest
// steps. For comparisons with other runtimes.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>

#include "libocr/onnx/import.h"
#include "libtrain/graph/net.h"
#include "tests/support/npy.h"

namespace {

struct Arguments {
  bool fuse = true;
  int threads = 1, profile = 0;
  std::string all, model;
  std::vector<std::string> inputs, outputs;
};

Arguments parse(int argc, char** argv) {
  Arguments a;
  bool after = false;
  for (int i = 1; i < argc; ++i) {
    const std::string s = argv[i];
    if (s == "--no-fuse")
      a.fuse = false;
    else if (s == "--threads" && i + 1 < argc)
      a.threads = std::atoi(argv[++i]);
    else if (s == "--profile" && i + 1 < argc)
      a.profile = std::atoi(argv[++i]);
    else if (s == "--all" && i + 1 < argc)
      a.all = argv[++i];
    else if (s == "--")
      after = true;
    else if (a.model.empty())
      a.model = s;
    else
      (after ? a.outputs : a.inputs).push_back(s);
  }
  return a;
}

// The mean of `runs` runs without clocks inside, then the steps that take 1 % or more of a run.
void profile(const train::Net& net, train::Context& context, const std::vector<train::Feed>& feeds,
             int runs) {
  using Clock = std::chrono::steady_clock;
  std::vector<train::Tensor> outputs;
  const auto start = Clock::now();
  for (int i = 0; i < runs; ++i) net.run(context, feeds, outputs);
  const std::chrono::duration<double> total = Clock::now() - start;
  std::vector<train::StepProfile> steps;
  context.profile = &steps;
  for (int i = 0; i < runs; ++i) net.run(context, feeds, outputs);
  context.profile = nullptr;
  std::printf("%.3f ms per run\n", total.count() * 1e3 / runs);
  std::ranges::sort(steps, std::ranges::greater{}, &train::StepProfile::seconds);
  for (const train::StepProfile& s : steps)
    if (s.seconds >= .01 * total.count())
      std::printf("%8.3f ms  %5.1f GFLOP/s  %-40s %s  %s\n", s.seconds * 1e3 / runs,
                  s.seconds > 0 ? s.flops / s.seconds * 1e-9 : 0, s.op.c_str(), s.shape.c_str(),
                  s.node.c_str());
}

int run(const Arguments& a) {
  const auto net = train::Net::compile(ocr::import_onnx(a.model), {.fuse = a.fuse});
  std::vector<train::Feed> feeds;
  for (const std::string& path : a.inputs) feeds.push_back({train::test::read_npy(path)});
  train::Context context;
  std::ofstream index;
  int count = 0;
  if (!a.all.empty()) {
    index.open(a.all + "/index.txt");
    context.inspect = [&](const std::string& node, const std::string& value,
                          const train::Tensor& t) {
      train::test::write_npy(a.all + "/" + std::to_string(count) + ".npy", t);
      index << count++ << '\t' << node << '\t' << value << '\n';
    };
  }
  train::ThreadPool pool(a.threads);
  const train::PoolScope scope(&pool);
  std::vector<train::Tensor> outputs;
  net->run(context, feeds, outputs);
  if (a.profile > 0) profile(*net, context, feeds, a.profile);
  for (size_t i = 0; i < a.outputs.size() && i < outputs.size(); ++i)
    train::test::write_npy(a.outputs[i], outputs[i]);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Arguments a = parse(argc, argv);
    if (a.model.empty()) {
      std::cerr << "usage: onnx_run [--no-fuse] [--threads N] [--all FOLDER] [--profile RUNS] "
                   "MODEL IN.npy... -- "
                   "OUT.npy...\n";
      return 2;
    }
    return run(a);
  } catch (const std::exception& e) {
    std::cerr << "error: " << e.what() << '\n';
    return 1;
  }
}
