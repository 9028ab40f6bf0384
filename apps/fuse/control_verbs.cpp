// SPDX-License-Identifier: Apache-2.0
// A hostile peer may send any bytes and any descriptors. Descriptors are examined without a request
// to their file system, which may be hostile too.
#include "apps/fuse/control_verbs.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>

#include "apps/fuse/device.hpp"
#include "apps/fuse/session.hpp"
#include "base/out_of_memory.hpp"
#include "fs/format/check_structure.hpp"
#include "fs/volume/open_while.hpp"

namespace warren::fuse {

namespace {

constexpr size_t longest_name_bytes = 255;
constexpr size_t counts_bytes_max = 64;  // of an answer that has only a few counts

/// Errc::ok if `name` can name an entry of a directory.
Errc check_name(std::string_view name) {
    if (name.size() > longest_name_bytes) return Errc::name_too_long;
    return format::name_is_sound(name) ? Errc::ok : Errc::invalid;
}

bool is_owner(const Peer& peer) {
    return peer.user == 0 || peer.user == ::geteuid();
}

/// The first names in a directory, a number that is read quickly.
std::vector<std::string> some_names(Volume& volume, Handle directory) {
    constexpr size_t most = 4096;
    std::vector<std::string> names;
    static_cast<void>(volume.read_directory(directory, 0, [&](const DirectoryEntry& entry) {
        names.emplace_back(entry.name);
        return names.size() < most;
    }));
    return names;
}

}  // namespace

std::string ControlVerbs::serve(const Peer& peer, Frame& frame, const PartSink& sink) {
    Encoder answer;
    answer.reserve(counts_bytes_max);  // allocated before the operation, which must not fail later
    answer.number(0);                  // space for the error code
    Errc code = Errc::invalid;
    switch (frame.verb) {
        case ControlVerb::info:
            describe(answer);
            code = Errc::ok;
            break;
        case ControlVerb::sync:
            code = sync();
            break;
        case ControlVerb::remove_tree:
            code = remove_tree(peer, frame, answer);
            break;
        case ControlVerb::move:
            code = move(peer, frame, answer);
            break;
        case ControlVerb::rebuild:
            code = rebuild(peer, frame, answer);
            break;
        case ControlVerb::clone:
            code = clone(peer, frame, answer);
            break;
        case ControlVerb::scan:
        case ControlVerb::scan_space:
            code = scan(peer, frame, sink);
            break;
        case ControlVerb::usage:
            code = usage(peer, frame, sink);
            break;
        case ControlVerb::remount:
            code = remount(peer, frame);
            break;
        case ControlVerb::dedupe:
            code = dedupe(peer, frame, answer);
            break;
        case ControlVerb::release_device:
            code = release_device(peer);
            break;
        default:
            break;
    }
    if (!is_final(code)) code = Errc::io;
    answer.set_first(static_cast<u64>(code));
    return answer.take();
}

std::string ControlVerbs::attach(const Peer& peer, const Frame& frame, RingGrants& grants) {
    PeerMounts mounts(peer.process);
    Encoder answer;
    answer.number(static_cast<u64>(frame.descriptors.empty() ? Errc::invalid : Errc::ok));
    for (const Descriptor& descriptor : frame.descriptors) {
        Handle directory;
        Errc code = find_directory(mounts, descriptor, true, directory);
        const bool may_change = code == Errc::ok;
        if (code == Errc::read_only) code = find_directory(mounts, descriptor, false, directory);
        if (code == Errc::ok) {
            // Same lock order as the thread that runs the ring's commands: the volume, then the
            // grants.
            const auto volume = mount_.volume.access();
            code = grants.attach(directory, may_change, [&](Handle handle) {
                return volume->attributes(handle).code() != Errc::stale;
            });
        }
        answer.number(static_cast<u64>(code));
        answer.number(directory.inode).number(directory.generation);
    }
    return answer.bytes();
}

Errc ControlVerbs::find_directory(PeerMounts& mounts, const Descriptor& descriptor, bool to_change,
                                  Handle& directory) {
    return find(mounts, descriptor, S_IFDIR, to_change, directory);
}

Errc ControlVerbs::find(PeerMounts& mounts, const Descriptor& descriptor, u32 type, bool to_change,
                        Handle& handle) {
    struct statx facts {};
    if (::statx(descriptor.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO | STATX_TYPE,
                &facts) != 0) {
        return Errc::bad_handle;
    }
    if (facts.stx_dev_major != device_major_ || facts.stx_dev_minor != device_minor_) {
        return Errc::cross_device;
    }
    // Asked after statx(2): until then the number was that of this mount.
    if (has_ended(mount_.session)) return Errc::stale;
    if (type != any_type && (facts.stx_mode & S_IFMT) != type) {
        if (type == S_IFDIR) return Errc::not_directory;
        return S_ISDIR(facts.stx_mode) ? Errc::is_directory : Errc::invalid;
    }
    if (to_change) {
        // The peer may access the volume through a read-only mount of its own.
        if (mounts.is_read_only(descriptor.get())) return Errc::read_only;
        if (mount_.read_only.load(std::memory_order_relaxed)) return Errc::read_only;
    }
    const auto found = mount_.nodes.find(mount_.nodes.node_of(facts.stx_ino));
    if (!found) return Errc::stale;
    handle = *found;
    return Errc::ok;
}

void ControlVerbs::drop_cached(std::vector<StaleName> stale) {
    // The link counts of files that have other links, or are open, have changed. Dropping these is
    // optional if memory is short; dropping the removed name is not.
    static_cast<void>(or_no_memory([&] {
        for (const u64 node : mount_.nodes.shared_or_open())
            stale.push_back({node, 0, "", {}});
    }));
    queue_.drop(std::move(stale), mount_.can_expire.load(std::memory_order_relaxed));
}

Errc ControlVerbs::remove_tree(const Peer& peer, const Frame& frame, Encoder& answer) {
    Decoder request(frame.payload);
    const std::string name(request.text());
    if (!request.good() || frame.descriptors.size() != 1) return Errc::invalid;
    WARREN_TRY(check_name(name));
    PeerMounts mounts(peer.process);
    Handle directory;
    WARREN_TRY(find_directory(mounts, frame.descriptors[0], true, directory));
    // Allocate now: after the tree was removed there may be no memory to tell the kernel.
    std::vector<StaleName> stale(1);
    Removal removal;
    Errc code = Errc::ok;
    {
        // Released before the kernel is told, which may wait for a process that waits for the
        // volume.
        const auto volume = mount_.volume.access();
        const Result<Attributes> child = volume->lookup({0, 0, {}, 0, false}, directory, name);
        const bool is_directory = child && S_ISDIR(child->mode);
        stale[0] = {node(directory), is_directory ? node(child->handle) : 0, name, {}};
        if (is_directory) stale[0].below = some_names(*volume, child->handle);
        code = volume->remove_tree(peer.caller(), directory, name, removal);
        // To the kernel, a directory that is still there must not be a deleted one.
        if (code != Errc::ok) stale[0].child = 0;
    }
    const bool has_changed = code == Errc::ok || removal.files + removal.directories > 0;
    if (has_changed) drop_cached(std::move(stale));
    answer.put(removal);
    return code;
}

Errc ControlVerbs::move(const Peer& peer, const Frame& frame, Encoder& answer) {
    PeerMounts mounts(peer.process);
    std::vector<Handle> directories(frame.descriptors.size());
    std::vector<Errc> found(frame.descriptors.size(), Errc::ok);
    for (size_t i = 0; i < directories.size(); ++i) {
        found[i] = find_directory(mounts, frame.descriptors[i], true, directories[i]);
    }
    std::vector<Move> moves;
    std::vector<size_t> positions;  // of the moves among the results
    std::vector<Errc> results;
    Decoder request(frame.payload);
    while (!request.at_end()) {
        const u64 from = request.number();
        const std::string_view name = request.text();
        const u64 to = request.number();
        const std::string_view new_name = request.text();
        if (!request.good() || from >= directories.size() || to >= directories.size()) {
            return Errc::invalid;
        }
        Errc code = found[from] != Errc::ok ? found[from] : found[to];
        if (code == Errc::ok) code = check_name(name);
        if (code == Errc::ok) code = check_name(new_name);
        if (code == Errc::ok) {
            positions.push_back(results.size());
            moves.push_back({directories[from], name, directories[to], new_name});
        }
        results.push_back(code);
    }
    std::vector<Errc> codes(moves.size(), Errc::io);
    std::vector<StaleName> stale;  // allocated before anything is moved: see remove_tree()
    for (const Move& move : moves) {
        stale.push_back({node(move.from), 0, std::string(move.name), {}});
        stale.push_back({node(move.to), 0, std::string(move.new_name), {}});
    }
    answer.reserve((1 + results.size()) * sizeof(u64));
    mount_.volume.access()->move_many(peer.caller(), moves, codes);
    for (size_t i = 0; i < moves.size(); ++i)
        results[positions[i]] = codes[i];
    drop_cached(std::move(stale));
    for (const Errc code : results) {
        answer.number(static_cast<u64>(is_final(code) ? code : Errc::io));
    }
    return Errc::ok;
}

Errc ControlVerbs::clone(const Peer& peer, const Frame& frame, Encoder& answer) {
    Decoder request(frame.payload);
    const std::string name(request.text());
    if (!request.good() || frame.descriptors.size() != 2) return Errc::invalid;
    WARREN_TRY(check_name(name));
    PeerMounts mounts(peer.process);
    Handle source, directory;
    WARREN_TRY(find(mounts, frame.descriptors[0], any_type, false, source));
    WARREN_TRY(find_directory(mounts, frame.descriptors[1], true, directory));
    std::vector<StaleName> stale(1);  // allocated before anything is cloned: see remove_tree()
    ClonedTree cloned;
    Errc code = Errc::ok;
    bool has_changed = false;
    mount_.cached_writes.wait(device_minor_);
    {
        const auto volume = mount_.volume.access();
        const Result<Attributes> replaced = volume->lookup({0, 0, {}, 0, false}, directory, name);
        stale[0] = {node(directory), replaced ? node(replaced->handle) : 0, name, {}};
        code = volume->clone(peer.caller(), source, directory, name, cloned);
        // A directory that the clone was to replace may have been removed.
        has_changed = code == Errc::ok ||
                      (replaced && !volume->lookup({0, 0, {}, 0, false}, directory, name));
    }
    if (has_changed) drop_cached(std::move(stale));
    answer.put(cloned);
    return code;
}

Errc ControlVerbs::rebuild(const Peer& peer, const Frame& frame, Encoder& answer) {
    if (frame.descriptors.size() != 1) return Errc::invalid;
    PeerMounts mounts(peer.process);
    Handle directory;
    WARREN_TRY(find_directory(mounts, frame.descriptors[0], true, directory));
    Rebuilt rebuilt;
    const Errc code = mount_.volume.access()->rebuild(peer.caller(), directory, rebuilt);
    answer.put(rebuilt);
    return code;
}

/// Returns the directory at which a scan begins. Closes its descriptor, since the answer may take
/// long and a descriptor keeps the mount busy. (A descriptor of another file system is not closed
/// here: closing may block on that file system, and a verb must end.)
Errc ControlVerbs::take_start(const Peer& peer, Frame& frame, Handle& start) {
    if (frame.descriptors.size() != 1) return Errc::invalid;
    PeerMounts mounts(peer.process);
    WARREN_TRY(find_directory(mounts, frame.descriptors[0], false, start));
    frame.descriptors.clear();
    return Errc::ok;
}

Errc ControlVerbs::scan(const Peer& peer, Frame& frame, const PartSink& sink) {
    Decoder request(frame.payload);
    const std::string_view name = request.text();
    ScanFilter filter;
    request.take(filter);
    if (!request.good()) return Errc::invalid;
    filter.counts_shared = frame.verb == ControlVerb::scan_space;
    Handle from;
    WARREN_TRY(take_start(peer, frame, from));
    PartStream stream(sink);
    const auto put = [&](const Scanned& entry) {
        Encoder encoded;
        encoded.put(entry);
        if (filter.counts_shared) encoded.number(entry.space.blocks).number(entry.space.shared);
        return stream.put(encoded) && entry.depth < filter.depth_max;
    };
    if (!name.empty()) {
        WARREN_TRY(check_name(name));
        WARREN_LET(found, mount_.volume.access()->lookup(peer.caller(), from, name));
        from = found->handle;
    }
    const ScanSteps steps{[&] { return stream.is_full(); }, [&] { return stream.wait_for_room(); }};
    std::vector<ScanPosition> left{{from}};
    Errc code = Errc::ok;
    while (code == Errc::ok && !left.empty()) {
        code = mount_.volume.access()->scan_step(peer.caller(), left, put, filter, steps);
        if (code == Errc::ok && stream.is_full()) code = stream.wait_for_room();
    }
    const Errc sent = stream.finish();
    return code == Errc::ok ? sent : code;
}

Errc ControlVerbs::usage(const Peer& peer, Frame& frame, const PartSink& sink) {
    Decoder request(frame.payload);
    const std::string_view name = request.text();
    UsageOptions options;
    options.depth_max = request.number32();
    options.counts_links = request.number() != 0;
    if (!request.good()) return Errc::invalid;
    Handle from;
    WARREN_TRY(take_start(peer, frame, from));
    std::vector<DirectoryUsage> answer;
    Errc code = Errc::ok;
    {
        const auto volume = mount_.volume.access();
        if (!name.empty()) {
            WARREN_TRY(check_name(name));
            WARREN_LET(found, volume->lookup(peer.caller(), from, name));
            from = found->handle;
        }
        code = volume->usage(peer.caller(), from, options, answer);
    }
    // After an error this is what was added up before it.
    PartStream stream(sink);
    for (const DirectoryUsage& one : answer) {
        stream.put(Encoder().put(one));
        if (stream.is_full()) WARREN_TRY(stream.wait_for_room());
    }
    const Errc sent = stream.finish();
    return code == Errc::ok ? sent : code;
}

/// The descriptors are O_PATH like those of directories: closing one that is open for reading or
/// writing would make the kernel send a request to this process. The open mode is therefore
/// unknown, and the peer's credentials decide.
Errc ControlVerbs::dedupe(const Peer& peer, const Frame& frame, Encoder& answer) {
    Decoder request(frame.payload);
    const u64 offset = request.number();
    const u64 target_offset = request.number();
    const u64 length = request.number();
    if (!request.good() || frame.descriptors.size() != 2) return Errc::invalid;
    PeerMounts mounts(peer.process);
    Handle source, target;
    WARREN_TRY(find(mounts, frame.descriptors[0], S_IFREG, false, source));
    WARREN_TRY(find(mounts, frame.descriptors[1], S_IFREG, true, target));
    std::vector<StaleName> stale{{node(target), 0, "", {}}};
    Result<Deduped> done;
    {
        const auto volume = mount_.volume.access();
        const OpenWhile source_is_open(*volume, source);
        WARREN_TRY(source_is_open.code());
        const OpenWhile target_is_open(*volume, target);
        WARREN_TRY(target_is_open.code());
        done = volume->dedupe_range(peer.caller(), source, offset, target, target_offset, length);
    }
    if (!done) return done.code();
    // The contents that the kernel caches are still valid; the number of blocks may have changed.
    if (done->bytes > 0) {
        queue_.drop(std::move(stale), mount_.can_expire.load(std::memory_order_relaxed));
    }
    answer.put(*done);
    return Errc::ok;
}

Errc ControlVerbs::sync() {
    // Otherwise the client may have meant the next mount with this device number.
    if (has_ended(mount_.session)) return Errc::stale;
    mount_.cached_writes.wait(device_minor_);
    return mount_.sync();
}

Errc ControlVerbs::remount(const Peer& peer, const Frame& frame) {
    Decoder request(frame.payload);
    const bool read_only = request.number() != 0;
    const u64 access_times = request.number();
    if (!request.good() || access_times > static_cast<u64>(AccessTimes::unchanged)) {
        return Errc::invalid;
    }
    if (!is_owner(peer)) return Errc::not_permitted;
    if (has_ended(mount_.session)) return Errc::stale;
    if (read_only) {
        WARREN_TRY(mount_.sync());
    } else {
        WARREN_TRY(mount_.volume.open_for_writing(mount_.nodes).code);
    }
    mount_.read_only.store(read_only, std::memory_order_relaxed);
    const auto rule = static_cast<AccessTimes>(access_times);
    if (rule != AccessTimes::unchanged) {
        mount_.access_times.store(rule, std::memory_order_relaxed);
    }
    return Errc::ok;
}

Errc ControlVerbs::release_device(const Peer& peer) {
    if (!is_owner(peer)) return Errc::not_permitted;
    return mount_.volume.access()->release_device_memory();
}

void ControlVerbs::describe(Encoder& answer) {
    const auto volume = mount_.volume.access();
    answer.put(MountInfo{.image = mount_.image,
                         .mountpoint = mount_.mountpoint,
                         .label = volume->label(),
                         .uuid = volume->uuid(),
                         .statistics = volume->statistics(),
                         .read_only = mount_.read_only.load(std::memory_order_relaxed),
                         .process = static_cast<u32>(::getpid()),
                         .engine = std::string(volume->engine()),
                         .engine_note = volume->engine_note(),
                         .disk_note = volume->disk_note(),
                         .requests = requests_read(),
                         .dedup = volume->dedup_statistics(),
                         .predictions = volume->predictions()});
}

}  // namespace warren::fuse
