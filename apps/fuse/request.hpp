// SPDX-License-Identifier: Apache-2.0
// One request of the kernel: its caller, its volume, and the replies in the volume's terms.
//
// Invariant: exactly one reply for each request. A reply that hands the kernel a reference counts
// it first, and takes it back if the kernel did not get the reply. What may have to be noted once
// the volume has changed has its memory before that.
#pragma once

#include <sys/stat.h>

#include "apps/fuse/library.hpp"
#include "apps/fuse/mount_state.hpp"

namespace warren::fuse {

/// How long the kernel may believe names and attributes: nobody but us changes them, and we tell.
inline constexpr double cache_seconds = 3600;

inline constexpr i64 second_ns = 1'000'000'000;

/// Adds to `change`, which sets the size, that the times modified and changed stay: the kernel
/// keeps those of a file itself, and has said so in the request if they are to change.
inline void keep_times(AttributeChange& change) {
    change.which |= AttributeChange::modified | AttributeChange::changed;
    change.new_modified = time_kept;
    change.new_changed = time_kept;
}

/// The answer to a call about a name: a directory that is gone has none, and neither has a file
/// that is. (Errc::stale would reach programs, which have never heard of it.)
inline Errc about_name(Errc code) {
    return code == Errc::stale ? Errc::no_entry : code;
}
inline Result<Attributes> about_name(const Result<Attributes>& result) {
    return result.code() == Errc::stale ? Result<Attributes>(Errc::no_entry) : result;
}

/// What stat(2) shows.
struct stat to_stat(const Attributes& attributes);

/// Whether a request takes what memory it may need before it does anything. The end of an open does
/// not: the kernel does not ask again, whatever it hears.
enum class Takes : u8 { memory, nothing };

class Request {
 public:
    /// `node`: what it is about; `name`: about which name in this directory, if it is about one.
    /// Throws std::bad_alloc before anything has happened.
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

    /// Ids for new inodes; the kernel has checked permission.
    Caller caller() const;
    u32 user() const { return fuse_req_ctx(raw_)->uid; }
    fuse_req_t raw() const { return raw_; }

    /// The inode behind a node. False, and the request is answered, if there is none any more.
    bool find(fuse_ino_t node, Handle& handle) const;

    /// Answers with an error number, or success. Errc::corrupt is EIO to programs, and told in the
    /// log.
    void reply(Errc code) const;
    /// Answers with an inode that `result` holds a reference to.
    void reply_entry(const Result<Attributes>& result) const;
    void reply_attributes(const Result<Attributes>& result) const;
    /// Tells the kernel that the name is not there, which it may remember.
    void reply_absent() const;

    /// Counts the reference for the kernel and fills what a reply with an entry needs. Requires:
    /// NodeTable::prepare() since the last entry; the first has it from the constructor.
    fuse_entry_param take_entry(const Attributes& attributes) const;
    /// Undoes `count` references after a reply that did not arrive.
    void give_back(fuse_ino_t node, u64 count) const;

    /// Adds to `change` that set-user-id and an executable's set-group-id go, if they are set.
    void drop_privileges(Handle handle, AttributeChange& change) const;

    /// Makes the inode's changes, and all others, durable.
    Errc sync(Handle handle) const;

    /// Notes an access to the inode's contents, as the mount's options ask for. `in_cache` says
    /// that the kernel may serve it without asking again, so it has to be told of the new time.
    void note_access(Handle handle, fuse_ino_t node, bool in_cache) const;

    /// Whether writers are still to be told what the volume refused of their files: not once there
    /// is room again.
    bool tells_refusals() const;

    MountState& mount;
    LiveVolume::Access volume;

 private:
    /// How long the kernel may believe attributes of `node`: not while a writer is to be told of a
    /// refusal, for it is told where the kernel asks for them.
    double attribute_seconds(fuse_ino_t node) const;

    fuse_req_t raw_;
    fuse_ino_t node_;
    const char* name_;
};

}  // namespace warren::fuse
