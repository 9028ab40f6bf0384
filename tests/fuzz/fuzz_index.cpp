// SPDX-License-Identifier: Apache-2.0
// The file of a chunk index. An input is a file as it is, or the parts of one that get a header and
// checksums that agree, so that what follows the checksums is reached. An index that loads is used,
// saved, and must be the same when it is loaded again.
#include <cstddef>

#include "base/crc32c.hpp"
#include "tests/fuzz/target.hpp"
#include "warren/dedup.hpp"

namespace warren::fuzz {

namespace {

enum Flag : u8 { is_sealed = 1, has_secret = 2, is_limited = 4 };

constexpr u64 entries_in_group = 4096;

/// The header as docs/CHUNKING.md describes it.
struct Header {
    char magic[8] = {'W', 'A', 'R', 'R', 'E', 'N', 'I', 'X'};
    u32 version = 1;
    u32 algorithm = 0;
    u64 entries = 0;
    u64 sources = 0;
    u64 sources_bytes = 0;
    u64 next_place = 0;
    u8 mark[16] = {};
    u32 sources_checksum = 0;
    u32 checksum = 0;
};
static_assert(sizeof(Header) == 72);

u32 checksum_of(std::string_view bytes) {
    return crc32c(std::as_bytes(std::span(bytes)));
}

std::string sealed_file(Input& input) {
    Header header;
    header.algorithm = input.get<u8>();
    header.sources = input.get<u16>();
    header.next_place = input.get<u64>();
    const std::string_view sources = input.take(input.get<u16>());
    const std::string_view rest = input.rest();
    const std::string_view entries =
        rest.substr(0, rest.size() / sizeof(dedup::Entry) * sizeof(dedup::Entry));
    header.entries = entries.size() / sizeof(dedup::Entry);
    header.sources_bytes = sources.size();
    header.sources_checksum = checksum_of(sources);
    header.checksum =
        checksum_of({reinterpret_cast<const char*>(&header), offsetof(Header, checksum)});
    Output file;
    file.put(header).bytes(sources).bytes(entries);
    constexpr size_t group_bytes = entries_in_group * sizeof(dedup::Entry);
    for (size_t at = 0; at < entries.size(); at += group_bytes)
        file.put(checksum_of(entries.substr(at, group_bytes)));
    return file.take();
}

void use(dedup::Index& index, const dedup::Index::Options& options) {
    const std::vector<dedup::Entry> before = index.sorted();
    WARREN_CHECK(before.size() == index.entries());
    for (const dedup::Entry& entry : before) {
        WARREN_CHECK(index.find(entry.key) == entry);
        static_cast<void>(index.source_of(entry.place));
    }
    const std::string copy = scratch_folder() + "/copy";
    WARREN_CHECK(index.save(copy) == Errc::ok);
    dedup::Index again;
    WARREN_CHECK(again.load(copy, options) == Errc::ok);
    WARREN_CHECK(again.sorted() == before && again.sources() == index.sources());
    if (!index.sources().empty()) index.forget_source(0);
    const u64 base = index.add_source("more", 100);
    std::vector<dedup::Chunk> chunks{{{1, 2}, base, 50}};
    if (!before.empty()) chunks.push_back({before.front().key, base + 50, 50});
    std::vector<dedup::Entry> found(chunks.size());
    WARREN_CHECK(index.add(chunks, found) == Errc::ok);
    WARREN_CHECK(index.save(copy) == Errc::ok);
}

}  // namespace

std::vector<std::string> seeds() {
    const std::string path = scratch_folder() + "/seed";
    std::vector<std::string> all;
    for (const bool is_secret : {false, true}) {
        dedup::Index index;
        WARREN_CHECK(index.open({.secret = is_secret ? "secret" : ""}) == Errc::ok);
        const u64 base = index.add_source("a/file", 300);
        index.add_source("empty", 0);
        std::vector<dedup::Chunk> chunks;
        for (u64 i = 0; i < 3; ++i)
            chunks.push_back({{i * 7, i % 2}, base + i * 100, 100});
        std::vector<dedup::Entry> found(chunks.size());
        WARREN_CHECK(index.add(chunks, found) == Errc::ok);
        WARREN_CHECK(index.save(path) == Errc::ok);
        const std::string file = read_file(path);
        all.push_back(Output().put(static_cast<u8>(is_secret ? has_secret : 0)).bytes(file).take());
        if (is_secret) continue;
        const std::string_view parts = std::string_view(file).substr(sizeof(Header));
        const u16 sources_bytes = 2 * 24 + 6 + 5;
        all.push_back(Output()
                          .put(u8{is_sealed})
                          .put(u8{0})
                          .put(u16{2})
                          .put(u64{300})
                          .put(sources_bytes)
                          .bytes(parts)
                          .take());
    }
    return all;
}

}  // namespace warren::fuzz

extern "C" int LLVMFuzzerTestOneInput(const warren::u8* bytes, size_t size_bytes) {
    using namespace warren::fuzz;
    Input input(bytes, size_bytes);
    const auto flags = input.get<warren::u8>();
    warren::dedup::Index::Options options;
    if ((flags & has_secret) != 0) options.secret = "secret";
    if ((flags & is_limited) != 0) options.memory_bytes = warren::mib;
    const std::string path = scratch_folder() + "/index";
    write_file(path, (flags & is_sealed) != 0 ? sealed_file(input) : std::string(input.rest()));
    warren::dedup::Index index;
    if (index.load(path, options) == warren::Errc::ok) use(index, options);
    return 0;
}
