// SPDX-License-Identifier: Apache-2.0
// What a backend supplies: it runs commands on a volume whose metadata it keeps where it computes,
// in the host's memory or in a GPU's. The volume above serves what commands ask for (blocks from
// the disk, commits) and knows no more of where they ran.
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
    /// before it tries again. Errc::retry asks for nothing but patience; need_split and need_prune
    /// are asked by an engine that leaves changes of a tree's structure to a command of their own
    /// (Verb::change_structure); what it can do by itself it has done.
    virtual void attempt(const ops::Command& command, ops::Reply& reply) = 0;
    /// As attempt() for each command. They may run in any order and at once: a caller that needs
    /// an order sends one batch after the other.
    virtual void attempt_many(std::span<const ops::Command> commands,
                              std::span<ops::Reply> replies) = 0;

    /// Memory of zeros for `bytes` of a file's contents, where programs of the engine reach it.
    virtual Errc make_file_memory(u64 bytes, std::unique_ptr<FileMemory>& memory) = 0;

    // What only some engines have; the same for as long as the engine lives.
    /// Null: it works on the host's Store.
    virtual EngineMemory* memory() { return nullptr; }
    /// Null: the volume runs bulk commands by its own threads, or by commands.
    virtual BulkCommands* bulk() { return nullptr; }
    /// Null: the volume gives commands.
    virtual ItemBatches* batches() { return nullptr; }
    /// Null: the volume makes batches of look-ups.
    virtual LookupStreams* lookups() { return nullptr; }
};

}  // namespace warren
