// SPDX-License-Identifier: Apache-2.0
// mpirun within a Slurm step leaves the step's variables in the environment of its processes, so
// the variables of an MPI launcher take precedence. srun without PMI or PMIx starts processes that
// cannot find each other.
#include "walk/launch.hpp"

#include <charconv>
#include <cstdlib>
#include <cstring>

namespace warren::walk {

namespace {

constexpr Mpi open_mpi = {"Open MPI", "libwarren-mpi-openmpi.so", "openmpi-bin"};
constexpr Mpi mpich = {"MPICH", "libwarren-mpi-mpich.so", "mpich"};

struct Launcher {
    const char* name;
    const char* size;  // number of processes; null: the launcher sets only the rank
    const char* rank;
    const char* rank_here;
    const Mpi* mpi;
    const char* needs;  // null, or a variable that must also be set for this MPI to be usable
    bool settles;       // the launchers after this one are ignored
};

// SLURM_NTASKS is not listed: sbatch sets it for a script that is one process.
constexpr Launcher launchers[] = {
    {"Open MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
     &open_mpi, nullptr, true},
    {"MPICH, Intel MPI or another launcher with PMI", "PMI_SIZE", "PMI_RANK", "MPI_LOCALRANKID",
     &mpich, nullptr, true},
    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_LOCALID", &open_mpi, "PMIX_RANK",
     false},
    {"a launcher with PMIx", nullptr, "PMIX_RANK", "PMIX_LOCAL_RANK", nullptr, nullptr, false},
};

u32 number_of(const char* variable) {
    const char* text = std::getenv(variable);
    u32 number = 0;
    if (text != nullptr) std::from_chars(text, text + std::strlen(text), number);
    return number;
}

}  // namespace

Launch launch_of_environment() {
    for (const Launcher& launcher : launchers) {
        Launch launch;
        launch.launcher = launcher.name;
        launch.variable = launcher.size != nullptr ? launcher.size : launcher.rank;
        if (std::getenv(launch.variable) == nullptr) continue;
        if (launcher.needs == nullptr || std::getenv(launcher.needs) != nullptr) {
            launch.mpi = launcher.mpi;
        }
        launch.is_first_here = number_of(launcher.rank_here) == 0;
        launch.rank = number_of(launcher.rank);
        launch.processes = launcher.size != nullptr ? number_of(launcher.size) : launch.rank + 1;
        if (launcher.settles || !launch.is_alone()) return launch;
    }
    return {};
}

std::string Launch::refusal() const {
    return std::string("started as one of several processes by ") + launcher + " (" + variable +
           " is " + std::to_string(number_of(variable)) +
           "), each of which would do all of the work: start it by mpirun of Open MPI or MPICH, by "
           "srun --mpi=pmix or --mpi=pmi2, or as one process; or unset " +
           variable + " where each is to work by itself";
}

std::string Launch::mismatch(u32 ranks) const {
    return "of the " + std::to_string(processes) + " processes that " + variable + " counts, " +
           mpi->name + " has joined " + std::to_string(ranks) +
           ": start it by the launcher of that MPI, or unset " + variable +
           " where each is to work by itself";
}

}  // namespace warren::walk
