// SPDX-License-Identifier: Apache-2.0
// The quick check loads all metadata into memory. If they would take more than half of the free
// memory, it is not run, and the full check follows, which reads block by block.
#include "fs/check/examine_volume.hpp"

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "base/runs.hpp"
#include "fs/check/check_frames.hpp"
#include "fs/core/frame_bits.hpp"
#include "fs/engine/examination.hpp"

namespace warren::check {
namespace {

using format::frame_size;
using format::FrameEntry;

/// Reads the blocks of a frame for which `is_wanted(block)` is true, each run as one request.
template <class IsWanted>
Errc read_blocks(Disk& disk, u64 place, std::span<std::byte> target, const IsWanted& is_wanted) {
    return for_each_run(0, format::blocks_per_frame, is_wanted, [&](u64 begin, u64 end) {
        const u64 offset = begin * format::block_size;
        return disk.read(place + offset,
                         target.subspan(offset, (end - begin) * format::block_size));
    });
}

/// The number after `word` in a file of /proc or /sys; `otherwise` if there is none.
u64 number_in(const char* path, const std::string& word, u64 otherwise) {
    std::ifstream file(path);
    std::string found;
    while (found != word && file >> found) {
    }
    u64 number = 0;
    return file >> number ? number : otherwise;
}

/// The memory that is available on the machine and within the limit of this process's cgroup.
u64 free_memory_bytes() {
    constexpr u64 all = ~u64{0};
    const u64 available = number_in("/proc/meminfo", "MemAvailable:", all / kib) * kib;
    const u64 limit = number_in("/sys/fs/cgroup/memory.max", "", all);
    const u64 taken = number_in("/sys/fs/cgroup/memory.current", "", 0);
    return std::min(available, limit == all || limit < taken ? limit : limit - taken);
}

Errc examine(const ExamTables& tables, const ReadDisk& read, EngineChoice engine,
             Examined& examined, std::string& why_not) {
    if (engine == EngineChoice::cuda) {
#if defined(WARREN_CUDA)
        return examine_on_device(tables, read, examined, why_not);
#else
        why_not = "this program was built without it";
        return Errc::no_device;
#endif
    }
    if (tables.frame_numbers.size() * frame_size > free_memory_bytes() / 2) {
        why_not = "the metadata take more than half of the memory that is free";
        return Errc::no_memory;
    }
    const Errc code = examine_on_host(tables, read, examined);
    if (code == Errc::no_memory) why_not = "there is not enough memory";
    return code;
}

}  // namespace

bool fill_tables(Disk& disk, const format::Superblock& superblock, u64 hash_mask,
                 ExamTables& tables) {
    const CheckOptions silent{};
    CheckResult found;
    Report report(silent, found);
    FrameMap frames(disk, superblock, report);
    const Errc code = frames.load();
    const u64 count = superblock.frame_count;
    if (code != Errc::ok || found.problems > 0 || superblock.size_bytes != count * frame_size) {
        return false;
    }
    tables.slots.assign(count, nobody);
    tables.kinds.assign(count, 0);
    tables.used.assign(count * 8, 0);
    tables.owned.assign(count * 8, 0);
    std::vector<u64> metadata;
    frames.for_each_frame([&](u64 frame, const FrameEntry& entry, const u64(&has)[8]) {
        if (frame >= count) return;
        tables.kinds[frame] = static_cast<u8>(entry.kind);
        std::copy(std::begin(entry.used), std::end(entry.used), &tables.used[frame * 8]);
        std::copy(std::begin(has), std::end(has), &tables.owned[frame * 8]);
        if (entry.references != 0) tables.counted.push_back({frame, entry.references});
        const auto kind = static_cast<FrameKind>(entry.kind);
        if (kind == FrameKind::inodes) tables.frame_numbers.push_back(frame);
        if (kind == FrameKind::metadata) metadata.push_back(frame);
    });
    std::vector<u64>& numbers = tables.frame_numbers;
    tables.inode_frames = static_cast<u32>(numbers.size());
    numbers.insert(numbers.end(), metadata.begin(), metadata.end());
    for (u32 i = 0; i < numbers.size(); ++i)
        tables.slots[numbers[i]] = i;
    tables.facts = {superblock.header.volume,
                    superblock.size_bytes,
                    count,
                    {superblock.hash_key[0], superblock.hash_key[1]},
                    hash_mask,
                    superblock.root_inode,
                    superblock.orphan_directory,
                    superblock.blocks_used,
                    superblock.inodes_used,
                    tables.counted.size()};
    format::Superblock right = superblock;
    frames.fill(right);
    // Ordinals of inodes and indices of blocks are 32-bit numbers.
    return right.metadata_frames_end == superblock.metadata_frames_end &&
           right.data_frames_begin >= superblock.data_frames_begin &&
           numbers.size() < nobody / format::inodes_per_frame;
}

Errc read_frame(Disk& disk, const ExamTables& tables, u64 place, std::span<std::byte> target) {
    const u64 frame = place / frame_size;
    const u64* bits = &tables.used[frame * 8];
    if (tables.kinds[frame] != static_cast<u8>(FrameKind::inodes)) {
        return read_blocks(disk, place, target,
                           [&](u64 block) { return core::test_bit(bits, block); });
    }
    WARREN_TRY(disk.read(place, target.first(format::block_size)));
    const auto& bitmap = *reinterpret_cast<const format::InodeBitmap*>(target.data());
    return read_blocks(disk, place, target, [&](u64 block) {
        return block > 0 && (bitmap.used[block / 4] >> block % 4 * 16 & 0xffff) != 0;
    });
}

Result<bool> examine_volume(Disk& disk, const format::Superblock& superblock, u64 hash_mask,
                            EngineChoice engine, CheckResult& result) {
    constexpr u64 bytes_a_frame = 4 * 64 + 16;  // used and owned blocks, here and in the tables
    if (superblock.frame_count * bytes_a_frame > free_memory_bytes() / 2) {
        result.note = "the frame table takes more than half of the memory that is free";
        return false;
    }
    ExamTables tables;
    if (!fill_tables(disk, superblock, hash_mask, tables)) return false;
    Examined examined;
    const auto read = [&](u64 place, std::span<std::byte> target) {
        return read_frame(disk, tables, place, target);
    };
    const Errc code = examine(tables, read, engine, examined, result.note);
    if (code == Errc::no_device) return code;
    if (code != Errc::ok) return false;
    result.engine = engine == EngineChoice::cuda ? EngineChoice::cuda : EngineChoice::cpu;
    result.start_seconds += examined.start_seconds;
    result.load_seconds += examined.load_seconds;
    result.disk_seconds += examined.disk_seconds;
    result.examine_seconds += examined.exam_seconds;
    const ops::examine::ExamState& state = examined.state;
    if (state.flaws != 0) return false;
    result.inodes = state.inodes;
    result.directories = state.directories;
    result.blocks_used = state.blocks_used;
    return true;
}

}  // namespace warren::check
