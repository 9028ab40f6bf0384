// SPDX-License-Identifier: Apache-2.0
// libfuse takes its options as text, in which commas and backslashes of the image's name are
// escaped.
#include "apps/fuse/session.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>

#include "apps/fuse/device.hpp"
#include "apps/fuse/fusermount.hpp"
#include "apps/fuse/log.hpp"
#include "apps/fuse/operations.hpp"
#include "base/processors.hpp"

namespace warren::fuse {

namespace {

constexpr u32 fewest_threads = 16;  // several may wait in fsync at once

std::string escaped(const std::string& text) {
    std::string result;
    for (const char character : text) {
        if (character == ',' || character == '\\') result += '\\';
        result += character;
    }
    return result;
}

/// Options that libfuse does not know are set after mounting, by mount(2).
bool is_for_library(const std::string& flag) {
    return flag != "nodiratime" && flag != "diratime";
}

std::string library_options(const MountOptions& options) {
    std::string text = "fsname=" + escaped(options.image) + ",subtype=warren,default_permissions";
    text += ",max_read=" + std::to_string(request_limit_bytes);
    if (options.allow_other) text += ",allow_other";
    if (options.read_only) text += ",ro";
    if (options.access_times == AccessTimes::never) text += ",noatime";
    if (::geteuid() == 0) text += ",dev,suid";  // as for other file systems mounted by root
    for (const std::string& flag : options.flags) {
        if (is_for_library(flag)) text += "," + flag;
    }
    return text;
}

}  // namespace

bool has_ended(fuse_session* session) {
    pollfd device{fuse_session_fd(session), 0, 0};
    return ::poll(&device, 1, 0) > 0;
}

Session::~Session() {
    unmount();
    if (session_ != nullptr) fuse_session_destroy(session_);
}

bool Session::mount(const MountOptions& options, MountState& mount, std::string& error) {
    fuse_args arguments = FUSE_ARGS_INIT(0, nullptr);
    const fuse_lowlevel_ops callbacks = operations();
    const std::string text = library_options(options);
    if (fuse_opt_add_arg(&arguments, "warren") == 0 && fuse_opt_add_arg(&arguments, "-o") == 0 &&
        fuse_opt_add_arg(&arguments, text.c_str()) == 0) {
        session_ = fuse_session_new(&arguments, &callbacks, sizeof(callbacks), &mount);
    }
    fuse_opt_free_args(&arguments);
    if (session_ == nullptr) {
        error = last_library_complaint();
        return false;
    }
    if (fuse_session_mount(session_, options.mountpoint.c_str()) != 0) {
        error = last_library_complaint();
        if (error.empty()) error = "the kernel refused the mount";
        if (::geteuid() != 0 && find_fusermount().empty())
            error += std::string("; fusermount3 ") + fusermount_missing;
        return false;
    }
    mounted_ = true;
    place_.mountpoint = options.mountpoint;
    place_.number = mount_at(options.mountpoint);
    mount.session = session_;
    if (!install_device_layer(session_)) {
        error = "libfuse takes no layer below it";
        return false;
    }
    return true;
}

int Session::serve(const MountOptions& options) {
    fuse_loop_config* config = fuse_loop_cfg_create();
    const u32 threads =
        options.threads != 0 ? options.threads : std::max(fewest_threads, 2 * usable_processors());
    fuse_loop_cfg_set_clone_fd(config, 1);
    fuse_loop_cfg_set_max_threads(config, threads);
    const int code = fuse_session_loop_mt(session_, config);
    fuse_loop_cfg_destroy(config);
    return code < 0 ? -code : 0;
}

void Session::unmount() {
    if (!mounted_) return;
    mounted_ = false;
    // While the connection lives, libfuse unmounts whatever its path leads to.
    if (has_ended(session_) || !is_covered(place_)) fuse_session_unmount(session_);
}

}  // namespace warren::fuse
