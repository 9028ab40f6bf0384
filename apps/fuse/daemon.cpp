// SPDX-License-Identifier: Apache-2.0
// The order matters twice. At the start the mount is reported as ready only after a request has
// passed through it and the control socket exists. At the end nothing may use the volume after it
// is closed, and the processes that wait for that are told last. A thread that is stuck in a
// notification uses the session, so nothing is destroyed then: the process exits at once.
#include "apps/fuse/daemon.hpp"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "apps/fuse/backing_device.hpp"
#include "apps/fuse/control_server.hpp"
#include "apps/fuse/device.hpp"
#include "apps/fuse/housekeeping.hpp"
#include "apps/fuse/late_seek.hpp"
#include "apps/fuse/log.hpp"
#include "apps/fuse/memory_keeper.hpp"
#include "apps/fuse/mount_table.hpp"
#include "apps/fuse/recovery.hpp"
#include "apps/fuse/session.hpp"
#include "apps/fuse/watchdog.hpp"
#include "base/notice.hpp"

namespace warren::fuse {

namespace {

/// The mount's options that concern the volume.
OpenOptions open_options(const MountOptions& options) {
    OpenOptions how;
    how.read_only = options.read_only;
    how.engine = options.engine;
    how.disk = options.disk;
    how.data = options.data;
    how.errors = options.errors;
    how.meta_buffer_bytes = options.meta_buffer_bytes;
    how.file_buffer_bytes = options.file_buffer_bytes;
    how.device = options.device.value_or(0);
    how.device_memory_bytes = options.device_memory_bytes;
    how.dedup = options.dedup;
    how.dedup_index_bytes = options.dedup_index_bytes;
    how.dedup_fill_bytes = options.dedup_fill_bytes;
    return how;
}

/// Opens the image; read-only if it is write-protected and rw was not given.
std::unique_ptr<Volume> open_image(MountOptions& options, OpenOptions& how, std::string& warning,
                                   Failure& failure) {
    auto volume = options.open(options.image, how, failure);
    const bool is_protected = failure.code == Errc::read_only || failure.code == Errc::access ||
                              failure.code == Errc::not_permitted;
    if (volume || options.read_only || options.writable || !is_protected) return volume;
    how.read_only = true;
    Failure second;
    volume = options.open(options.image, how, second);
    if (volume) {
        options.read_only = true;
        warning = options.image + " is write-protected, mounted read-only";
    }
    return volume;
}

/// Sets up the kernel's page cache, and derives from it when the volume counts as nearly full.
void bound_what_is_held_back(MountState& mount, u32 device_major, u32 device_minor) {
    const u64 volume_bytes = mount.volume.access()->statistics().blocks * 4096;
    const u64 credit_bytes =
        set_up_page_cache(socket_name(device_major, device_minor), volume_bytes);
    mount.full_watch.start(credit_bytes);
}

/// Finishes the start once requests are served. Returns "", or why the mount does not work.
std::string finish_start(const MountOptions& options, MountState& mount, const MountedPlace& place,
                         ControlServer& server, Watchdog& watchdog) {
    const Errc code = watchdog.finish_mount();
    if (code != Errc::ok) {
        return options.mountpoint +
               ": the mount does not answer: " + std::strerror(static_cast<int>(code));
    }
    std::string error;
    if (!server.start(place.device_major, place.device_minor, error)) {
        log_line("no control socket, bulk commands on the mount are off: " + error);
    }
    bound_what_is_held_back(mount, place.device_major, place.device_minor);
    return "";
}

/// Serves a mounted session until it ends.
void serve_session(const MountOptions& options, MountState& mount, Session& session,
                   ControlServer& server, Watchdog& watchdog, const StartReport& report,
                   const std::string& warning) {
    std::string error;
    const auto place = top_mount_on(options.mountpoint);
    if (!place || watchdog.guard(*place) != Errc::ok) {
        log_line(options.mountpoint +
                 ": the kernel's fusectl is out of reach: if this daemon is killed, processes may "
                 "wait for it until 'warren umount -f'");
    }
    const std::jthread committer = start_committer(mount, options.commit_seconds);
    const std::jthread keeper = start_memory_keeper(mount, options.commit_seconds != 0);
    const Terminator terminator(mount, watchdog, ::pthread_self(), options.foreground);
    std::thread starter([&] {
        error = finish_start(options, mount, place.value_or(MountedPlace()), server, watchdog);
        if (error.empty()) return report(EXIT_SUCCESS, warning);
        ::kill(::getpid(), SIGTERM);
    });
    const int code = session.serve(options);
    starter.join();
    if (!error.empty()) report(exit_mount_failed, error);
    if (code != 0) log_line(options.mountpoint + ": " + std::strerror(code));
}

int exit_code(const MountState& mount, Errc closed) {
    if (closed == Errc::ok) return EXIT_SUCCESS;
    log_line(mount.image +
             ": could not be closed cleanly: " + std::strerror(static_cast<int>(closed)));
    return EXIT_FAILURE;
}

/// Exits while a notification is under way, since its thread uses the session.
void exit_if_stuck(const MountState& mount, Errc closed, Invalidator& invalidator) {
    if (invalidator.has_ended()) return;
    log_line(mount.mountpoint +
             ": the volume is closed, but a process of this mount holds the lock of a directory; "
             "this daemon is gone when that process is");
    std::_Exit(exit_code(mount, closed));
}

}  // namespace

int serve_mount(const MountOptions& asked, const StartReport& report) {
    block_ending_signals();
    set_notice_sink([](const std::string& line) { log_line(line); });
    MountOptions options = asked;
    std::string warning, error;
    Failure failure;
    Recovery recovery;
    OpenOptions how = open_options(options);
    how.report = [&](const std::string& line) { recovery.note_loss(options.image + ": " + line); };
    how.warn = [&](const std::string& line) { log_line(options.image + ": " + line); };
    DamageLog damage(options.image);
    how.refused = [&](const DiskRefusal& refusal) { damage.note_refusal(refusal); };
    Watchdog watchdog;  // before there are other threads
    if (const Errc code = watchdog.start(options); code != Errc::ok) {
        report(exit_mount_failed,
               std::string("no process for a watchdog: ") + std::strerror(static_cast<int>(code)));
        return exit_mount_failed;
    }
    auto volume = open_image(options, how, warning, failure);
    if (!volume) {
        report(exit_mount_failed, failure.message);
        return exit_mount_failed;
    }
    MountState mount(std::move(volume), options, how, damage);
    mount.mountpoint = options.mountpoint;
    mount.allow_other = options.allow_other;
    if (options.access_times != AccessTimes::unchanged) {
        mount.access_times.store(options.access_times, std::memory_order_relaxed);
    }
    Errc closed = Errc::ok;
    {
        Session session;
        if (!session.mount(options, mount, error)) {
            report(exit_mount_failed, options.mountpoint + ": " + error);
            static_cast<void>(mount.volume.close());
            return exit_mount_failed;
        }
        Invalidator invalidator(session.get(), [&](u64 parent, const std::string& name) {
            const auto directory = mount.nodes.find(parent);
            return directory &&
                   mount.volume.access()->lookup({0, 0, {}, 0, false}, *directory, name);
        });
        mount.invalidator = &invalidator;
        auto late_seeker = std::make_unique<LateSeeker>(session.get());
        mount.late_seeker = late_seeker.get();
        const auto server = std::make_shared<ControlServer>(mount, invalidator);
        recovery.start(mount);
        serve_session(options, mount, session, *server, watchdog, report, warning);
        invalidator.end();
        server->stop();
        recovery.stop();
        late_seeker.reset();  // before the volume closes
        session.unmount();
        closed = mount.volume.close();
        server->report_closed(closed);
        exit_if_stuck(mount, closed, invalidator);
    }
    return exit_code(mount, closed);
}

}  // namespace warren::fuse
