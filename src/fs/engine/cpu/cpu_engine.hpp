// SPDX-License-Identifier: Apache-2.0
// The engine of every machine: a command runs on the thread that gives it, on the host's own Store.
//
// Invariant: one attempt is one operation. There is nothing to bring over: the commit closes the
// barrier of the same Store and takes its copies there.
#pragma once

#include "fs/engine/engine.hpp"
#include "team/team.hpp"

namespace warren {

/// The worker number of the calling thread, for spreading allocation and gates.
ThreadTeam this_team();

class CpuEngine final : public Engine {
 public:
    /// Requires: `store` outlives this.
    explicit CpuEngine(const core::Store& store) : store_(store) {}

    std::string_view name() const override { return "cpu"; }
    void attempt(const ops::Command& command, ops::Reply& reply) override;
    Errc make_file_memory(u64 bytes, std::unique_ptr<FileMemory>& memory) override;

 private:
    const core::Store& store_;
};

}  // namespace warren
