// SPDX-License-Identifier: Apache-2.0
// A peer of the control socket. An input is a list of frames, each with how many descriptors of the
// mount's root and of another directory go with it; at its end the peer hangs up. The connection is
// served as in a daemon, but for the listening.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <thread>

#include "apps/fuse/control_server.hpp"
#include "tests/fuzz/mounted.hpp"
#include "tests/fuzz/target.hpp"

namespace {

/// The inode number that /proc, whose number is 1, is taken for: that of the mount's root.
std::atomic<warren::u64> number_of_one = 1;

}  // namespace

/// The system's call, but for the number 1. Whatever is linked into this program calls this one.
int statx(int directory, const char* path, int flags, unsigned mask, struct statx* facts) noexcept {
    const long code = ::syscall(SYS_statx, directory, path, flags, mask, facts);
    if (code == 0 && facts->stx_ino == 1) facts->stx_ino = number_of_one;
    return static_cast<int>(code);
}

namespace warren::fuzz {

namespace {

using fuse::Encoder;
using fuse::Verb;

constexpr int frames_max = 8;
constexpr u16 is_raw = 0x8000;  // in place of a verb: bytes that are no frame

struct FrameHeader {
    u32 length;
    u16 verb;
    u16 version;
};

/// Sends bytes with descriptors beside the first of them.
bool send_with(int socket, std::string_view bytes, std::span<const int> descriptors) {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(4 * sizeof(int))> control{};
    iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    if (!descriptors.empty()) {
        message.msg_control = control.data();
        message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
        cmsghdr* part = CMSG_FIRSTHDR(&message);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(descriptors.size_bytes());
        std::memcpy(CMSG_DATA(part), descriptors.data(), descriptors.size_bytes());
    }
    return ::sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

class Directories {
 public:
    Directories()
        : root_(::open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC)),
          other_(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)) {
        WARREN_CHECK(::statx(root_.get(), "", AT_EMPTY_PATH, STATX_INO, &facts) == 0);
    }
    int get(u32 which) const { return which % 4 == 3 ? other_.get() : root_.get(); }
    struct statx facts {};

 private:
    Descriptor root_;
    Descriptor other_;
};

/// Sends what the input says; whether a close is among it.
bool send_input(int socket, Input& input, const Directories& directories) {
    bool closes = false;
    for (int i = 0; i < frames_max && !input.at_end(); ++i) {
        const auto verb = input.get<u16>();
        const auto count = input.get<u8>();
        const std::string_view payload = input.take(input.get<u16>());
        std::array<int, 4> descriptors{};
        for (u32 at = 0; at < descriptors.size(); ++at)
            descriptors[at] = directories.get(count >> 2 * (at + 1));
        std::string bytes(payload);
        if ((verb & is_raw) == 0) {
            const FrameHeader header{static_cast<u32>(payload.size()), verb,
                                     fuse::protocol_version};
            bytes.insert(0, reinterpret_cast<const char*>(&header), sizeof header);
        }
        if (bytes.empty()) continue;
        if (!send_with(socket, bytes, std::span(descriptors).first(count % 4))) break;
        closes = closes || verb == static_cast<u16>(Verb::close) || (verb & is_raw) != 0;
    }
    ::shutdown(socket, SHUT_WR);
    return closes;
}

/// Reads until the server hangs up, or says nothing for a while; whether it has hung up.
bool drain(int socket, int patience_ms) {
    std::array<char, 65536> bytes;
    pollfd waiting{socket, POLLIN, 0};
    while (true) {
        const int ready = ::poll(&waiting, 1, patience_ms);
        if (ready < 0 && errno == EINTR) continue;  // by the fuzzer's clock
        if (ready <= 0) return false;
        if (::recv(socket, bytes.data(), bytes.size(), 0) <= 0) return true;
    }
}

std::string frame(Verb verb, const Encoder& payload, u8 descriptors) {
    return Output()
        .put(static_cast<u16>(verb))
        .put(descriptors)
        .put(static_cast<u16>(payload.size()))
        .bytes(payload.bytes())
        .take();
}

}  // namespace

std::vector<std::string> seeds() {
    Encoder move;
    move.number(0).text("text").number(0).text("moved");
    Encoder scan;
    scan.text("");
    fuse::encode(scan, ScanFilter{.pattern = "f*[0-9]"});
    const std::string info = frame(Verb::info, Encoder(), 0);
    const std::string close = frame(Verb::close, Encoder(), 0);
    std::vector<std::string> all{
        info,
        frame(Verb::sync, Encoder(), 0) + info,
        frame(Verb::remove_tree, Encoder().text("directory"), 1) + info,
        frame(Verb::move, move, 1),
        frame(Verb::rebuild, Encoder(), 1),
        frame(Verb::scan, scan, 1),
        frame(Verb::scan, scan, 1 | 3 << 2),
        frame(Verb::usage, Encoder().text("directory").number(3).number(1), 1),
        frame(Verb::remount, Encoder().number(1).number(0), 0) + frame(Verb::move, move, 1) +
            frame(Verb::remount, Encoder().number(0).number(1), 0),
        frame(Verb::open_ring, Encoder(), 0) + frame(Verb::attach_ring, Encoder(), 3),
        close,
        Output().put(is_raw).put(u8{2}).put(u16{4}).bytes("\x08\0\0\0").take() + info,
    };
    return all;
}

void serve(Input& input, const Directories& directories) {
    Mounted mounted;
    number_of_one = mounted.root().inode;
    auto server = std::make_shared<fuse::ControlServer>(mounted.state, mounted.invalidator);
    server->start_unheard(directories.facts.stx_dev_major, directories.facts.stx_dev_minor);
    std::array<int, 2> ends{-1, -1};
    WARREN_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    {
        const Descriptor own(ends[0]);
        server->admit(Descriptor(ends[1]));
        // A peer that waits for the close is told of it; all else ends by itself.
        const bool closes = send_input(own.get(), input, directories);
        if (!drain(own.get(), closes ? 50 : 20'000)) {
            WARREN_CHECK(closes);
            server->stop();
            server->report_closed(Errc::ok);
            WARREN_CHECK(drain(own.get(), 20'000));
        }
    }
    while (server.use_count() > 1)
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    number_of_one = 1;
}

/// The lowest descriptor that is free: it changes if one is left open, or is not ours.
int free_descriptor() {
    const Descriptor probe(::open("/", O_PATH | O_CLOEXEC));
    return probe.get();
}

}  // namespace warren::fuzz

extern "C" int LLVMFuzzerTestOneInput(const warren::u8* bytes, size_t size_bytes) {
    using namespace warren::fuzz;
    static const Directories directories;
    Input input(bytes, size_bytes);
    const int before = free_descriptor();
    serve(input, directories);
    WARREN_CHECK(free_descriptor() == before);
    return 0;
}
