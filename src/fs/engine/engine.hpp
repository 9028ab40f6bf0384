// SPDX-License-Identifier: Apache-2.0
// What a backend supplies: it runs commands on a volume whose metadata it keeps where it computes,
// in the host's memory or in a GPU's. The volume above serves what commands retry_reason for
// (blocks from the disk, commits) and knows no more of where they ran.
//
// An engine with memory of its own keeps what commands have applied; the host's Store is then no
// more than what the loader needs. Invariant: a cut is a state between two commands, never within
// one.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "fs/bulk/batch/batch.hpp"
#include "fs/bulk/scan/scan_call.hpp"
#include "fs/core/store.hpp"
#include "fs/engine/file_memory.hpp"
#include "fs/engine/lookup_stream.hpp"
#include "fs/ops/command.hpp"
#include "fs/ops/commit_snapshot.hpp"
#include "warren/volume.hpp"

namespace warren {

/// Frames, of each of its two kinds, that one call of Engine::publish() takes.
constexpr u64 publish_max = 4096;

/// What a commit takes: the dirty blocks of one moment, which lie as copies in the engine's memory.
struct CommitSnapshot {
    std::span<u64> places;  // room for as many as a transaction holds
    u64 count = 0;          // places that are filled in
    ops::CutCounters counters{};
    u64 held_ns = 0;  // so long no command could begin
};

class Engine {
 public:
    virtual ~Engine() = default;

    /// "cpu" or "cuda".
    virtual std::string_view name() const = 0;

    /// Tries a command. The reply's code is final, or a retry_reason that the host must serve
    /// before it tries again. Errc::retry asks for nothing but patience; need_split and need_prune
    /// are asked by an engine that leaves changes of a tree's structure to a command of their own
    /// (Verb::change_structure); what it can do by itself it has done.
    virtual void attempt(const ops::Command& command, ops::Reply& reply) = 0;
    /// As attempt() for each command. They may run in any order and at once: whoever needs an
    /// order sends one batch after the other.
    virtual void attempt_many(std::span<const ops::Command> commands,
                              std::span<ops::Reply> replies) = 0;

    // Commits, one at a time: hold_steps(), cut(), release_steps(), fetch_cut(),
    // allow_generations(), publish(). Asked only of an engine that has memory of its own.
    /// Waits for bulk steps to end and lets no other begin until release_steps(). Commands go on.
    virtual void hold_steps() {}
    virtual void release_steps() {}
    /// Waits for what commands apply; calls `at_rest` while nothing changes; copies all dirty
    /// blocks within the engine's memory, where they count as clean from then on; lets commands go
    /// on. Errc::no_memory, and all is as it was; Errc::io if the device is lost; Errc::no_space if
    /// they are more than a transaction holds.
    virtual Errc cut(const std::function<void()>& /*at_rest*/, CommitSnapshot& /*cut*/) {
        return Errc::not_supported;
    }
    /// Brings the copies of the last cut to the host: block i is that of places[i].
    virtual Errc fetch_cut(format::Block* /*blocks*/) { return Errc::not_supported; }
    /// After the cut is durable and at its places: its blocks may leave the meta buffer.
    virtual Errc release_cut() { return Errc::ok; }
    /// After the cut is durable: lets what it freed be given out again, and ends frames of inodes
    /// that had none left in it. At most publish_max of each.
    virtual Errc publish(std::span<ops::CommittedFrame> /*frames*/,
                         std::span<const u64> /*empty_inode_frames*/) {
        return Errc::not_supported;
    }
    /// Sets the StoreState's generation_limit.
    virtual Errc allow_generations(u64 /*limit*/) { return Errc::not_supported; }
    /// No command changes anything any more (Errc::read_only).
    virtual Errc forbid() { return Errc::not_supported; }

    /// Shows commands a block that the loader has brought into the host's Store.
    virtual Errc show_block(u64 place) = 0;

    // A meta buffer in the engine's memory.
    /// So many blocks has it; 0: there is none, all metadata fit.
    virtual u64 meta_buffer_blocks() const { return 0; }
    /// Puts a block there that the loader has brought, and says what went for it.
    /// Errc::need_commit if everything is in use or dirty. One caller at a time.
    virtual Errc place_block(u64 /*place*/, const format::Block& /*block*/,
                             ops::Evicted& /*evicted*/) {
        return Errc::not_supported;
    }
    /// Copies a block from there. Errc::need_block if it is not resident. One caller at a time.
    virtual Errc read_block(u64 /*place*/, format::Block& /*block*/) { return Errc::not_supported; }

    /// Gives memory to metadata frames (Errc::need_frame), so that more of them can be claimed.
    virtual Errc add_frames() = 0;

    /// Memory of zeros for `bytes` of a file's contents, where programs of the engine reach it.
    virtual Errc make_file_memory(u64 bytes, std::unique_ptr<FileMemory>& memory) = 0;

    /// Brings the counters of the host's StoreState up to date, as statfs(2) asks for them.
    virtual Errc refresh_counters() { return Errc::ok; }

    // Batches of items of one kind, in a form of their own; see fs/bulk/batch/batch.hpp. One at a
    // time: open_batch() waits for the one before. Errc::not_supported: the volume gives commands.
    /// The memory of a batch, to be filled in before run_batch(); it stays until close_batch().
    virtual Result<ops::BatchMemory> open_batch(const ops::BatchShape& /*shape*/) {
        return Errc::not_supported;
    }
    /// Items [part.begin, part.end), whose names are the words of `part`, are filled in: the engine
    /// may bring them to where it works. By any thread, all items once or none, before run_batch().
    virtual void send_batch(const ops::BatchPart& /*part*/) {}
    /// Runs items [window.begin, window.end) or the first of them, up to window.done. Else the
    /// answer is a retry_reason, and nothing has changed; or another code: the items must be
    /// commands.
    virtual Errc run_batch(const ops::BatchHeader& /*header*/, ops::BatchWindow& /*window*/) {
        return Errc::not_supported;
    }
    virtual void close_batch() {}

    /// Takes the memory that a stream of look-ups needs, which may take a while, so the caller
    /// holds nothing that others wait for. By any thread, at any time. An error: there will be no
    /// stream, and the volume makes batches of them.
    virtual Errc prepare_lookups() { return Errc::not_supported; }
    /// A stream of look-ups on behalf of `caller`, until close_lookups() by the same thread. One at
    /// a time: it waits for the one before. An error: as above. Requires: prepare_lookups() was ok.
    virtual Result<LookupStream*> open_lookups(const core::Credentials& /*caller*/) {
        return Errc::not_supported;
    }
    virtual void close_lookups() {}

    // Bulk operations. Errc::not_supported: the volume does them with its own threads, by commands.
    /// Frees the directory `root`, which hangs on the orphan directory, and all below it.
    virtual Errc remove_tree(u64 /*root*/, Removal& /*removal*/) { return Errc::not_supported; }
    /// Takes the directory that `detach` (a command of Verb::detach_tree) names out of its parent
    /// and frees it and all below it; `removed` is what is left to do behind it.
    virtual Errc remove_named_tree(const ops::Command& /*detach*/, Removal& /*removal*/,
                                   ops::Removed& /*removed*/) {
        return Errc::not_supported;
    }
    /// Visits, measures or checks what lies below a directory. With an error, what was found
    /// before it may have been delivered.
    virtual Errc scan(const ScanCall& /*scan*/) { return Errc::not_supported; }
    /// Packs a directory's tree, which had `blocks` blocks a moment ago; the counts before and
    /// after are the caller's.
    virtual Errc rebuild(const core::Credentials& /*caller*/, Handle /*directory*/,
                         u64 /*blocks*/) {
        return Errc::not_supported;
    }
};

}  // namespace warren
