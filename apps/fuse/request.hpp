// SPDX-License-Identifier: Apache-2.0
// One request of the kernel: its caller, the volume, and replies in terms of the volume.
//
// Invariant: exactly one reply for each request. A reply that gives the kernel a reference counts
// it first, and undoes that if the kernel did not receive the reply. Memory for records that may be
// necessary after the volume has changed is allocated before.
#pragma once

#include <sys/stat.h>

#include "apps/fuse/library.hpp"
#include "apps/fuse/mount_state.hpp"

namespace warren::fuse {

/// How long the kernel may cache names and attributes: only the daemon changes them, and it
/// notifies the kernel.
inline constexpr double cache_seconds = 3600;

inline constexpr i64 second_ns = 1'000'000'000;

/// For a change that sets the size: keeps modification and change time. The kernel maintains those
/// of a file itself, and sets them in the request if they are to change.
inline void keep_times(AttributeChange& change) {
    change.which |= AttributeChange::modified | AttributeChange::changed;
    change.new_modified = time_kept;
    change.new_changed = time_kept;
}

/// The error of a call about a name: a removed directory has no entries, and a removed file has no
/// name. (Errc::stale would reach programs, which do not expect it.)
inline Errc about_name(Errc code) {
    return code == Errc::stale ? Errc::no_entry : code;
}
inline Result<Attributes> about_name(const Result<Attributes>& result) {
    return result.code() == Errc::stale ? Result<Attributes>(Errc::no_entry) : result;
}

/// The result of stat(2).
struct stat to_stat(const Attributes& attributes);

/// Whether a request allocates the memory that it may need before it does anything. Releasing an
/// open file does not: the kernel ignores errors and never repeats the request.
enum class Takes : u8 { memory, nothing };

class Request {
 public:
    /// `node` is the inode that the request is about, `name` the name in this directory, if any.
    /// Throws std::bad_alloc before anything has changed.
    Request(fuse_req_t raw, fuse_ino_t node, const char* name = "", Takes takes = Takes::memory)
        : mount(MountState::of(raw)),
          volume(mount.volume.access()),
          raw_(raw),
          node_(node),
          name_(name) {
        if (takes == Takes::nothing) return;
        NodeTable::prepare();
        UnsavedWrites::prepare();
    }

    /// The owner for new inodes; the kernel has checked permission.
    Caller caller() const;
    u32 user() const { return fuse_req_ctx(raw_)->uid; }
    fuse_req_t raw() const { return raw_; }

    /// The inode of a node. Returns false, after replying, if it does not exist any more.
    bool find(fuse_ino_t node, Handle& handle) const;

    /// Replies with an error or success. Errc::corrupt becomes EIO for programs, and is logged.
    void reply(Errc code) const;
    /// Replies with an inode that `result` holds a reference to.
    void reply_entry(const Result<Attributes>& result) const;
    void reply_attributes(const Result<Attributes>& result) const;
    /// Replies that the name does not exist, which the kernel may cache.
    void reply_absent() const;

    /// Counts the kernel's reference and fills in an entry for a reply. Requires:
    /// NodeTable::prepare() since the last entry; for the first one the constructor has called it.
    fuse_entry_param take_entry(const Attributes& attributes) const;
    /// Undoes `count` references after a reply that was not delivered.
    void give_back(fuse_ino_t node, u64 count) const;

    /// Adds to `change` that set-user-id and an executable's set-group-id are cleared, if set.
    void drop_privileges(Handle handle, AttributeChange& change) const;

    /// Makes the changes of this inode, and all others, durable.
    Errc sync(Handle handle) const;

    /// Records an access to the inode's contents according to the mount's options. `in_cache`: the
    /// kernel may serve it again without a request, so it must be told the new time.
    void note_access(Handle handle, fuse_ino_t node, bool in_cache) const;

    /// Whether refused writes are still to be reported to writers: not once there is room again.
    bool tells_refusals() const;

    MountState& mount;
    LiveVolume::Access volume;

 private:
    /// How long the kernel may cache the attributes of `node`: not at all while a writer must be
    /// told of a refused write, since it gets the error when the kernel requests the attributes.
    double attribute_seconds(fuse_ino_t node) const;

    fuse_req_t raw_;
    fuse_ino_t node_;
    const char* name_;
};

}  // namespace warren::fuse
