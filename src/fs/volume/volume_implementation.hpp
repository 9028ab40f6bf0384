// SPDX-License-Identifier: Apache-2.0
// An open volume: the disk, the engine's memory, the loader and the committer, and the driver that
// runs operations until they have an answer.
//
// Invariant: an operation that answers one of the engine's wishes (Errc from 4096 on) has changed
// nothing; the driver serves the wish with no lock held and starts it again.
#pragma once

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "fs/cache/meta_loader.hpp"
#include "fs/core/directory.hpp"
#include "fs/core/permission.hpp"
#include "fs/engine/cpu/crew.hpp"
#include "fs/engine/cpu/store_memory.hpp"
#include "fs/ops/unlink.hpp"
#include "fs/volume/committer.hpp"
#include "warren/volume.hpp"

namespace warren {

using CpuOperation = core::Operation<ThreadTeam>;

/// Nanoseconds since 1970.
i64 now_nanoseconds();

/// The worker number of the calling thread, for spreading allocation and gates.
ThreadTeam this_team();

inline Errc code_of(Errc code) {
    return code;
}
template <class T>
Errc code_of(const Result<T>& result) {
    return result.code();
}

core::Credentials credentials_of(const Caller& caller);

class VolumeImplementation {
 public:
    VolumeImplementation(std::unique_ptr<Disk> disk, const format::Superblock& superblock,
                         const OpenOptions& options);

    /// Reads the frame table and gets ready. The disk's journal has been replayed.
    Errc start();
    /// Frees what was removed but still open when the volume was last in use.
    Errc reclaim_orphans();
    Errc close();

    /// Runs `body(op)` until it has an answer for the caller.
    template <class Body>
    auto run(const Body& body) {
        Attempts attempts;
        for (;;) {
            CpuOperation op(this_team(), store());
            auto result = body(op);
            const Wish wish{code_of(result), op.needed_place, op.needed_inode, op.needed_key,
                            op.may_use_reserve};
            core::finish(op);
            if (is_final(wish.code) && wish.code != Errc::corrupt) return result;
            const Errc served = serve(wish, attempts);
            if (served != Errc::ok) return decltype(result)(served);
        }
    }

    /// Does what a removal left to do: prunes an empty leaf, frees an orphan step by step.
    Errc settle(const ops::Removed& removed);
    /// Frees an inode without names, whatever hangs on it.
    Errc reclaim(Handle handle);

    /// Sets the size of a file; what lies behind it goes. `now` = 0 leaves the times.
    Errc resize_file(Handle file, u64 size, i64 now);

    const core::Store& store() { return memory_.store(); }
    Disk& disk() { return *disk_; }
    Crew& crew() { return crew_; }
    Committer& committer() { return *committer_; }
    MetaLoader& loader() { return *loader_; }
    const format::Superblock& superblock() const { return superblock_; }
    bool is_read_only() const { return options_.read_only; }
    Errc commit();

    /// Keeps the blocks of a file in place while data move: shared for reads and writes, exclusive
    /// for what gives blocks back.
    std::shared_mutex& data_lock(u64 inode) { return data_locks_[inode % data_lock_count]; }

 private:
    struct Attempts {
        u32 retries = 0;
        u32 damaged = 0;
        u32 crowded = 0;
        bool committed_for_space = false;
    };
    struct Wish {
        Errc code;
        u64 place;
        u64 inode;
        u64 key;
        bool may_use_reserve;
    };
    static constexpr u64 data_lock_count = 1024;

    Errc serve(const Wish& wish, Attempts& attempts);
    Errc serve_structure(const Wish& wish);
    Errc add_inode_frame();
    Errc load_frame_table();
    void adopt_frame(u64 frame);

    std::unique_ptr<Disk> disk_;
    format::Superblock superblock_;
    OpenOptions options_;
    StoreMemory memory_;
    std::unique_ptr<MetaLoader> loader_;
    std::unique_ptr<Committer> committer_;
    std::mutex inode_frame_mutex_;
    std::unique_ptr<std::shared_mutex[]> data_locks_;
    bool closed_ = false;
    Crew crew_;
};

}  // namespace warren
