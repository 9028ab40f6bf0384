// SPDX-License-Identifier: Apache-2.0
// Logging must not fail the request that met the damage: without memory for the line, a later
// request writes it.
#include "apps/fuse/damage_log.hpp"

#include <cstring>

#include "apps/fuse/log.hpp"
#include "base/out_of_memory.hpp"
#include "base/quote.hpp"

namespace warren::fuse {

void DamageLog::note(u64 inode, std::string_view name) {
    static_cast<void>(or_no_memory([&] {
        const std::lock_guard lock(mutex_);
        if (told_.size() >= lines_max) return;
        const std::string number = std::to_string(inode);
        const std::string object =
            name.empty() ? "inode " + number
                         : shell_quoted(name) + " in the directory with inode " + number;
        const std::string line =
            image_ + ": a request about " + object +
            " met damaged metadata and was answered with EIO; unmount the volume and run "
            "warren fsck --repair";
        if (!told_.emplace(inode, name).second) return;
        log_line(line);
        if (told_.size() == lines_max) {
            log_line(image_ + ": no more of its damage is told here; warren fsck names all");
        }
    }));
}

void DamageLog::note_commit(Errc code, bool is_final) {
    // Common case: nothing to change.
    if (last_commit_.load(std::memory_order_relaxed) == code) return;
    if (code == Errc::ok) return last_commit_.store(code, std::memory_order_relaxed);
    static_cast<void>(or_no_memory([&] {
        const std::string line = image_ + ": changes could not be made durable: " +
                                 std::strerror(static_cast<int>(code));
        if (is_final && code != Errc::no_memory) {
            tell_the_end(code, line, DiskRefusal{}.remedy());
        } else {
            last_commit_.store(code, std::memory_order_relaxed);
            log_line(line);
        }
    }));
}

void DamageLog::note_refusal(const DiskRefusal& refusal) {
    tell_the_end(refusal.code, image_ + ": " + refusal.text(), refusal.remedy());
}

/// Logs once what has made the volume read-only, in the first thread that gets here.
void DamageLog::tell_the_end(Errc code, const std::string& why, const std::string& remedy) {
    const std::string line =
        why + "; the volume is read-only from now on: unmount it and " + remedy;
    last_commit_.store(code, std::memory_order_relaxed);
    if (!has_ended_.exchange(true, std::memory_order_relaxed)) log_line(line);
}

}  // namespace warren::fuse
