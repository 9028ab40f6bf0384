// SPDX-License-Identifier: Apache-2.0
// The client's side of the control socket: finds the daemon by the device number of the mount,
// converts each path into a descriptor of its directory and a name, and decodes the answers.
#include "apps/fuse/control.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>

#include "apps/fuse/control_place.hpp"
#include "apps/fuse/control_protocol.hpp"
#include "apps/fuse/mount_table.hpp"
#include "base/last_error.hpp"
#include "fs/format/check_structure.hpp"
#include "fs/ring/shared_ring.hpp"

namespace warren::fuse {

namespace {

std::vector<std::string> socket_paths(u32 device_major, u32 device_minor) {
    const std::string name = "/warren/" + socket_name(device_major, device_minor);
    std::vector<std::string> paths = {"/run" + name};
    if (const char* own = std::getenv("XDG_RUNTIME_DIR"); own != nullptr && own[0] == '/') {
        paths.push_back(own + name);
    }
    for (const MountedPlace& place : read_mount_table()) {
        if (!place.is_warren() || place.device_major != device_major ||
            place.device_minor != device_minor) {
            continue;
        }
        const u32 owner = option_number(place.options, "user_id", 0);
        paths.push_back("/run/user/" + std::to_string(owner) + name);
        break;
    }
    return paths;
}

/// A daemon is trusted only if it runs as root or as this user.
bool is_trusted(int socket) {
    ucred peer{};
    socklen_t size = sizeof(peer);
    if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
    return peer.uid == 0 || peer.uid == ::geteuid() || ::geteuid() == 0;
}

Descriptor connect_to(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof(address.sun_path)) return Descriptor();
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket) return socket;
    if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
        !is_trusted(socket.get())) {
        socket.close();
    }
    return socket;
}

/// Sends one request and receives its last answer; `on_part` gets the parts before that.
Errc ask(int socket, ControlVerb verb, const Encoder& request, std::span<const int> descriptors,
         std::string& answer, const std::function<void(Decoder&)>& on_part = {}) {
    WARREN_TRY(send_frame(socket, verb, request.bytes(), descriptors));
    Frame frame;
    while (true) {
        const Errc code = receive_frame(socket, frame);
        if (code != Errc::ok) return code == Errc::no_data ? Errc::io : code;
        Decoder decoder(frame.payload);
        if (frame.verb == ControlVerb::part) {
            if (on_part) on_part(decoder);
            continue;
        }
        const auto result = static_cast<Errc>(decoder.number32());
        if (frame.verb != ControlVerb::answer || !decoder.good()) return Errc::io;
        answer = std::move(frame.payload);
        return result;
    }
}

/// The payload after the error number of an answer.
Decoder body_of(const std::string& answer) {
    Decoder decoder(answer);
    decoder.number();
    return decoder;
}

}  // namespace

std::optional<ControlConnection> ControlConnection::for_path(const std::string& path) {
    Place place;
    if (open_directory(path, O_NOFOLLOW, place) != Errc::ok &&
        open_parent(path, place) != Errc::ok) {
        return std::nullopt;
    }
    return for_device(place.facts.stx_dev_major, place.facts.stx_dev_minor);
}

std::optional<ControlConnection> ControlConnection::for_device(u32 device_major, u32 device_minor) {
    for (const std::string& candidate : socket_paths(device_major, device_minor)) {
        Descriptor socket = connect_to(candidate);
        if (socket) return ControlConnection(std::move(socket), device_major, device_minor);
    }
    return std::nullopt;
}

Errc ControlConnection::remove_tree(const std::string& path, Removal& removal) {
    Place place;
    WARREN_TRY(open_parent(path, place));
    WARREN_TRY(check_nothing_mounted(place, place.name));
    static_cast<void>(flush(place.directory.get()));
    Encoder request;
    request.text(place.name);
    const int directory = place.directory.get();
    std::string answer;
    WARREN_TRY(ask(socket_.get(), ControlVerb::remove_tree, request, {&directory, 1}, answer));
    Decoder body = body_of(answer);
    body.take(removal);
    return body.good() ? Errc::ok : Errc::io;
}

Errc ControlConnection::move(std::span<const PathMove> moves, std::span<Errc> results) {
    for (size_t begun = 0; begun < moves.size();) {
        size_t done = 0;
        WARREN_TRY(move_some(moves.subspan(begun), results.subspan(begun), done));
        begun += done;
    }
    return Errc::ok;
}

namespace {

/// The directories of a move request, each of which is sent once.
class DirectoryList {
 public:
    /// Finds or opens the directory of `path`; encodes its index and the last component.
    Errc add(const std::string& path, Encoder& encoded) {
        std::string parent, name;
        if (!split(path, parent, name)) return Errc::invalid;
        const auto [entry, is_new] = known_.try_emplace(parent, places_.size());
        if (is_new) {
            Place place;
            if (const Errc code = open_directory(parent, 0, place); code != Errc::ok) {
                known_.erase(entry);
                return code;
            }
            has_mounts_.push_back(check_nothing_mounted(place, "") != Errc::ok);
            places_.push_back(std::move(place));
        }
        const size_t index = entry->second;
        if (has_mounts_[index]) WARREN_TRY(check_nothing_mounted(places_[index], name));
        encoded.number(index).text(name);
        return Errc::ok;
    }
    bool has_room_for_two() const { return places_.size() + 2 <= descriptor_limit; }
    std::vector<int> descriptors() const {
        std::vector<int> numbers;
        for (const Place& place : places_)
            numbers.push_back(place.directory.get());
        return numbers;
    }

 private:
    std::vector<Place> places_;
    std::vector<bool> has_mounts_;
    std::map<std::string, size_t> known_;
};

}  // namespace

Errc ControlConnection::move_some(std::span<const PathMove> moves, std::span<Errc> results,
                                  size_t& done) {
    constexpr size_t longest_item_bytes = 1024;
    Encoder request;
    DirectoryList directories;
    std::vector<size_t> sent;
    for (done = 0; done < moves.size(); ++done) {
        if (!directories.has_room_for_two() ||
            request.size() + longest_item_bytes > frame_limit_bytes) {
            break;
        }
        Encoder item;
        results[done] = directories.add(moves[done].source, item);
        if (results[done] == Errc::ok) results[done] = directories.add(moves[done].target, item);
        if (results[done] == Errc::ok && item.size() > longest_item_bytes) {
            results[done] = Errc::name_too_long;
        }
        if (results[done] != Errc::ok) continue;
        request.append(item);
        sent.push_back(done);
    }
    if (sent.empty()) return Errc::ok;
    std::string answer;
    WARREN_TRY(ask(socket_.get(), ControlVerb::move, request, directories.descriptors(), answer));
    Decoder body = body_of(answer);
    for (const size_t item : sent)
        results[item] = static_cast<Errc>(body.number32());
    return body.good() ? Errc::ok : Errc::io;
}

Errc ControlConnection::rebuild(const std::string& path, Rebuilt& rebuilt) {
    Place place;
    WARREN_TRY(open_directory(path, 0, place));
    const int directory = place.directory.get();
    std::string answer;
    WARREN_TRY(ask(socket_.get(), ControlVerb::rebuild, Encoder(), {&directory, 1}, answer));
    Decoder body = body_of(answer);
    body.take(rebuilt);
    return body.good() ? Errc::ok : Errc::io;
}

Errc ControlConnection::scan(const std::string& path, const ScanFilter& filter,
                             const std::function<void(const Scanned&)>& visit) {
    Place place;
    if (open_directory(path, O_NOFOLLOW, place) != Errc::ok) WARREN_TRY(open_parent(path, place));
    static_cast<void>(flush(place.directory.get()));
    Encoder request;
    request.text(place.name).put(filter);
    const int directory = place.directory.get();
    std::string answer;
    bool is_sound = true;
    const ControlVerb verb = filter.counts_shared ? ControlVerb::scan_space : ControlVerb::scan;
    const Errc code =
        ask(socket_.get(), verb, request, {&directory, 1}, answer, [&](Decoder& part) {
            while (is_sound && !part.at_end() && part.good()) {
                Scanned entry;
                part.take(entry);
                is_sound =
                    entry.name.empty() ? entry.depth == 0 : format::name_is_sound(entry.name);
                if (filter.counts_shared) entry.space = {part.number(), part.number()};
                is_sound = is_sound && entry.space.shared <= entry.space.blocks;
                if (part.good() && is_sound) visit(entry);
            }
        });
    return is_sound ? code : Errc::corrupt;
}

Errc ControlConnection::usage(const std::string& path, const UsageOptions& options,
                              std::vector<DirectoryUsage>& answer) {
    Place place;
    if (open_directory(path, O_NOFOLLOW, place) != Errc::ok) WARREN_TRY(open_parent(path, place));
    static_cast<void>(flush(place.directory.get()));
    Encoder request;
    request.text(place.name).number(options.depth_max).number(options.counts_links ? 1 : 0);
    const int directory = place.directory.get();
    answer.clear();
    bool is_sound = true;
    std::string end;
    const Errc code =
        ask(socket_.get(), ControlVerb::usage, request, {&directory, 1}, end, [&](Decoder& part) {
            while (!part.at_end() && part.good()) {
                DirectoryUsage usage;
                part.take(usage);
                is_sound = is_sound && part.good() &&
                           (answer.empty()
                                ? usage.above == 0
                                : usage.above < answer.size() && format::name_is_sound(usage.name));
                if (is_sound) answer.push_back(std::move(usage));
            }
        });
    return is_sound ? code : Errc::io;
}

Errc ControlConnection::clone(const std::string& source, const std::string& target,
                              ClonedTree& cloned) {
    Place from, to;
    WARREN_TRY(open_parent(target, to));
    WARREN_TRY(check_nothing_mounted(to, to.name));
    // The root of the mount has no name on the mount, and cannot be cloned to another volume.
    if (open_parent(source, from) == Errc::ok) WARREN_TRY(check_nothing_mounted(from, from.name));
    const Descriptor shown(::open(source.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!shown) return last_error();
    static_cast<void>(flush(to.directory.get()));
    const int descriptors[] = {shown.get(), to.directory.get()};
    Encoder request;
    request.text(to.name);
    std::string answer;
    const Errc code = ask(socket_.get(), ControlVerb::clone, request, descriptors, answer);
    Decoder body = body_of(answer);
    body.take(cloned);
    return code != Errc::ok || body.good() ? code : Errc::io;
}

Errc ControlConnection::dedupe(int source, u64 offset, int target, u64 target_offset, u64 length,
                               Deduped& deduped) {
    Descriptor from, to;
    WARREN_TRY(show(source, offset, length, from));
    WARREN_TRY(show(target, target_offset, length, to));
    const int descriptors[] = {from.get(), to.get()};
    Encoder request;
    request.number(offset).number(target_offset).number(length);
    std::string answer;
    WARREN_TRY(ask(socket_.get(), ControlVerb::dedupe, request, descriptors, answer));
    Decoder body = body_of(answer);
    body.take(deduped);
    const bool is_sound = deduped.bytes <= length && !(deduped.differs && deduped.bytes > 0);
    return body.good() && is_sound ? Errc::ok : Errc::io;
}

Errc ControlConnection::open_ring(ring::RemoteRing& ring) {
    std::string answer;
    WARREN_TRY(ask(socket_.get(), ControlVerb::open_ring, Encoder(), {}, answer));
    return ring.receive(socket_.get());
}

Errc ControlConnection::attach(std::span<const int> directories,
                               std::span<Result<Handle>> handles) {
    static_assert(attach_directories_max <= descriptor_limit);
    if (directories.size() > attach_directories_max) return Errc::invalid;
    std::string answer;
    WARREN_TRY(ask(socket_.get(), ControlVerb::attach_ring, Encoder(), directories, answer));
    Decoder body = body_of(answer);
    bool is_flushed = false;
    for (Result<Handle>& handle : handles) {
        const auto code = static_cast<Errc>(body.number32());
        const u64 inode = body.number();
        const u32 generation = body.number32();
        handle = code == Errc::ok ? Result<Handle>(Handle{inode, generation}) : code;
        if (code == Errc::ok && !is_flushed) {
            static_cast<void>(flush(directories[static_cast<size_t>(&handle - handles.data())]));
            is_flushed = true;
        }
    }
    return body.good() ? Errc::ok : Errc::io;
}

bool ControlConnection::is_broken() const {
    pollfd waiting{socket_.get(), POLLIN | POLLRDHUP, 0};
    return ::poll(&waiting, 1, 0) > 0;  // the daemon sends nothing unrequested
}

Errc ControlConnection::sync(const std::string& path) {
    Place place;
    if (open_directory(path, O_NOFOLLOW, place) != Errc::ok) WARREN_TRY(open_parent(path, place));
    if (place.facts.stx_dev_major != device_major_ || place.facts.stx_dev_minor != device_minor_) {
        return Errc::stale;
    }
    // An earlier refused write must not prevent the rest from being made durable.
    const Errc flushed = flush(place.directory.get());
    std::string answer;
    WARREN_TRY(ask(socket_.get(), ControlVerb::sync, Encoder(), {}, answer));
    return flushed;
}

Errc ControlConnection::info(MountInfo& info) {
    std::string answer;
    WARREN_TRY(ask(socket_.get(), ControlVerb::info, Encoder(), {}, answer));
    Decoder body = body_of(answer);
    body.take(info);
    return body.good() ? Errc::ok : Errc::io;
}

Errc ControlConnection::remount(bool read_only, AccessTimes access_times) {
    Encoder request;
    request.number(read_only ? 1 : 0).number(static_cast<u64>(access_times));
    std::string answer;
    return ask(socket_.get(), ControlVerb::remount, request, {}, answer);
}

Errc ControlConnection::release_device() {
    std::string answer;
    return ask(socket_.get(), ControlVerb::release_device, Encoder(), {}, answer);
}

Errc ControlConnection::ask_for_close(int patience_ms) {
    WARREN_TRY(send_frame(socket_.get(), ControlVerb::close, {}));
    // Unmounting ends the daemon's connections: a request that is not received by then is lost.
    pollfd waiting{socket_.get(), POLLIN, 0};
    if (::poll(&waiting, 1, patience_ms) == 0) return Errc::busy;
    Frame heard;
    return receive_frame(socket_.get(), heard);
}

Errc ControlConnection::wait_until_closed(int patience_ms) {
    pollfd waiting{socket_.get(), POLLIN, 0};
    if (::poll(&waiting, 1, patience_ms) == 0) return Errc::busy;
    Frame frame;
    do {  // first the message that the kernel has unmounted, then the result of closing
        const Errc code = receive_frame(socket_.get(), frame);
        if (code != Errc::ok) return code == Errc::no_data ? Errc::io : code;
    } while (frame.verb == ControlVerb::part);
    Decoder decoder(frame.payload);
    const auto result = static_cast<Errc>(decoder.number32());
    return decoder.good() ? result : Errc::io;
}

}  // namespace warren::fuse
