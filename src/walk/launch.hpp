// SPDX-License-Identifier: Apache-2.0
// What the environment says about the processes that were started together with this one.
//
// Invariant: all processes of a job come to the same conclusion, except under a launcher that sets
// only the rank: there the first process takes itself to be alone, and the others are refused.
#pragma once

#include <string>

#include "warren/types.hpp"

namespace warren::walk {

/// An MPI for which there is a plug-in. An MPI with the same ABI can take its place.
struct Mpi {
    const char* name;
    const char* plugin;   // file name
    const char* package;  // Debian package that contains the MPI
};

struct Launch {
    u32 processes = 1;
    u32 rank = 0;
    bool is_first_here = true;  // first process on this machine, if the launcher sets that
    const Mpi* mpi = nullptr;   // the MPI that the launcher belongs to
    const char* launcher = "";
    const char* variable = "";  // the variable with the number of processes

    bool is_alone() const { return processes < 2; }
    /// Whether there are several processes that cannot be ranks of one job in this program.
    bool is_refused() const { return !is_alone() && mpi == nullptr; }
    /// An error message: why the processes are refused, and what to do.
    std::string refusal() const;
    /// An error message: the MPI has another number of ranks than the launcher says, and what to
    /// do.
    std::string mismatch(u32 ranks) const;
};

Launch launch_of_environment();

}  // namespace warren::walk
