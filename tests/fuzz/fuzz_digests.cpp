// SPDX-License-Identifier: Apache-2.0
// What `warren hash` reads from files that a stranger may have written: lines of a list of digests
// (--check), and the digests that a checkpoint keeps, as bytes of a list or as records whose
// checksums are right. A line that is understood can be written and read again as it was, and no
// kept digest makes a file go missing.
#include <filesystem>

#include "apps/warren/checksum_line.hpp"
#include "apps/warren/hash_jobs.hpp"
#include "base/crc32c.hpp"
#include "tests/fuzz/target.hpp"

namespace warren::fuzz {

namespace {

using namespace cli;

enum Kind : u8 { line, list, records, kinds };

constexpr u64 memory_bytes = mib;
constexpr std::string_view paths[] = {"a", "a/b", "other"};

const std::string& checkpoint_folder() {
    static const std::string folder = scratch_folder() + "/kept";
    std::filesystem::create_directories(folder);
    return folder;
}

void read_line(Input& input) {
    const auto algorithm = hash::all_algorithms[input.get<u8>() % std::size(hash::all_algorithms)];
    const auto found = parse_checksum_line(input.rest(), algorithm);
    if (!found) return;
    WARREN_CHECK(found->digest.size() == hash::digest_bytes(found->algorithm));
    WARREN_CHECK(!found->file.empty());
    for (const bool tagged : {false, true}) {
        std::string text =
            checksum_line(found->algorithm, found->digest, found->file, tagged, LineEnd::newline);
        text.pop_back();
        const auto again = parse_checksum_line(text, found->algorithm);
        WARREN_CHECK(again && again->file == found->file && again->digest == found->digest &&
                     again->algorithm == found->algorithm);
    }
}

void recall() {
    HashJobs jobs(memory_bytes);
    for (const std::string_view path : paths) {
        const HashJob job{.location = {std::string(path), "", std::string(path)}, .start = nullptr};
        WARREN_CHECK(jobs.add(job) == Errc::ok);
    }
    const u64 count = DigestKeeper(checkpoint_folder(), 1000).recall(jobs, memory_bytes);
    u64 kept = 0;
    u64 files = 0;
    for (HashJob job; jobs.next(job); ++files)
        kept += job.kept != nullptr ? 1 : 0;
    WARREN_CHECK(jobs.error() == Errc::ok && files == std::size(paths) && kept == count);
}

/// Behind the lengths and checksums that a list has for them.
std::string sealed(Input& input) {
    Output list;
    while (!input.at_end()) {
        const std::string_view record = input.take(input.get<u8>());
        list.put(static_cast<u32>(record.size()))
            .put(crc32c(std::as_bytes(std::span(record))))
            .bytes(record);
    }
    return list.take();
}

/// A list of what a run has kept of two files.
std::string written_list() {
    DigestKeeper keeper(checkpoint_folder(), 1000);
    WARREN_CHECK(keeper.begin(false));
    const u8 digest[32] = {1, 2, 3};
    keeper.keep("a/b", {1, 12, 5, 1000, 2000}, digest);
    keeper.keep("a", {1, 13, 70'000, 1000, 3000}, std::span(digest).first(16));
    WARREN_CHECK(keeper.finish());
    return read_file(checkpoint_folder() + "/digests-1-0");
}

}  // namespace

std::vector<std::string> seeds() {
    std::vector<std::string> all;
    const u8 digest[32] = {1, 2, 3};
    for (const hash::Algorithm algorithm : hash::all_algorithms) {
        for (const bool tagged : {false, true}) {
            const auto bytes = std::span(digest).first(hash::digest_bytes(algorithm));
            std::string text = checksum_line(algorithm, bytes, tagged ? "a (b) = c" : "new\nline",
                                             tagged, LineEnd::newline);
            text.pop_back();
            all.push_back(Output().put(Kind::line).put(algorithm).bytes(text).take());
        }
    }
    const std::string kept = written_list();
    all.push_back(Output().put(Kind::list).bytes(kept).take());
    Input input(reinterpret_cast<const u8*>(kept.data()), kept.size());
    Output bare;
    bare.put(Kind::records);
    while (!input.at_end()) {
        const auto size = static_cast<u8>(input.get<u32>());
        input.get<u32>();
        bare.put(size).bytes(input.take(size));
    }
    all.push_back(bare.take());
    return all;
}

}  // namespace warren::fuzz

extern "C" int LLVMFuzzerTestOneInput(const warren::u8* bytes, size_t size_bytes) {
    using namespace warren::fuzz;
    Input input(bytes, size_bytes);
    const auto kind = input.get<warren::u8>() % kinds;
    if (kind == line) {
        read_line(input);
        return 0;
    }
    write_file(checkpoint_folder() + "/digests-1-0",
               kind == list ? std::string(input.rest()) : sealed(input));
    recall();
    return 0;
}
