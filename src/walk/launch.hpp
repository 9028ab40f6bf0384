// SPDX-License-Identifier: Apache-2.0
// What the environment says of the processes that were started together with this one.
//
// Invariant: what one process concludes, all of them conclude, but for those of a launcher that
// tells each its rank only: there the first one takes itself for alone, and the others are refused.
#pragma once

#include <string>

#include "warren/types.hpp"

namespace warren::walk {

/// An MPI for which there is a plug-in; an MPI with the same ABI can take its place.
struct Mpi {
    const char* name;
    const char* plugin;   // its file
    const char* package;  // of Debian, which brings the MPI
};

struct Launch {
    u32 processes = 1;
    u32 rank = 0;
    bool is_first_here = true;  // of the processes on this machine, as far as the launcher tells
    const Mpi* mpi = nullptr;   // whose launcher it is
    const char* launcher = "";
    const char* variable = "";  // says how many there are

    bool is_alone() const { return processes < 2; }
    /// Whether there are several processes, which cannot be ranks of one job here.
    bool is_refused() const { return !is_alone() && mpi == nullptr; }
    /// Why that is so, and what to do.
    std::string refusal() const;
    /// Why it is an error that the MPI has another number of ranks, and what to do.
    std::string mismatch(u32 ranks) const;
};

Launch launch_of_environment();

}  // namespace warren::walk
