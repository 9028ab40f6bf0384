// SPDX-License-Identifier: Apache-2.0
// Reads parts of many files at once, which need not be open.
//
// Data locks keep the blocks of the files in place, as for a single read. But a file that is not
// open may be removed meanwhile, so each mapping is looked up again after its bytes were read. That
// suffices: an inode is freed before a commit lets another file use its blocks, and a handle is
// never reused. Contents that are not in one run of blocks, or have moved, are read from the file,
// opened for that.
#include <algorithm>
#include <shared_mutex>
#include <vector>

#include "base/out_of_memory.hpp"
#include "fs/volume/data_locks.hpp"
#include "fs/volume/open_while.hpp"

namespace warren {
namespace {

using format::block_size;

/// Reads of a call that go to the disk together.
class ReadGroup {
 public:
    ReadGroup(VolumeImplementation& volume, std::span<FileRead> reads)
        : volume_(volume), reads_(reads) {}

    /// Reads contents that are in an inode or in one run of blocks. Returns the reads that remain
    /// to be done one by one.
    std::vector<FileRead*> read() {
        const auto locks = lock_data<std::shared_lock>(
            volume_, reads_, [](const FileRead& one) { return one.file.inode; });
        for (FileRead& one : reads_) {
            const Result<ops::Mapping> mapping = map(one);
            if (!mapping) {
                one.done = mapping.code();
            } else if (mapping->kind == ops::MappingKind::bytes) {
                one.done = read_inline(*mapping, one);
            } else if (!is_one_run(*mapping, one)) {
                others_.push_back(&one);
            } else if (volume_.file_buffer() == nullptr) {
                in_blocks_.push_back({place_in(*mapping, one), &one});
            } else {
                const u64 run_end = mapping->place + mapping->blocks * block_size;
                note(one, place_in(*mapping, one),
                     volume_.read_data(place_in(*mapping, one), one.target, run_end) == Errc::ok);
            }
        }
        read_blocks();
        return std::move(others_);
    }

 private:
    struct InBlocks {
        u64 place;
        FileRead* read;
    };

    Result<ops::Mapping> map(const FileRead& one) const {
        return volume_.map_block(one.file, one.offset / block_size);
    }
    static u64 place_in(const ops::Mapping& mapping, const FileRead& one) {
        return mapping.place + one.offset % block_size;
    }
    /// Whether the mapping of its first block, if it is in blocks, covers the whole read.
    static bool is_one_run(const ops::Mapping& mapping, const FileRead& one) {
        const u64 begin = one.offset % block_size;
        return mapping.kind == ops::MappingKind::data && one.offset <= mapping.size &&
               one.target.size() <= mapping.size - one.offset &&
               ops::blocks_of(begin + one.target.size()) <= mapping.blocks;
    }
    static u64 read_inline(const ops::Mapping& mapping, const FileRead& one) {
        if (one.offset >= mapping.size) return 0;
        const u64 count = std::min<u64>(one.target.size(), mapping.size - one.offset);
        VolumeImplementation::copy_inline(mapping.bytes, one.offset, one.target.first(count));
        return count;
    }

    void read_blocks() {
        std::ranges::sort(in_blocks_, {}, &InBlocks::place);
        std::vector<DiskRead> requests;
        requests.reserve(in_blocks_.size());
        for (const InBlocks& one : in_blocks_)
            requests.push_back({one.place, one.read->target});
        // One request that fails must not spoil the others: all are repeated one by one.
        const bool is_read = volume_.disk().read_many(requests) == Errc::ok;
        for (const auto& [place, one] : in_blocks_)
            note(*one, place, is_read);
    }
    /// The bytes at `place` were read: they are the file's if it still has them there.
    void note(FileRead& one, u64 place, bool is_read) {
        const u64 begin = one.offset % block_size;
        if (is_read && volume_.still_maps(one.file, one.offset / block_size, place - begin,
                                          ops::blocks_of(begin + one.target.size()))) {
            one.done = one.target.size();
        } else {
            others_.push_back(&one);
        }
    }

    VolumeImplementation& volume_;
    std::span<FileRead> reads_;
    std::vector<InBlocks> in_blocks_;
    std::vector<FileRead*> others_;
};

}  // namespace

void Volume::read_many(std::span<FileRead> reads) {
    while (!reads.empty()) {
        const std::span<FileRead> group = reads.first(std::min(reads.size(), few_data_locks));
        reads = reads.subspan(group.size());
        const Errc code = or_no_memory([&] {
            for (FileRead* one : ReadGroup(*implementation_, group).read()) {
                const OpenWhile open(*this, one->file);
                one->done = open.code() == Errc::ok ? read(one->file, one->offset, one->target)
                                                    : Result<u64>(open.code());
            }
        });
        if (code == Errc::ok) continue;
        for (FileRead& one : group)
            one.done = code;
    }
}

Result<u64> Volume::address_of(Handle file, u64 offset) {
    WARREN_LET(run, implementation_->map_block(file, offset / block_size));
    return run->kind == ops::MappingKind::data ? run->place + offset % block_size : 0;
}

}  // namespace warren
