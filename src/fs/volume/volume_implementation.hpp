// SPDX-License-Identifier: Apache-2.0
// An open volume: the disk, the host's memory, the loader, the committer and an engine, and the
// driver that runs commands on the engine until they have a result.
//
// Invariant: a command or operation that returns a retry reason (Errc from 4096 on) has changed
// nothing. The driver serves the reason without holding a lock, and starts the command again.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <concepts>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file_clock.hpp"
#include "fs/cache/file_buffer.hpp"
#include "fs/cache/meta_loader.hpp"
#include "fs/commit/committer.hpp"
#include "fs/core/directory.hpp"
#include "fs/core/permission.hpp"
#include "fs/engine/cpu/cpu_engine.hpp"
#include "fs/engine/cpu/store_memory.hpp"
#include "fs/engine/cpu/thread_pool.hpp"
#include "fs/engine/replica/replica_queries.hpp"
#include "fs/ops/execute.hpp"
#include "fs/volume/mapped_files.hpp"
#include "fs/volume/orphan_reclaimer.hpp"
#include "fs/volume/pending_prunes.hpp"
#include "fs/volume/removal_turns.hpp"
#include "fs/volume/volume_disk.hpp"
#include "warren/volume.hpp"

namespace warren {

using CpuOperation = core::Operation<ThreadTeam>;
/// Writes the bytes of a piece to the disk.
using PieceWriter = std::function<Errc(const ops::Piece&)>;

inline core::Credentials credentials_of(const Caller& caller) {
    return {caller.user,          caller.group,
            caller.groups.data(), static_cast<u32>(caller.groups.size()),
            caller.umask,         caller.check};
}

/// Acts without permission checks.
inline constexpr Caller unchecked{.check = false};

inline void set_subject(ops::Command& command, Handle handle, const Caller& caller = unchecked) {
    command.caller = credentials_of(caller);
    command.handle = handle;
}

inline ops::Command command_on(Handle handle, const Caller& caller = unchecked) {
    ops::Command command;
    set_subject(command, handle, caller);
    return command;
}

/// The length of a name for operations. Any name that is too long counts as one byte too long.
inline u32 length_of(std::string_view name) {
    return static_cast<u32>(std::min<std::size_t>(name.size(), format::name_length_max + 1));
}

inline void set_name(ops::Command& command, std::string_view name) {
    command.name = name.data();
    command.name_length = length_of(name);
}

/// As set_subject(), for a command on an entry of the directory, or on an attribute, of this name.
inline void set_named(ops::Command& command, Handle handle, std::string_view name,
                      const Caller& caller = unchecked) {
    set_subject(command, handle, caller);
    set_name(command, name);
}

class InlineDedup;
struct DedupStep;

class VolumeImplementation {
 public:
    VolumeImplementation(std::unique_ptr<Disk> disk, const format::Superblock& superblock,
                         const OpenOptions& options);
    ~VolumeImplementation();

    /// Reads the frame table and starts the engine. Requires: the journal has been replayed.
    /// Errc::no_device if the requested engine is not available; engine_failure() gives the reason.
    /// Tests pass a `hash_mask`: names keep only these bits of their hash.
    Errc start(u64 hash_mask = ~u64{0});
    const std::string& engine_failure() const { return engine_failure_; }
    /// See Volume::engine_note().
    std::string engine_note() const;
    /// See Volume::disk_note().
    const std::string& disk_note() const { return disk_note_; }
    void set_disk_note(const std::string& note) { disk_note_ = note; }
    /// Replaces the engine of start() by one with its own memory. Requires: no operation has run.
    void use_engine(std::unique_ptr<Engine> engine);
    /// See StoreMemory::mark_changes(). Requires: works_on_host().
    Errc mark_changes() { return memory_.mark_changes(); }
    /// How a replica of this volume works with it. Neither memory nor reports are set.
    ReplicaOptions replica_options();
    /// Begins to answer scans by `replica` where that is faster. Requires: no scan runs.
    void use_replica(std::unique_ptr<ReplicaQueries> replica);
    /// Null if there is none.
    ReplicaQueries* replica() { return replica_.get(); }
    /// Calls `action` while no operation applies.
    void freeze(const std::function<void()>& action);
    /// Starts to deduplicate writes, if that was requested. Errc::not_supported if the volume
    /// cannot have shared blocks. Requires: no operation runs.
    Errc start_dedup();
    /// Null if writes are not deduplicated.
    InlineDedup* dedup() { return dedup_.get(); }
    /// Makes the options `errors` and `refused` effective. Requires: no operation runs.
    void watch_disk();
    /// Starts the OrphanReclaimer; `name` is the volume's, for messages. Requires: nothing else
    /// uses the volume yet.
    void start_reclaimer(const std::string& name);
    /// Waits until the OrphanReclaimer is done.
    void finish_reclaiming();
    /// Whether the caller is the OrphanReclaimer's thread and must leave the rest to the next
    /// opening.
    bool must_stop_reclaiming() const {
        return reclaimer_ != nullptr && reclaimer_->is_stopping() && reclaimer_->is_own_thread();
    }
    Errc close();

    /// Runs `command` on the engine until it has a final result, and returns the reply's code.
    Errc execute(const ops::Command& command, ops::Reply& reply);
    /// As execute(), for commands that do not depend on each other. Returns their replies.
    std::vector<ops::Reply> execute_many(std::span<const ops::Command> commands);
    /// Calls `run()`, which runs ItemBatches::run_batch() for the window, and serves its retry
    /// reasons. Errc::need_commit: not even an empty journal could hold the changes.
    Errc run_batch(const std::function<Errc()>& run, const ops::BatchWindow& window);

    /// The result of `verb` with the arguments of `command`. On the host's Store it calls the
    /// operation directly, because some operations take less time than writing a reply.
    template <ops::Verb verb>
    auto ask(const ops::Command& command) {
        if (!works_on_host()) return ask_engine<verb>(command);
        return run([&](CpuOperation& op) { return ops::answer<verb>(op, command); });
    }
    /// As above; `fill(command)` sets the arguments. On the host's Store it is as fast as a direct
    /// call of the operation.
    template <ops::Verb verb, std::invocable<ops::Command&> Fill>
    [[gnu::always_inline]] inline auto ask(const Fill& fill) {
        if (!works_on_host()) return ask_engine_filled<verb>(fill);
        ops::Command command;
        fill(command);
        return run([&](CpuOperation& op) { return ops::answer<verb>(op, command); });
    }
    /// As above, for verbs that write contents; `writer` writes the bytes of a piece to the disk.
    /// Requires: the caller excludes other users of the file's data, unless works_on_host().
    template <ops::Verb verb, class Writer>
    auto ask(const ops::Command& command, const Writer& writer) {
        using Answer = decltype(ops::answer<verb>(std::declval<CpuOperation&>(), command, writer));
        if (works_on_host()) {
            return run([&](CpuOperation& op) { return ops::answer<verb>(op, command, writer); });
        }
        ops::Command copy = command;
        copy.verb = verb;
        ops::Reply reply;
        static_cast<void>(execute_contents(copy, reply, std::cref(writer)));
        Answer answer = Errc::io;
        ops::get_answer(reply, answer);
        return answer;
    }

    /// Whether the engine works on the host's Store. If so, run() may be used, and data are written
    /// before their blocks become visible.
    bool works_on_host() const { return engine_memory_ == nullptr; }

    /// Runs `body(op)` on the host's Store until it has a final result. Requires: works_on_host().
    template <class Body>
    [[gnu::always_inline]] inline auto run(const Body& body) {
        Attempts attempts;
        for (;;) {
            CpuOperation op(this_team(), store());
            auto result = body(op);
            const RetryReason retry_reason{code_of(result), op.needed_place, op.needed_inode,
                                           op.needed_key, op.may_use_reserve};
            core::finish(op);
            if (is_final(retry_reason.code) && retry_reason.code != Errc::corrupt) return result;
            const Errc served = serve(retry_reason, attempts);
            if (served != Errc::ok) return decltype(result)(served);
        }
    }

    /// The inode with this number, whatever its generation is. Errc::stale if it is not in use.
    Result<Handle> handle_of(u64 inode);
    Result<Attributes> attributes_of(u64 inode);
    Result<Attributes> attributes(Handle handle);
    /// Removes a name by `verb`, which is unlink or remove_directory, and settles the removal.
    template <ops::Verb verb>
    Errc remove_name(const Caller& caller, Handle directory, std::string_view name) {
        const Result<ops::Removed> removed = ask<verb>([&](ops::Command& command) {
            set_named(command, directory, name, caller);
            command.now = now_nanoseconds();
        });
        return removed ? settle(*removed) : removed.code();
    }
    /// See Volume::read_directory().
    Errc read_directory(Handle directory, u64 cookie,
                        const std::function<bool(const DirectoryEntry&)>& emit);
    /// Finishes a removal: prunes an empty leaf and frees an orphan.
    Errc settle(const ops::Removed& removed);
    /// As settle(), but an empty leaf may stay until the next commit: its block cannot be reused
    /// earlier, and an idle engine need not be woken for it.
    Errc settle_soon(const ops::Removed& removed);
    /// Frees an inode without names, and everything below it.
    Errc reclaim(Handle handle);
    /// As reclaim(), but not for a directory with names; with `although_open` even if it is open.
    /// After the deadline the rest of it stays.
    Errc reclaim_by_steps(Handle handle, bool although_open = false,
                          std::chrono::steady_clock::time_point deadline =
                              std::chrono::steady_clock::time_point::max());
    /// Called when the volume is closed and no file is open: frees inodes without names, except
    /// directories that still hold names, and inodes that take too long. The next opening frees
    /// those.
    void reclaim_at_close();
    /// Frees an emptied directory in the orphan directory, unless the thread that closed it last is
    /// freeing it. Does not wait for that thread, which may wait for this one.
    Errc reclaim_unless_taken(Handle directory, bool although_open);
    /// Frees a directory in the orphan directory, and everything below it.
    Errc remove_detached(Handle root, Removal& removal, const ProgressCallback& progress = {});
    /// Unlinks the files in a directory that is being removed, each by an operation of its own.
    /// Adds their number to `files`.
    Errc remove_leftovers(u64 directory, u64& files);
    /// As remove_detached(), but name by name: slower, and needs space only for open files.
    /// Requires: the caller has the turn for `directory`, or a bulk step of its own has left it.
    Errc remove_by_names(u64 directory, Removal& removal);
    /// remove_by_names() that also counts the freed blocks.
    Errc remove_by_commands(u64 directory, Removal& removal);
    /// Runs `remove` and adds the blocks that it has freed to `removal`.
    Errc count_freed(Removal& removal, const std::function<Errc()>& remove);
    /// Scans by the engine if it can, by the replica if that is predicted to be faster, otherwise
    /// by the thread pool.
    Errc scan(const ScanCall& call);
    /// The same with `on_cpu` for the last of them.
    Errc scan_by(const ScanCall& call, const ReplicaQueries::CpuScan& on_cpu);
    /// Errc::access or Errc::not_permitted if `caller` could not remove everything below `root`.
    Errc check_removable(const core::Credentials& caller, Handle root, core::TreeCheck check);
    /// Detaches a tree (a command of Verb::detach_tree) if the caller has all rights in all its
    /// directories. Errc::canceled if the tree must be removed name by name: the caller has only
    /// the rights that rm(1) needs, or rights keep changing.
    Result<Handle> detach_permitted(ops::Command detach);

    // Contents. Requires: the file's data lock.
    /// Sets the size of a file and frees the blocks beyond it. `now` = 0 keeps the times.
    Errc resize_locked(Handle file, u64 size, i64 now);
    /// Extends the file to at least this size.
    Errc grow_locked(Handle file, u64 size, i64 now);
    /// Makes the blocks that a range covers completely holes. Zeroes the range if it is in the
    /// inode.
    Errc punch_locked(Handle file, u64 offset, u64 length, i64 now);
    /// Makes whole blocks a hole of the file, also beyond its end. Its mappings stay as they are.
    /// False if zeros must be written instead: there is no space for the list of extents, or blocks
    /// are reserved beyond the end. Requires: what lies between the end of the file and of its last
    /// block is zero.
    Result<bool> make_hole_locked(Handle file, u64 offset, u64 length, i64 now);
    /// Where block `block` of the file is.
    Result<ops::Mapping> map_block(Handle file, u64 block);
    /// Whether `blocks` blocks of the file are still at `place`, so that bytes read there belong to
    /// the file. Even under its data lock a file can lose blocks: shared ones that are overwritten
    /// as a whole, or all if it is removed while not open. After the next commit another file may
    /// have them.
    bool still_maps(Handle file, u64 block, u64 place, u64 blocks);
    /// Reads from `offset` on into `target`. Returns the number of bytes, fewer at the end of the
    /// file.
    Result<u64> read_contents(Handle file, u64 offset, std::span<std::byte> target);
    /// See Volume::hold().
    Errc hold_contents(Handle file, u64 offset, u64 length, HeldContents& held);
    /// Bytes of a file that lie in its inode, from `at` on, and zeros behind them.
    static void copy_inline(const ops::InlineBytes& bytes, u64 at, std::span<std::byte> target);
    Result<u64> write_contents(Handle file, u64 offset, std::span<const std::byte> source, u64 size,
                               i64 now);
    /// Looks up bytes before they are written, if writes are deduplicated. Returns `step` if some
    /// of them may be shared, otherwise null. Needs no lock.
    DedupStep* look_up(Handle file, u64 offset, std::span<const std::byte> source, Awaited awaited,
                       DedupStep& step);
    /// Writes bytes anywhere and copies them to the file's mappings, except to the mapping `from`
    /// which they come from. `step` is the result of look_up(). Requires: the exclusive data lock.
    Result<u64> write_alone(Handle file, u64 offset, std::span<const std::byte> source, i64 now,
                            const FileMapping* from = nullptr, DedupStep* step = nullptr);
    Errc load_mapping(FileMapping& mapping, u64 at, u64 length);

    // Mappings. These functions take the file's data lock.
    MappedFiles& mapped_files() { return mapped_files_; }
    Errc map_contents(const MapOptions& options, FileMapping& mapping);
    void forget_mapping(FileMapping& mapping);
    Errc write_mapping(FileMapping& mapping, u64 offset, u64 length);
    /// See Volume::release().
    Errc release(Handle handle);

    /// The host's Store. If the engine does not work on it, it has the frame table and the inode
    /// bitmaps as of the last commit, and blocks that were loaded.
    const core::Store& store() { return memory_.store(); }
    Engine& engine() { return *engine_; }
    /// The meta buffer in the engine's own memory; null if there is none.
    MetaBuffer* engine_buffer() const {
        return engine_memory_ == nullptr ? nullptr : engine_memory_->meta_buffer();
    }
    /// Updates the counters of the host's StoreState.
    Errc refresh_counters() {
        return engine_memory_ == nullptr ? Errc::ok : engine_memory_->refresh_counters();
    }
    Disk& disk() { return disk_; }
    /// Null if contents are not cached in memory.
    FileBuffer* file_buffer() { return file_buffer_.get(); }
    /// Reads contents. `run_end` is the address at which the run of the file's blocks ends.
    Errc read_data(u64 place, std::span<std::byte> target, u64 run_end);
    /// Writes contents.
    Errc write_data(u64 place, std::span<const std::byte> source);
    /// The maximum number of bytes that one step of a command may write.
    u64 data_step_bytes() const { return data_step_bytes_; }
    ThreadPool& thread_pool() { return thread_pool_; }
    Committer& committer() { return *committer_; }
    MetaLoader& loader() { return *loader_; }
    const format::Superblock& superblock() const { return superblock_; }
    bool is_read_only() const { return options_.read_only; }
    /// Errc::not_supported if the volume was made without support for shared blocks.
    Errc check_sharing() const {
        const u64 features = superblock_.features_read_only_compatible;
        return (features & format::feature_shared_blocks) != 0 ? Errc::ok : Errc::not_supported;
    }
    bool is_dedup_default() const {
        const u64 features = superblock_.features_compatible;
        return (features & format::feature_dedup) != 0 && check_sharing() == Errc::ok;
    }
    Errc commit();
    /// See Committer::commit_and_free().
    Errc commit_and_free(bool looks_on_disk);
    /// Stops all changes and commits, because of `error`.
    void end_changes(Errc error);
    /// See Volume::has_unsaved().
    bool has_unsaved();
    /// See Committer::note_data().
    void note_data(FreshData fresh_data) {
        if (committer_ != nullptr) committer_->note_data(fresh_data);
    }
    /// See Committer::note_shared_data().
    void note_shared_data() {
        if (committer_ != nullptr) committer_->note_shared_data();
    }

    /// The references that a caller of lookup() or create() takes. None on a read-only volume, from
    /// which nothing can be removed.
    u64 references_for(Hold hold, bool open) const {
        if (options_.read_only) return 0;
        return (hold == Hold::yes ? ops::one_lookup : 0) + (open ? ops::one_open : 0);
    }

    /// Keeps the blocks of a file in place during I/O: shared for reads and for writes of whole
    /// blocks, exclusive for all other changes of contents.
    static constexpr u64 data_lock_count = 1024;
    std::shared_mutex& data_lock(u64 inode) { return data_locks_[inode % data_lock_count]; }

 private:
    struct Attempts {
        u32 retries = 0;
        u32 damaged = 0;
        u32 crowded = 0;
        bool awaited_snapshot = false;
        bool committed_for_space = false;
        u64 orphans_freed = 0;  // when committed_for_space was set
    };
    struct RetryReason {
        Errc code;
        u64 place;
        u64 inode;
        u64 key;
        bool may_use_reserve;
    };

    template <ops::Verb verb>
    auto ask_engine(const ops::Command& arguments) {
        ops::Command command = arguments;
        ops::Reply reply;
        command.verb = verb;
        static_cast<void>(execute(command, reply));
        decltype(ops::answer<verb>(std::declval<CpuOperation&>(), command)) answer = Errc::io;
        ops::get_answer(reply, answer);
        return answer;
    }
    template <ops::Verb verb, class Fill>
    [[gnu::noinline]] auto ask_engine_filled(const Fill& fill) {
        ops::Command command;
        fill(command);
        return ask_engine<verb>(command);
    }
    Errc execute_contents(const ops::Command& command, ops::Reply& reply,
                          const PieceWriter& writer);
    /// Calls `attempt()`, which sets `reply`, until there is a final result.
    template <class Attempt>
    Errc drive(ops::Reply& reply, const Attempt& attempt) {
        Attempts attempts;
        for (;;) {
            attempt();
            if (is_final(reply.code) && reply.code != Errc::corrupt) return reply.code;
            const Errc served = serve({reply.code, reply.needed_place, reply.needed_inode,
                                       reply.needed_key, reply.may_use_reserve},
                                      attempts);
            if (served != Errc::ok) return reply.code = served;
        }
    }
    class ManyRetries;
    bool may_find_space(Attempts& attempts);
    Errc serve(const RetryReason& retry_reason, Attempts& attempts);
    Errc serve_block(u64 place, Attempts& attempts);
    Errc settle_block(Errc loaded, u64 place, Attempts& attempts);
    void load_blocks(std::span<const u64> places, std::span<Errc> answers);
    Errc serve_structure(const RetryReason& retry_reason);
    void prune_pending();
    /// Serves Errc::need_frame. Not on the host's Store, which has memory for every frame.
    Errc add_frames() {
        WARREN_CHECK(!works_on_host());
        return engine_memory_->add_frames();
    }
    Errc add_inode_frame();
    Errc start_engine();
    Errc start_cuda_engine();
    void load_metadata();
    void start_replica();
    Errc add_replica(bool is_loaded, std::string& failure);
    Errc load_frame_table();
    void make_file_buffer();

    VolumeDisk disk_;
    format::Superblock superblock_;
    OpenOptions options_;
    RemovalTurns removal_turns_;
    StoreMemory memory_;
    std::unique_ptr<MetaLoader> loader_;
    std::unique_ptr<FileBuffer> file_buffer_;
    u64 data_step_bytes_ = ~u64{0};
    std::unique_ptr<Committer> committer_;
    std::unique_ptr<Engine> engine_;
    EngineMemory* engine_memory_ = nullptr;  // null: the engine works on the host's Store
    std::string engine_failure_;
    std::string disk_note_;
    std::mutex inode_frame_mutex_;
    FairLock pieces_;  // shared while a piece is written; exclusive during a snapshot
    std::atomic<u64> pieces_under_way_{0};  // commands whose piece may still have to be hidden
    std::atomic<bool> must_forbid_engine_{false};
    std::unique_ptr<std::shared_mutex[]> data_locks_;
    bool closed_ = false;
    PendingPrunes pending_prunes_;
    ThreadPool thread_pool_;
    MappedFiles mapped_files_;
    std::unique_ptr<InlineDedup> dedup_;
    std::unique_ptr<ReplicaQueries> replica_;
    std::unique_ptr<OrphanReclaimer> reclaimer_;  // declared last: its thread uses the others
};

[[gnu::always_inline]] inline Result<Attributes> VolumeImplementation::attributes(Handle handle) {
    return ask<ops::Verb::get_attributes>([&](ops::Command& command) { command.handle = handle; });
}

}  // namespace warren
