// SPDX-License-Identifier: Apache-2.0
// mpirun within a step of Slurm leaves the step's variables to its processes, so what an MPI
// launcher says counts first. srun may tell PMIX_RANK besides its own.
#include "walk/launch.hpp"

#include <charconv>
#include <cstdlib>
#include <cstring>

namespace warren::walk {

namespace {

struct Launcher {
    const char* name;
    const char* size;  // null: it tells the rank only
    const char* rank;
    bool settles;  // what is said further below does not count
};

// SLURM_NTASKS is not among them: a script under sbatch has it and is one process.
constexpr Launcher launchers[] = {
    {"Open MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", true},
    {"MPICH, Intel MPI or another launcher with PMI", "PMI_SIZE", "PMI_RANK", true},
    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", false},
    {"a launcher with PMIx", nullptr, "PMIX_RANK", false},
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
        launch.is_open_mpi = &launcher == launchers;
        launch.rank = number_of(launcher.rank);
        launch.processes = launcher.size != nullptr ? number_of(launcher.size) : launch.rank + 1;
        if (launcher.settles || !launch.is_alone()) return launch;
    }
    return {};
}

std::string Launch::refusal() const {
    return std::string("started as one of several processes by ") + launcher + " (" + variable +
           " is " + std::to_string(number_of(variable)) +
           "), each of which would do all of the work: start it by Open MPI's mpirun, or as one "
           "process; or unset " +
           variable + " where each is to work by itself";
}

}  // namespace warren::walk
