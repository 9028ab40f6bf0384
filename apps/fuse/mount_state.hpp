// SPDX-License-Identifier: Apache-2.0
// The state that all callbacks of one mount share.
//
// Invariant: exists from before the first request until after the last.
#pragma once

#include <atomic>
#include <string>

#include "apps/fuse/cached_writes.hpp"
#include "apps/fuse/control.hpp"
#include "apps/fuse/damage_log.hpp"
#include "apps/fuse/full_watch.hpp"
#include "apps/fuse/library.hpp"
#include "apps/fuse/live_volume.hpp"
#include "apps/fuse/loss_notices.hpp"
#include "apps/fuse/mount.hpp"
#include "apps/fuse/node_table.hpp"
#include "apps/fuse/open_numbers.hpp"
#include "apps/fuse/unsaved_writes.hpp"

namespace warren::fuse {

class Invalidator;
class LateSeeker;

struct MountState {
    /// `how`: the options with which the volume was opened. `damage_log` must outlive this object.
    MountState(std::unique_ptr<Volume> opened, const MountOptions& options, const OpenOptions& how,
               DamageLog& damage_log)
        : volume(std::move(opened), options.image, how, options.open),
          nodes(volume.access()->root()),
          unsaved(volume.access()->engine() != name_of(EngineChoice::cpu)),
          damage(damage_log),
          image(options.image),
          read_only(options.read_only) {}

    LiveVolume volume;
    NodeTable nodes;
    OpenNumbers opens;
    UnsavedWrites unsaved;
    CachedWrites cached_writes;
    LossNotices refused;  // of dirty pages that the full volume did not take
    FullWatch full_watch;
    DamageLog& damage;
    std::string image;       // absolute
    std::string mountpoint;  // absolute
    fuse_session* session = nullptr;
    LateSeeker* late_seeker = nullptr;   // set while requests are served
    Invalidator* invalidator = nullptr;  // likewise
    std::atomic<bool> read_only;
    std::atomic<AccessTimes> access_times{AccessTimes::relative};
    std::atomic<u64> verbs_served{0};     // control verbs, including turns of rings
    std::atomic<bool> can_expire{false};  // see Invalidator; known after the kernel's first request
    bool allow_other = false;

    static MountState& of(fuse_req_t raw) {
        return *static_cast<MountState*>(fuse_req_userdata(raw));
    }

    /// Returns `count` references that the kernel had to a node. Allocates no memory.
    void give_back(Volume& from, u64 node, u64 count) {
        if (const auto gone = nodes.forget(node, count)) from.forget(gone->handle, gone->held);
    }
    /// Returns the result of `commit()`, which is logged if it failed.
    template <class Commit>
    Errc make_durable(const Commit& commit) {
        const Errc code = unsaved.commit(commit);
        // If the engine can be lost, the volume may continue on another engine.
        damage.note_commit(code, !unsaved.may_have_losses());
        return code;
    }
    /// Makes all changes durable.
    Errc sync() {
        return make_durable([&] { return volume.access()->sync(); });
    }
};

}  // namespace warren::fuse
