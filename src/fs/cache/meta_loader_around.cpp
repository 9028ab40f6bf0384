// SPDX-License-Identifier: Apache-2.0
// Blocks that are loaded with a missing one, because its caller will need them next: for a scan the
// blocks in use around it, for new inodes the unused ones behind it.
#include "base/check.hpp"
#include "fs/cache/meta_loader.hpp"
#include "fs/ops/show_block.hpp"

namespace warren {

using format::Block;

namespace {

/// Blocks that are loaded together lie in an aligned run of this many bytes.
constexpr u64 around_bytes = MetaLoader::batch_max * format::block_size;
static_assert(format::frame_size % around_bytes == 0);

}  // namespace

bool MetaLoader::is_written(u64 place) {
    const Result<Expected> expected = expect(place);
    return expected && expected->is_written;
}

void MetaLoader::load_around(std::span<const u64> places, std::span<Errc> answers) {
    WARREN_CHECK(store_.heads == nullptr && places.size() == answers.size());
    std::array<u64, batch_max> wanted;
    std::array<Errc, batch_max> codes;
    for (u64 i = 0; i < places.size(); ++i) {
        const u64 place = places[i];
        answers[i] = Errc::ok;
        if (is_resident(place)) continue;
        if (holds_inodes(place)) answers[i] = load(place - place % format::frame_size);
        if (answers[i] != Errc::ok) continue;
        const u64 first = place / around_bytes * around_bytes;
        u64 count = 0;
        u64 own = 0;
        for (u64 at = first; at < first + around_bytes; at += format::block_size) {
            if (at == place) own = count;
            if (at == place || (!is_resident(at) && is_written(at))) wanted[count++] = at;
        }
        load_some(std::span(wanted).first(count), codes, nullptr);
        answers[i] = codes[own] == Errc::retry ? load(place) : codes[own];
    }
}

/// New inodes take one block after the other: makes the blocks behind `place` that hold no inode
/// yet resident, as zeros. Requires: the lock is held.
void MetaLoader::show_unwritten(u64 place) {
    if (store_.heads != nullptr) return;
    static const Block zeros{};
    const u64 end = (place / around_bytes + 1) * around_bytes;
    for (u64 at = place + format::block_size; at < end; at += format::block_size) {
        const Result<Expected> expected = expect(at);
        if (expected && !expected->is_written && find_read(at, nullptr) == nullptr)
            ops::show_block(store_, at, expected->kind, zeros);
    }
}

}  // namespace warren
