// SPDX-License-Identifier: Apache-2.0
// This program's statx(2) returns the number of the mount's root in place of 1, and the number of a
// chosen file in place of another's.
#include "tests/apps/served_control.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/check.hpp"

namespace {

/// Replaces the inode number 1.
std::atomic<warren::u64> number_of_one = 1;
/// An inode number, and its replacement.
std::atomic<warren::u64> file_number = 0;
std::atomic<warren::u64> number_of_file = 0;

}  // namespace

/// The system call, except for these numbers. All code linked into this program calls this
/// function.
int statx(int directory, const char* path, int flags, unsigned mask, struct statx* facts) noexcept {
    const long code = ::syscall(SYS_statx, directory, path, flags, mask, facts);
    if (code == 0 && facts->stx_ino == 1) facts->stx_ino = number_of_one;
    if (code == 0 && facts->stx_ino == file_number) facts->stx_ino = number_of_file;
    return static_cast<int>(code);
}

namespace warren::fuse::test {

ServedControl::ServedControl(MountState& state, Invalidator& invalidator)
    : server_(std::make_shared<ControlServer>(state, invalidator)),
      root_(::open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC)),
      file_(::open("/proc/version", O_PATH | O_CLOEXEC)) {
    struct statx facts {};
    WARREN_CHECK(::statx(root_.get(), "", AT_EMPTY_PATH, STATX_INO, &facts) == 0);
    WARREN_CHECK(facts.stx_ino == 1);
    number_of_one = state.volume.access()->root().inode;
    server_->start_unheard(facts.stx_dev_major, facts.stx_dev_minor);
}

int ServedControl::file(u64 inode) {
    struct stat facts {};
    WARREN_CHECK(::fstat(file_.get(), &facts) == 0 && S_ISREG(facts.st_mode));
    number_of_file = inode;
    file_number = facts.st_ino;
    return file_.get();
}

ServedControl::~ServedControl() {
    while (server_.use_count() > 1)
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    number_of_one = 1;
    file_number = 0;
}

std::array<Descriptor, 2> make_connection() {
    int ends[2] = {-1, -1};
    WARREN_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    return {Descriptor(ends[0]), Descriptor(ends[1])};
}

}  // namespace warren::fuse::test
