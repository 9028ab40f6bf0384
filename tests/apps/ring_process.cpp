// SPDX-License-Identifier: Apache-2.0
// A process with a ring of a mount, good or hostile, for tests/apps/mount_ring_test.py.
//   ring_process create|lookup|unlink|rmdir DIRECTORY STEM COUNT [MODE]
//   ring_process move DIRECTORY STEM COUNT TARGET      prints how often each error number came:
//                                                      {"0": 990, "2": 10}
//   ring_process guess DIRECTORY INODE GENERATION NAME looks NAME up below a handle of its own
//                                                      making, and prints the error number
//   ring_process by_c DIRECTORY STEM COUNT TARGET      all of these, by the C interface
//   ring_process script DIRECTORY                      see ring_script.hpp
//   ring_process hold DIRECTORY STEM COUNT             submits, and reads no reply until killed
//   ring_process hostile DIRECTORY SECONDS SEED        writes what it likes
//
// Invariant: "hostile" touches names below DIRECTORY at most, if the daemon is sound.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "apps/fuse/control.hpp"
#include "base/random.hpp"
#include "fs/ring/encode_command.hpp"
#include "fs/ring/parking.hpp"
#include "fs/ring/shared_ring.hpp"
#include "tests/apps/ring_script.hpp"
#include "warren/mount_ring.h"
#include "warren/mount_ring.hpp"

using namespace warren;

namespace {

[[noreturn]] void die(const std::string& what) {
    std::fprintf(stderr, "ring_process: %s\n", what.c_str());
    std::exit(EXIT_FAILURE);
}

/// A directory that is open while this object exists, which keeps the mount busy.
class OpenDirectory {
 public:
    explicit OpenDirectory(const std::string& path)
        : number_(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
        if (number_ < 0) die("cannot open " + path);
    }
    ~OpenDirectory() { ::close(number_); }
    OpenDirectory(const OpenDirectory&) = delete;
    OpenDirectory& operator=(const OpenDirectory&) = delete;
    const int& number() const { return number_; }

 private:
    const int number_;
};

void print(const std::vector<Errc>& codes) {
    std::map<int, u64> counts;
    for (const Errc code : codes)
        ++counts[static_cast<int>(code)];
    std::string line;
    for (const auto& [code, count] : counts)
        line +=
            (line.empty() ? "{\"" : ", \"") + std::to_string(code) + "\": " + std::to_string(count);
    std::printf("%s}\n", line.c_str());
}

template <class T>
std::vector<Errc> codes_of(const std::vector<Result<T>>& results) {
    std::vector<Errc> codes;
    for (const Result<T>& result : results)
        codes.push_back(result.code());
    return codes;
}

struct Names {
    Names(Handle directory, const std::string& stem, u64 count) {
        for (u64 i = 0; i < count; ++i)
            texts.push_back(stem + std::to_string(i));
        for (const std::string& text : texts)
            lookups.push_back({directory, text});
    }
    std::vector<std::string> texts;
    std::vector<Lookup> lookups;
};

std::vector<Errc> create(MountRing& ring, const Names& names, u32 mode) {
    std::vector<Creation> creations;
    for (const Lookup& name : names.lookups)
        creations.push_back({name.directory, name.name, {.mode = mode}});
    std::vector<Result<Attributes>> results(creations.size(), Errc::io);
    ring.create_many(creations, 022, results);
    return codes_of(results);
}

std::vector<Errc> look_up(MountRing& ring, const Names& names) {
    std::vector<Result<Attributes>> results(names.lookups.size(), Errc::io);
    ring.lookup_many(names.lookups, results);
    return codes_of(results);
}

std::vector<Errc> move(MountRing& ring, const Names& names, Handle target) {
    std::vector<Move> moves;
    for (const Lookup& name : names.lookups)
        moves.push_back({name.directory, name.name, target, name.name});
    std::vector<Errc> results(moves.size(), Errc::io);
    ring.move_many(moves, results);
    return results;
}

int run_names(const std::string& verb, const std::vector<std::string>& words) {
    Failure failure;
    const auto ring = MountRing::open(words[0], failure);
    if (ring == nullptr) die(failure.message);
    const Result<Handle> directory = ring->attach(OpenDirectory(words[0]).number());
    if (!directory) die("cannot attach " + words[0]);
    const Names names(*directory, words[1], std::stoull(words[2]));
    std::vector<Errc> results(names.lookups.size(), Errc::io);
    if (verb == "create") {
        const u32 mode =
            words.size() > 3 ? static_cast<u32>(std::stoul(words[3], nullptr, 8)) : u32{0100644};
        results = create(*ring, names, mode);
    } else if (verb == "lookup") {
        results = look_up(*ring, names);
    } else if (verb == "unlink") {
        ring->unlink_many(names.lookups, results);
    } else if (verb == "rmdir") {
        ring->remove_directories(names.lookups, results);
    } else {
        const Result<Handle> target = ring->attach(OpenDirectory(words[3]).number());
        if (!target) die("cannot attach " + words[3]);
        results = move(*ring, names, *target);
    }
    print(results);
    return EXIT_SUCCESS;
}

int guess(const std::vector<std::string>& words) {
    Failure failure;
    const auto ring = MountRing::open(words[0], failure);
    if (ring == nullptr) die(failure.message);
    const Handle handle{std::stoull(words[1]), static_cast<u32>(std::stoul(words[2]))};
    const Lookup name{handle, words[3]};
    Result<Attributes> found = Errc::io;
    ring->lookup_many({&name, 1}, {&found, 1});
    std::printf("%d\n", static_cast<int>(found.code()));
    return EXIT_SUCCESS;
}

void print(const std::vector<int>& errors) {
    std::vector<Errc> codes;
    for (const int error : errors)
        codes.push_back(static_cast<Errc>(error));
    print(codes);
}

int run_by_c(const std::vector<std::string>& words) {
    warren_mount_ring* ring = nullptr;
    const int opened = warren_mount_ring_open(words[0].c_str(), &ring);
    if (opened != 0) {
        std::printf("%d\n", opened);
        return EXIT_SUCCESS;
    }
    warren_handle directory{}, target{};
    if (warren_mount_ring_attach(ring, OpenDirectory(words[0]).number(), &directory) != 0 ||
        warren_mount_ring_attach(ring, OpenDirectory(words[3]).number(), &target) != 0) {
        die("cannot attach");
    }
    const Names all({}, words[1], std::stoull(words[2]));
    std::vector<warren_name> names, moved;
    for (const std::string& text : all.texts) {
        names.push_back({directory, text.data(), text.size()});
        moved.push_back({target, text.data(), text.size()});
    }
    std::vector<warren_found> found(names.size());
    std::vector<int> errors(names.size());
    const auto print_found = [&](u32 mode) {
        for (std::size_t i = 0; i < found.size(); ++i)
            errors[i] = found[i].error == 0 && found[i].mode != mode ? -1 : found[i].error;
        print(errors);
    };
    warren_mount_ring_create(ring, names.data(), names.size(), 0100666, 027, found.data());
    print_found(0100640);
    warren_mount_ring_lookup(ring, names.data(), names.size(), found.data());
    print_found(0100640);
    warren_mount_ring_move(ring, names.data(), moved.data(), names.size(), errors.data());
    print(errors);
    warren_mount_ring_unlink(ring, names.data(), names.size(), errors.data());
    print(errors);
    warren_mount_ring_unlink(ring, moved.data(), moved.size(), errors.data());
    print(errors);
    warren_mount_ring_close(ring);
    return EXIT_SUCCESS;
}

/// A ring without the checks of MountRing.
struct RawRing {
    explicit RawRing(const std::string& path)
        : connection(fuse::ControlConnection::for_path(path)) {
        if (!connection || connection->open_ring(remote) != Errc::ok) die("no ring of " + path);
        const OpenDirectory opened(path);
        Result<Handle> handle = Errc::io;
        if (connection->attach({&opened.number(), 1}, {&handle, 1}) != Errc::ok || !handle)
            die("no handle");
        directory = *handle;
        memory = remote.ring();
    }
    void write(u64 ticket, const u32* words, const u32* name) {
        ring::CommandCell& cell = memory.commands[ring::cell_of(ticket, memory.cells)];
        const u32 phase = ring::phase_of(ticket, memory.cells);
        ring::store_slots(cell, 1, 1, name, phase);
        ring::store_slots(cell, 0, 1, words, phase);
    }
    void call() { ring::ring_doorbell(remote.doorbell(), remote.status()); }

    std::optional<fuse::ControlConnection> connection;
    ring::RemoteRing remote;
    ring::RingMemory memory;
    Handle directory;
};

int hold(const std::vector<std::string>& words) {
    RawRing raw(words[0]);
    const u64 count = std::min<u64>(std::stoull(words[2]), raw.memory.cells);
    for (u64 i = 0; i < count; ++i) {
        const std::string name = words[1] + std::to_string(i);
        ops::Command command;
        command.verb = ops::Verb::create;
        command.handle = raw.directory;
        command.name = name.data();
        command.name_length = static_cast<u32>(name.size());
        command.mode = 0100600;
        ring::write_cell(command, false, {}, ring::phase_of(i, raw.memory.cells),
                         raw.memory.commands[ring::cell_of(i, raw.memory.cells)]);
    }
    raw.call();
    std::printf("holding\n");
    std::fflush(stdout);
    ::pause();
    return EXIT_SUCCESS;
}

/// A valid command on a name of this process, or one with an invalid field.
void make_hostile(Random& random, Handle directory, u32* words, u32* name) {
    constexpr ops::Verb verbs[] = {ops::Verb::lookup, ops::Verb::create, ops::Verb::unlink,
                                   ops::Verb::rename, ops::Verb::set_attributes};
    ring::Head head{};
    head.verb = static_cast<u32>(verbs[random.below(std::size(verbs))]);
    head.flags = ring::head_has_name | (random.one_in(3) ? u32{ring::head_has_block} : 0);
    head.generation = directory.generation;
    head.inode = directory.inode;
    head.name_bytes = 1 + static_cast<u32>(random.below(6));
    head.mode = 0100666;
    head.block = {random.below(65536) * 64,
                  random.below(8192) * 64};  // within the arena, or past it
    for (u32 i = 0; i < ring::words_per_slot; ++i)
        name[i] = 0x61616161 + static_cast<u32>(random.below(4)) * 0x01010101;
    switch (random.below(8)) {
        case 0:
            head.verb = static_cast<u32>(random.below(256));
            break;
        case 1:
            head.inode = random.below(1 << 22);  // of another user
            head.generation = static_cast<u32>(random.below(64));
            break;
        case 2:
            head.flags |= ring::head_has_caller;  // claims to be root
            break;
        case 3:
            head.flags = static_cast<u32>(random.below(65536));
            break;
        case 4:
            head.name_bytes = static_cast<u32>(random.below(65536));
            break;
        default:
            break;
    }
    ring::pack_head(head, words);
    if (random.one_in(6)) {
        for (u32 i = 0; i < ring::words_per_slot; ++i)
            words[i] = static_cast<u32>(random.below(u64{1} << 32));
    }
}

/// Overwrites random words of the shared memory with garbage.
void scribble(RawRing& raw, Random& random) {
    const u64 words =
        ring::RingShape{raw.memory.cells, raw.memory.arena.bytes}.bytes() / sizeof(u64);
    auto* all = reinterpret_cast<u64*>(raw.memory.commands);
    for (u32 i = 0; i < 4096; ++i) {
        system_atomic<u64>(all[random.below(words)])
            .store(random.below(~u64{0}), hd::memory_order_relaxed);
    }
    auto* doorbell = reinterpret_cast<u32*>(&raw.remote.doorbell());
    for (u32 i = 0; i < sizeof(ring::Doorbell) / sizeof(u32); ++i) {
        system_atomic<u32>(doorbell[i])
            .store(static_cast<u32>(random.below(u64{1} << 32)), hd::memory_order_relaxed);
    }
}

int be_hostile(const std::vector<std::string>& words) {
    using Clock = std::chrono::steady_clock;
    const u64 seed = std::stoull(words[2]);
    const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                          std::chrono::duration<double>(std::stod(words[1])));
    RawRing raw(words[0]);
    std::atomic<u64> next{0};
    std::thread changer([&] {  // changes commands after they were submitted
        Random random(seed + 1);
        u32 head[ring::words_per_slot], name[ring::words_per_slot];
        while (Clock::now() < until) {
            make_hostile(random, raw.directory, head, name);
            raw.write(next.load(std::memory_order_relaxed) + random.below(8), head, name);
            if (random.one_in(1000)) scribble(raw, random);
        }
    });
    Random random(seed);
    u32 head[ring::words_per_slot], name[ring::words_per_slot];
    while (Clock::now() < until) {
        // No reply is read: the daemon overwrites those of the previous lap.
        make_hostile(random, raw.directory, head, name);
        raw.write(next.fetch_add(1, std::memory_order_relaxed), head, name);
        if (random.one_in(16)) raw.call();
    }
    changer.join();
    std::printf("%llu\n", static_cast<unsigned long long>(next.load()));
    return EXIT_SUCCESS;
}

}  // namespace

int main(int argument_count, char** arguments) {
    const std::vector<std::string> words(arguments + std::min(argument_count, 2),
                                         arguments + argument_count);
    const std::string verb = argument_count > 1 ? arguments[1] : "";
    const bool names = verb == "create" || verb == "lookup" || verb == "unlink" || verb == "rmdir";
    if ((names && words.size() >= 3) || (verb == "move" && words.size() == 4)) {
        return run_names(verb, words);
    }
    if (verb == "by_c" && words.size() == 4) return run_by_c(words);
    if (verb == "guess" && words.size() == 4) return guess(words);
    if (verb == "script" && words.size() == 1) return run_script(words[0]);
    if (verb == "hold" && words.size() == 3) return hold(words);
    if (verb == "hostile" && words.size() == 3) return be_hostile(words);
    die("wrong arguments: see the head of its source");
}
