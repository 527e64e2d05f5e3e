// Small exchanges between ranks, made of a communicator's operations.
#pragma once
#include <memory>
#include <string>

#include "libtrain/dist/communicator.h"
#include "libtrain/nn/module.h"

namespace train::dist {

/// Rank 0's text for all.
void broadcast_text(Communicator& communicator, std::string& text);
/// Rank 0's parameters and running statistics for all.
void broadcast_state(Communicator& communicator, const nn::Module& model);
/// Batch normalisation of this model takes its statistics, and their part of the gradient, over the
/// batches of all ranks. The communicator outlives the model's last step.
void synchronize_batch_norms(Communicator& communicator, const nn::Module& model);

}  // namespace train::dist
