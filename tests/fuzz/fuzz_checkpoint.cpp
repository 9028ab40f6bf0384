// SPDX-License-Identifier: Apache-2.0
// The folder of a walk's checkpoint: manifest, command, the states of two ranks and the queue of
// the first. An input says which of the files are replaced, by which bytes, and which of these get
// checksums that agree. All are read, and a walk goes on from them: to its end, or not at all.
//
// The tree has the same path in every process, for the states name it.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include "base/crc32c.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/walk/saved_sample.hpp"
#include "walk/checkpoint.hpp"
#include "warren/walk.hpp"

namespace warren::fuzz {

namespace {

namespace files = std::filesystem;

enum : u8 { manifest_file, command_file, rank_0_file, queue_file, rank_1_file };
constexpr const char* names[] = {"manifest", "command", "rank-1-0", "queue-1-0", "rank-1-1"};
constexpr u8 is_sealed = 8;  // beside the number of a file
constexpr int scratch_descriptor = 900;
const std::string tree = "/proc/self/fd/" + std::to_string(scratch_descriptor) + "/tree";

void add(void* into, const void* from) {
    *static_cast<u64*>(into) += *static_cast<const u64*>(from);
}

/// Whether the walk reached its end.
bool run(walk::Options options) {
    options.threads = 1;
    options.result_bytes = sizeof(u64);
    walk::Callbacks callbacks;
    callbacks.visit = [](const walk::Entry& entry) {
        ++entry.result<u64>();
        entry.add_once(1, entry.inode(), 2, walk::sample_amount.data());
        return walk::Next::go_on;
    };
    callbacks.merge = add;
    callbacks.finish = [](const walk::Finished& directory) { static_cast<void>(directory.path()); };
    callbacks.work = [](const walk::Task& task) { add(task.result, walk::sample_amount.data()); };
    callbacks.fail = [](const walk::Failure&) {};
    callbacks.save = [] { return std::string("caller"); };
    callbacks.load = [](std::string_view saved) { return saved == "caller"; };
    u64 sum = 0;
    return !walk::walk(std::span(&tree, 1), options, callbacks, &sum).stopped;
}

/// The files of a walk through a tree that was interrupted at its begin.
struct Original {
    std::string folder = scratch_folder() + "/checkpoint";
    std::vector<std::string> written;  // of each file; empty: there is none

    Original() {
        const int scratch = ::open(scratch_folder().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
        WARREN_CHECK(::dup3(scratch, scratch_descriptor, O_CLOEXEC) == scratch_descriptor);
        ::close(scratch);
        files::create_directories(tree + "/child/inner");
        files::create_directories(tree + "/adopted");
        write_file(tree + "/child/file", "text");
        write_file(tree + "/other", "text");
        const walk::CheckpointFolder checkpoint(folder);
        walk::Options options;
        options.checkpoint = folder;
        options.interrupt = [] { return true; };
        // The walk may finish before it is interrupted.
        while (!checkpoint.has_manifest())
            run(options);
        WARREN_CHECK(checkpoint.write_command("command") == Errc::ok);
        write_queue({"batch", ""});
        for (const char* name : names)
            written.push_back(files::exists(folder + "/" + name) ? read_file(folder + "/" + name)
                                                                 : std::string());
    }

    void write_queue(const std::vector<std::string>& batches) const {
        walk::CheckpointFile queue = walk::CheckpointFolder(folder).begin_queue(1, 0);
        for (const std::string& batch : batches)
            walk::CheckpointFolder::write_batch(queue, batch);
        WARREN_CHECK(queue.finish() == Errc::ok);
    }
};

u32 checksum_of(std::string_view bytes) {
    return crc32c(std::as_bytes(std::span(bytes)));
}

/// Whether a file ends with the checksum of the preceding bytes.
bool is_whole(std::string_view file) {
    u32 checksum = 0;
    if (file.size() < sizeof checksum) return false;
    const size_t end = file.size() - sizeof checksum;
    std::memcpy(&checksum, file.data() + end, sizeof checksum);
    return checksum == checksum_of(file.substr(0, end));
}

/// Replaces a file by bytes with their checksums; a queue's are work batches, each behind its
/// length.
void write_sealed(const Original& original, u8 which, std::string_view bytes) {
    if (which != queue_file) {
        const u32 checksum = checksum_of(bytes);
        std::string sealed(bytes);
        sealed.append(reinterpret_cast<const char*>(&checksum), sizeof checksum);
        return write_file(original.folder + "/" + names[which], sealed);
    }
    std::vector<std::string> batches;
    for (Input left(reinterpret_cast<const u8*>(bytes.data()), bytes.size()); !left.at_end();)
        batches.emplace_back(left.take(left.get<u16>()));
    original.write_queue(batches);
}

void read_all(const walk::CheckpointFolder& folder) {
    walk::Manifest manifest;
    std::string bytes;
    static_cast<void>(folder.read_manifest(manifest));
    static_cast<void>(folder.read_command(bytes));
    static_cast<void>(folder.read_rank(1, 0, bytes));
    for (const u64 batches : {0, 1, 2, 1'000'000'000}) {
        u64 shown = 0;
        const Errc code = folder.read_queue(1, 0, batches, [&](std::string_view) {
            ++shown;
            return Errc::ok;
        });
        WARREN_CHECK(code != Errc::ok || shown == batches);
    }
}

std::string replacement(int which, std::string_view bytes) {
    return Output()
        .put(static_cast<u8>(which))
        .put(static_cast<u16>(bytes.size()))
        .bytes(bytes)
        .take();
}

/// A manifest of two ranks, their states and the queue of the first, and a lease between the two.
std::vector<std::string> forged_seeds(const Original& original) {
    walk::Manifest manifest;
    std::memcpy(&manifest, original.written[manifest_file].data(), sizeof manifest);
    manifest.ranks = 2;
    const std::string records = walk::record_of("file");
    walk::SavedRank first = walk::sample_state(tree, records);
    const std::string alone = walk::write_saved(first);
    first.work_batches = 2;
    first.leases[0].due = 4;
    walk::SavedRank second = walk::sample_state(tree, records);
    second.leases.clear();
    const walk::Owner owner{3, walk::sample_lease};
    std::string batches;
    for (const std::string& batch :
         {walk::batch_of({tree, "child"},
                         {walk::Work::names, owner, {"inner", {}}, {}, walk::pack_names(records)}),
          walk::batch_of({},
                         {walk::Work::directory, owner, {tree, {}}, walk::sample_amount, {}})}) {
        batches += Output().put(static_cast<u16>(batch.size())).bytes(batch).take();
    }
    const std::string_view head(reinterpret_cast<const char*>(&manifest), sizeof manifest);
    return {replacement(rank_0_file | is_sealed, alone),
            replacement(manifest_file | is_sealed, head) +
                replacement(rank_0_file | is_sealed, walk::write_saved(first)) +
                replacement(rank_1_file | is_sealed, walk::write_saved(second)) +
                replacement(queue_file | is_sealed, batches)};
}

}  // namespace

std::vector<std::string> seeds() {
    const Original original;
    std::vector<std::string> all = forged_seeds(original);
    all.emplace_back();
    for (int which = manifest_file; which <= queue_file; ++which) {
        const std::string_view bytes = original.written[which];
        all.push_back(replacement(which, bytes));
        all.push_back(replacement(which | is_sealed, bytes.substr(0, bytes.size() - sizeof(u32))));
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
    for (size_t i = 0; i < original.written.size(); ++i) {
        const std::string& written = original.written[i];
        if (!written.empty()) write_file(original.folder + "/" + names[i], written);
    }
    Input input(bytes, size_bytes);
    bool is_forged = false;
    while (!input.at_end()) {
        const auto flags = input.get<u8>();
        const auto which = static_cast<u8>(flags % is_sealed % std::size(names));
        const std::string_view replaced = input.take(input.get<u16>());
        // Bytes that end with their checksum by chance are forged as well: four zeros, for one.
        is_forged = is_forged || (flags & is_sealed) != 0 || is_whole(replaced);
        if ((flags & is_sealed) != 0) {
            write_sealed(original, which, replaced);
        } else {
            write_file(original.folder + "/" + names[which], replaced);
        }
    }
    read_all(walk::CheckpointFolder(original.folder));
    // Only the state says where the walk begins; the queue is not part of it.
    const std::string manifest = read_file(original.folder + "/manifest");
    const bool goes_on = manifest == original.written[manifest_file] &&
                         is_whole(read_file(original.folder + "/rank-1-0"));
    walk::Options options;
    options.checkpoint = original.folder;
    options.resume = true;
    const bool went_on = run(options);
    WARREN_CHECK(is_forged || went_on == goes_on);
    return 0;
}
