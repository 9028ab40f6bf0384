// SPDX-License-Identifier: Apache-2.0
// The interface of a backend, which runs commands on a volume whose metadata it keeps in the host's
// memory or in a GPU's. The volume above serves the retry reasons of commands (reads blocks from
// the disk, commits) and does not depend on where they ran.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "fs/engine/bulk_commands.hpp"
#include "fs/engine/engine_memory.hpp"
#include "fs/engine/file_memory.hpp"
#include "fs/engine/lookup_stream.hpp"
#include "fs/ops/command.hpp"

namespace warren {

class Engine {
 public:
    virtual ~Engine() = default;

    /// "cpu" or "cuda".
    virtual std::string_view name() const = 0;

    /// Tries a command. The reply's code is final, or a retry reason that the host must serve
    /// before it tries again. After Errc::retry the host just tries again. An engine that does not
    /// split nodes or remove empty leaves itself replies need_split or need_prune, which
    /// Verb::change_structure serves.
    virtual void attempt(const ops::Command& command, ops::Reply& reply) = 0;
    /// Calls attempt() for each command. They may run in any order and at the same time, other than
    /// here; a caller that needs an order sends one batch after the other.
    virtual void attempt_many(std::span<const ops::Command> commands,
                              std::span<ops::Reply> replies) {
        for (std::size_t i = 0; i < commands.size(); ++i)
            attempt(commands[i], replies[i]);
    }

    /// Allocates zeroed memory for `bytes` of a file's contents, where the engine's programs (for
    /// CUDA: kernels) can access it.
    virtual Errc make_file_memory(u64 bytes, std::unique_ptr<FileMemory>& memory) = 0;

    // Null for an engine without the feature. The answers never change.
    /// Null: the engine works on the host's Store.
    virtual EngineMemory* memory() { return nullptr; }
    /// Null: the volume runs bulk commands on its own threads, or as single commands.
    virtual BulkCommands* bulk() { return nullptr; }
    /// Null: the volume runs each item as a command.
    virtual ItemBatches* batches() { return nullptr; }
    /// Null: the volume runs lookups as batches.
    virtual LookupStreams* lookups() { return nullptr; }
};

}  // namespace warren
