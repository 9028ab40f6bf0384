// SPDX-License-Identifier: Apache-2.0
// libfuse takes a path /dev/fd/NUMBER as a mount point for a file descriptor, and reads one whole
// request at a time from it, as a packet socket delivers them.
#include "tests/apps/fake_kernel.hpp"

#include <gtest/gtest.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "apps/fuse/log.hpp"

namespace warren::fuse::test {

namespace {

constexpr int patience_ms = 20'000;

}  // namespace

FakeKernel::FakeKernel(MountState& mount) {
    std::array<int, 2> ends{-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    own_end_ = ends[0];
    MountOptions options;
    options.mountpoint = "/dev/fd/" + std::to_string(ends[1]);
    std::string error;
    EXPECT_TRUE(session_.mount(options, mount, error)) << error;
    fuse_init_in hello{};
    hello.major = FUSE_KERNEL_VERSION;
    hello.minor = FUSE_KERNEL_MINOR_VERSION;
    hello.flags = FUSE_BIG_WRITES | FUSE_DO_READDIRPLUS | FUSE_WRITEBACK_CACHE | FUSE_MAX_PAGES;
    const Answer answer = ask(FUSE_INIT, 0, Body().add(hello));
    EXPECT_EQ(answer.error, 0);
}

FakeKernel::~FakeKernel() {
    hang_up();
}

void FakeKernel::hang_up() {
    if (own_end_ >= 0) ::close(own_end_);
    own_end_ = -1;
}

void FakeKernel::send(u32 opcode, u64 node, const Body& body) {
    fuse_in_header header{};
    header.len = static_cast<u32>(sizeof header + body.bytes().size());
    header.opcode = opcode_ = opcode;
    header.unique = unique_ += 2;
    header.nodeid = node_ = node;
    std::string request(reinterpret_cast<const char*>(&header), sizeof header);
    request += body.bytes();
    ASSERT_EQ(::send(own_end_, request.data(), request.size(), 0), ssize_t(request.size()));
}

void FakeKernel::serve() {
    fuse_buf request{};
    ASSERT_GT(fuse_session_receive_buf(session(), &request), 0);
    fuse_session_process_buf(session(), &request);
    std::free(request.mem);
}

Answer FakeKernel::receive() {
    std::vector<char> bytes(1 << 18);
    Answer answer;
    bool has_answer = false;
    // The reply may come from another thread; a second one, if any, comes at once.
    for (pollfd waiting{own_end_, POLLIN, 0};
         ::poll(&waiting, 1, has_answer ? 0 : patience_ms) > 0;) {
        const ssize_t got = ::recv(own_end_, bytes.data(), bytes.size(), 0);
        fuse_out_header header{};
        if (got < ssize_t(sizeof header)) break;
        std::memcpy(&header, bytes.data(), sizeof header);
        if (header.unique == 0) continue;  // a notification
        EXPECT_EQ(header.unique, unique_) << "an answer to no request";
        EXPECT_FALSE(has_answer) << "two answers";
        has_answer = true;
        answer.error = -header.error;
        answer.body.assign(bytes.data() + sizeof header, size_t(got) - sizeof header);
    }
    EXPECT_TRUE(has_answer) << "no answer";
    const bool ends = opcode_ == FUSE_RELEASE || opcode_ == FUSE_RELEASEDIR;  // even if it fails
    if (answer.error == 0 || ends) count(answer);
    return answer;
}

void FakeKernel::count(const Answer& answer) {
    switch (opcode_) {
        case FUSE_LOOKUP:
        case FUSE_MKNOD:
        case FUSE_MKDIR:
        case FUSE_SYMLINK:
        case FUSE_LINK:
            if (answer.as<fuse_entry_out>().nodeid != 0) {
                ++references_[answer.as<fuse_entry_out>().nodeid];
            }
            break;
        case FUSE_CREATE:
        case FUSE_TMPFILE: {
            const u64 node = answer.as<fuse_entry_out>().nodeid;
            fuse_open_out opened{};
            std::memcpy(&opened, answer.body.data() + sizeof(fuse_entry_out), sizeof opened);
            ++references_[node];
            opens_.push_back({node, opened.fh, false});
            break;
        }
        case FUSE_OPEN:
        case FUSE_OPENDIR:
            opens_.push_back({node_, answer.as<fuse_open_out>().fh, opcode_ == FUSE_OPENDIR});
            break;
        case FUSE_READDIRPLUS:
            count_listed(answer.body);
            break;
        case FUSE_RELEASE:
        case FUSE_RELEASEDIR:
            std::erase_if(opens_, [&](const Open& open) { return open.node == node_; });
            break;
        default:
            break;
    }
}

void FakeKernel::count_listed(const std::string& listing) {
    for (size_t at = 0; at + sizeof(fuse_direntplus) <= listing.size();) {
        fuse_direntplus entry{};
        std::memcpy(&entry, listing.data() + at, sizeof entry);
        if (entry.entry_out.nodeid != 0) ++references_[entry.entry_out.nodeid];
        at += FUSE_DIRENT_ALIGN(sizeof entry + entry.dirent.namelen);
    }
}

u64 FakeKernel::look_up(u64 parent, std::string_view name) {
    const Answer answer = ask(FUSE_LOOKUP, parent, Body().name(name));
    EXPECT_EQ(answer.error, 0) << name;
    return answer.as<fuse_entry_out>().nodeid;
}

u64 FakeKernel::open(u64 node, bool is_directory) {
    fuse_open_in how{};
    how.flags = is_directory ? 0 : 2;  // O_RDWR
    const Answer answer = ask(is_directory ? FUSE_OPENDIR : FUSE_OPEN, node, Body().add(how));
    EXPECT_EQ(answer.error, 0);
    return answer.as<fuse_open_out>().fh;
}

void FakeKernel::give_back() {
    for (const Open& open : std::vector<Open>(opens_)) {
        fuse_release_in how{};
        how.fh = open.number;
        EXPECT_EQ(
            ask(open.is_directory ? FUSE_RELEASEDIR : FUSE_RELEASE, open.node, Body().add(how))
                .error,
            0);
    }
    for (const auto& [node, count] : references_) {
        fuse_forget_in how{};
        how.nlookup = count;
        send(FUSE_FORGET, node, Body().add(how));
        serve();
    }
    references_.clear();
}

}  // namespace warren::fuse::test
