// Writes what `ocr train` would learn from to standard output, for a peer that is to train on the
// same (scripts/bench/torch_twin.py): the weights at the start, then the batches of all epochs in
// their order, each with its learning rate. Every record is a safetensors file.
// usage: train_batches CONFIG    CONFIG: config.yml of a run's folder
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "libocr/training/optimizer.h"
#include "libocr/training/task.h"
#include "libtrain/config/training.h"
#include "libtrain/core/error.h"
#include "libtrain/data/loader.h"
#include "libtrain/train/archive.h"

namespace {

using namespace train;

void put(const ArchiveWriter& record) {
  const std::string bytes = record.bytes();
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size() || std::fflush(stdout))
    throw Error("nobody reads the batches any more");
}

void run(const std::string& path) {
  const config::TrainingConfig config = config::load_training_config(path, {});
  std::vector<std::string> warnings;
  const auto data = ocr::make_dataset(config, true, warnings);
  config::ReadContext context{false, {}};
  const auto model = ocr::models::build_model(config.architecture, ocr::classes_of(*data), context);
  model->initialize(static_cast<uint64_t>(config.global.seed));
  const auto sampler =
      ocr::make_sampler({.config = config, .train = *data, .samples = data->size()});
  const auto batches = static_cast<int64_t>(sampler->epoch(0).size());
  const int64_t epochs = config.global.epoch_num;
  const optim::Schedule schedule = ocr::make_schedule(config.optimizer, batches, epochs);

  ArchiveWriter start;
  for (const nn::StateEntry& e : model->state_dict()) {
    Tensor t = e.variable.value();
    start.tensor("model." + e.name, t);
  }
  Tensor updates = Tensor::from<int64_t>({1}, {batches * epochs});
  start.tensor("batch.updates", updates);
  put(start);

  data::DataLoader loader(*data, *sampler, {.seed = static_cast<uint64_t>(config.global.seed)});
  int64_t step = 0;
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    loader.start(epoch);
    while (std::optional<data::Batch> batch = loader.next()) {
      ArchiveWriter record;
      for (size_t i = 0; i < batch->fields.size(); ++i)
        record.tensor("batch." + data->keys()[i], batch->fields[i]);
      Tensor rate = Tensor::from<float>({1}, {static_cast<float>(schedule.at(step++))});
      record.tensor("batch.learning_rate", rate);
      put(record);
    }
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) throw Error("usage: train_batches CONFIG");
  run(argv[1]);
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "train_batches: %s\n", e.what());
  return 2;
}
