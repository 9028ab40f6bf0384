// SPDX-License-Identifier: Apache-2.0
// A peer of the control socket. An input is a list of frames, each with how many descriptors of the
// mount's root, of a file and of another directory go with it; at its end the peer hangs up.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "tests/apps/served_control.hpp"
#include "tests/fuzz/mounted.hpp"
#include "tests/fuzz/target.hpp"

namespace warren::fuzz {

namespace {

using fuse::ControlVerb;
using fuse::Encoder;

constexpr int frames_max = 8;
constexpr u16 is_raw = 0x8000;  // in place of a verb: bytes that are no frame

/// Sends the frames of the input; returns whether a close is among them.
bool send_input(int socket, Input& input, int root, int file) {
    const Descriptor other(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
    bool closes = false;
    for (int i = 0; i < frames_max && !input.at_end(); ++i) {
        const auto verb = input.get<u16>();
        const auto count = input.get<u8>();
        const std::string_view payload = input.take(input.get<u16>());
        std::array<int, 4> descriptors{};
        for (u32 at = 0; at < descriptors.size(); ++at) {
            const u32 choice = (count >> 2 * (at + 1)) % 4;
            descriptors[at] = choice == 3 ? other.get() : choice == 2 ? file : root;
        }
        const auto beside = std::span(descriptors).first(count % 4);
        const bool raw = (verb & is_raw) != 0;
        if (raw && payload.empty()) continue;
        const Errc sent =
            raw ? fuse::send_with(socket, payload, {}, beside)
                : fuse::send_frame(socket, static_cast<ControlVerb>(verb), payload, beside);
        if (sent != Errc::ok) break;
        closes = closes || raw || verb == static_cast<u16>(ControlVerb::close);
    }
    ::shutdown(socket, SHUT_WR);
    return closes;
}

/// Reads until the server hangs up or is silent for a while; returns whether it has hung up.
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

std::string frame(ControlVerb verb, const Encoder& payload, u8 descriptors) {
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
    scan.put(ScanFilter{.pattern = "f*[0-9]"});
    const u64 block = 4096;
    Encoder dedupe;  // blocks of the file that are equal
    dedupe.number(0).number(4 * block).number(block);
    Encoder overlap;
    overlap.number(0).number(block).number(2 * block);
    constexpr u8 two_files = 2 | 2 << 2 | 2 << 4;
    const std::string info = frame(ControlVerb::info, Encoder(), 0);
    const std::string close = frame(ControlVerb::close, Encoder(), 0);
    std::vector<std::string> all{
        info,
        frame(ControlVerb::sync, Encoder(), 0) + info,
        frame(ControlVerb::remove_tree, Encoder().text("directory"), 1) + info,
        frame(ControlVerb::move, move, 1),
        frame(ControlVerb::clone, Encoder().text("clone"), 2 | 2 << 2 | 1 << 4) + info,
        frame(ControlVerb::rebuild, Encoder(), 1),
        frame(ControlVerb::release_device, Encoder(), 0),
        frame(ControlVerb::scan, scan, 1),
        frame(ControlVerb::scan, scan, 1 | 3 << 2),
        frame(ControlVerb::scan_space, scan, 1),
        frame(ControlVerb::usage, Encoder().text("directory").number(3).number(1), 1),
        frame(ControlVerb::remount, Encoder().number(1).number(0), 0) +
            frame(ControlVerb::move, move, 1) +
            frame(ControlVerb::remount, Encoder().number(0).number(1), 0),
        frame(ControlVerb::open_ring, Encoder(), 0) + frame(ControlVerb::attach_ring, Encoder(), 3),
        frame(ControlVerb::dedupe, dedupe, two_files) +
            frame(ControlVerb::dedupe, overlap, two_files) + info,
        frame(ControlVerb::dedupe, dedupe, 2 | 2 << 2) +
            frame(ControlVerb::dedupe, dedupe, 2 | 2 << 2 | 3 << 4),
        close,
        Output().put(is_raw).put(u8{2}).put(u16{4}).bytes("\x08\0\0\0").take() + info,
    };
    return all;
}

void serve(Input& input) {
    Mounted mounted;
    fuse::test::ServedControl served(mounted.state, mounted.invalidator);
    auto [own, other] = fuse::test::make_connection();
    served.server().admit(std::move(other));
    // A peer that waits for the close gets its reply; all other exchanges end by themselves.
    const u64 node =
        mounted.kernel.look_up(mounted.state.nodes.node_of(mounted.root().inode), "sparse");
    const int file = served.file(mounted.state.nodes.inode_of(node));
    const bool closes = send_input(own.get(), input, served.root(), file);
    if (drain(own.get(), closes ? 50 : 20'000)) return;
    WARREN_CHECK(closes);
    served.server().stop();
    served.server().report_closed(Errc::ok);
    WARREN_CHECK(drain(own.get(), 20'000));
}

/// The lowest free descriptor: it changes if one is left open, or one too many was closed.
int free_descriptor() {
    const Descriptor probe(::open("/", O_PATH | O_CLOEXEC));
    return probe.get();
}

}  // namespace warren::fuzz

extern "C" int LLVMFuzzerTestOneInput(const warren::u8* bytes, size_t size_bytes) {
    using namespace warren::fuzz;
    Input input(bytes, size_bytes);
    const int before = free_descriptor();
    serve(input);
    WARREN_CHECK(free_descriptor() == before);
    return 0;
}
