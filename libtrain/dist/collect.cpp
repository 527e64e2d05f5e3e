#include "libtrain/dist/collect.h"

#include "libtrain/nn/layers.h"

namespace train::dist {
namespace {

class RankStatistics final : public BatchSync {
 public:
  explicit RankStatistics(Communicator& communicator) : communicator_(communicator) {}
  void sum(std::span<double> values) override { communicator_.all_reduce(values); }

 private:
  Communicator& communicator_;
};

}  // namespace

void broadcast_text(Communicator& communicator, std::string& text) {
  auto size = static_cast<uint64_t>(text.size());
  communicator.broadcast({reinterpret_cast<char*>(&size), sizeof(size)});
  text.resize(size);
  if (size > 0) communicator.broadcast({text.data(), text.size()});
}

void broadcast_state(Communicator& communicator, const nn::Module& model) {
  for (nn::StateEntry& e : model.state_dict()) {
    Tensor& t = e.variable.writable();
    communicator.broadcast({static_cast<char*>(t.raw()), t.bytes()});
  }
}

void synchronize_batch_norms(Communicator& communicator, const nn::Module& model) {
  const auto sync = std::make_shared<RankStatistics>(communicator);
  for (nn::Module* m : model.descendants())
    if (auto* norm = dynamic_cast<nn::BatchNorm2d*>(m)) norm->synchronize(sync);
}

}  // namespace train::dist
