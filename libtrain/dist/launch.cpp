#include "libtrain/dist/launch.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

namespace train::dist {
namespace {

std::optional<int> number(const char* text) {
  if (!text) return {};
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [at, error] = std::from_chars(text, end, value);
  if (error != std::errc() || at != end || value < 0) return {};
  return value;
}

// Names of the variables; a launcher is there when both rank and size are.
struct Names {
  const char *by, *rank, *size, *local_size;
};
constexpr Names kLaunchers[] = {
    {"Open MPI's mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"MPICH's mpiexec", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"},
    {"MVAPICH's mpirun", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE"},
    // Of a step that srun started; a batch script itself has no step of several tasks.
    {"Slurm's srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"},
};

}  // namespace

std::optional<Launch> find_launch(const std::function<const char*(const char*)>& get) {
  for (const Names& n : kLaunchers) {
    const auto rank = number(get(n.rank)), size = number(get(n.size));
    if (!rank || !size || *size < 1 || *rank >= *size) continue;
    return Launch{.by = n.by,
                  .rank = *rank,
                  .size = *size,
                  .local_size = number(get(n.local_size)).value_or(1),
                  .bound = get("OMPI_MCA_orte_bound_at_launch") != nullptr};
  }
  return {};
}

std::optional<Launch> find_launch() {
  return find_launch([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace train::dist
