// SPDX-License-Identifier: Apache-2.0
// The folder of a walk's checkpoint: manifest, command, a rank's state and its queue. An input says
// which of the files are replaced, by which bytes, and which of these get a checksum that agrees.
// All are read; then a walk goes on from them, if no checksum hides what was changed: state that
// was forged is not what the checksums are for (SECURITY.md).
#include <filesystem>

#include "base/crc32c.hpp"
#include "tests/fuzz/target.hpp"
#include "walk/checkpoint.hpp"
#include "warren/walk.hpp"

namespace warren::fuzz {

namespace {

namespace files = std::filesystem;

constexpr const char* names[] = {"manifest", "command", "rank-1-0", "queue-1-0"};

/// A tree, and the files of a walk through it that was interrupted at its begin.
struct Original {
    std::string tree = scratch_folder() + "/tree";
    std::string folder = scratch_folder() + "/checkpoint";
    std::vector<std::pair<std::string, std::string>> written;  // name and bytes

    Original() {
        files::create_directories(tree + "/directory/inner");
        write_file(tree + "/directory/file", "text");
        write_file(tree + "/other", "text");
        const walk::CheckpointFolder checkpoint(folder);
        walk::Options options;
        options.checkpoint = folder;
        options.interrupt = [] { return true; };
        // The walk may be done before it is asked.
        while (!checkpoint.has_manifest())
            run(options);
        WARREN_CHECK(checkpoint.write_command("command") == Errc::ok);
        walk::CheckpointFile queue = checkpoint.begin_queue(1, 0);
        walk::CheckpointFolder::write_parcel(queue, "parcel");
        walk::CheckpointFolder::write_parcel(queue, "");
        WARREN_CHECK(queue.finish() == Errc::ok);
        for (const char* name : names)
            written.emplace_back(name, read_file(folder + "/" + name));
    }

    /// Whether the walk came to its end.
    bool run(walk::Options options) const {
        options.threads = 1;
        walk::Callbacks callbacks;
        callbacks.visit = [](const walk::Entry&) { return walk::Next::go_on; };
        callbacks.fail = [](const walk::Failure&) {};
        return !walk::walk(std::span(&tree, 1), options, callbacks).stopped;
    }
};

u32 checksum_of(std::string_view bytes) {
    return crc32c(std::as_bytes(std::span(bytes)));
}

/// Whether a file ends with the checksum of what is before.
bool is_whole(std::string_view file) {
    u32 checksum = 0;
    if (file.size() < sizeof checksum) return false;
    const size_t end = file.size() - sizeof checksum;
    std::memcpy(&checksum, file.data() + end, sizeof checksum);
    return checksum == checksum_of(file.substr(0, end));
}

void read_all(const walk::CheckpointFolder& folder) {
    walk::Manifest manifest;
    std::string bytes;
    static_cast<void>(folder.read_manifest(manifest));
    static_cast<void>(folder.read_command(bytes));
    static_cast<void>(folder.read_rank(1, 0, bytes));
    for (const u64 parcels : {0, 1, 2, 1'000'000'000}) {
        u64 shown = 0;
        const Errc code = folder.read_queue(1, 0, parcels, [&](std::string_view) { ++shown; });
        WARREN_CHECK(code != Errc::ok || shown == parcels);
    }
}

}  // namespace

std::vector<std::string> seeds() {
    const Original original;
    std::vector<std::string> all{""};
    for (u8 which = 0; which < std::size(names); ++which) {
        const std::string& bytes = original.written[which].second;
        for (const u8 sealed : {u8{0}, u8{1}}) {
            const size_t size_bytes = bytes.size() - (sealed != 0 ? sizeof(u32) : 0);
            all.push_back(Output()
                              .put(static_cast<u8>(which | sealed << 2))
                              .put(static_cast<u16>(size_bytes))
                              .bytes(std::string_view(bytes).substr(0, size_bytes))
                              .take());
        }
    }
    return all;
}

}  // namespace warren::fuzz

extern "C" int LLVMFuzzerTestOneInput(const warren::u8* bytes, size_t size_bytes) {
    using namespace warren;
    using namespace warren::fuzz;
    static const Original original;
    std::error_code ignored;
    files::remove_all(original.folder, ignored);
    files::create_directories(original.folder);
    std::vector<std::string> present;
    for (const auto& [name, written] : original.written)
        present.push_back(written);
    Input input(bytes, size_bytes);
    bool is_forged = false;
    while (!input.at_end()) {
        const auto which = input.get<u8>();
        std::string replaced(input.take(input.get<u16>()));
        if ((which & 4) != 0) {
            const u32 checksum = checksum_of(replaced);
            replaced.append(reinterpret_cast<const char*>(&checksum), sizeof checksum);
            is_forged = true;
        }
        present[which % present.size()] = replaced;
    }
    for (size_t i = 0; i < present.size(); ++i)
        write_file(original.folder + "/" + original.written[i].first, present[i]);
    read_all(walk::CheckpointFolder(original.folder));
    if (is_forged) return 0;
    walk::Options options;
    options.checkpoint = original.folder;
    options.resume = true;
    // Only the state says where the walk begins; the queue is not part of it.
    const bool goes_on = present[0] == original.written[0].second && is_whole(present[2]);
    WARREN_CHECK(original.run(options) == goes_on);
    return 0;
}
