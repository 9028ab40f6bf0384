// SPDX-License-Identifier: Apache-2.0
// Inodes are read in the order in which they lie on disk, and only blocks with an inode that
// exists, so the check of a large volume is a sequence of long reads.
#include "fs/check/check_inodes.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "fs/check/check_context.hpp"
#include "fs/disk/block_io.hpp"
#include "fs/format/check_structure.hpp"

namespace warren::check {

using format::Block;
using format::block_size;
using format::Inode;
using format::inodes_per_block;
using format::inodes_per_frame;

Errc InodeMap::set_frames(std::vector<u64> numbers) {
    frames = std::move(numbers);
    if (frames.size() >= nobody / inodes_per_frame) return Errc::overflow;
    const std::size_t total = frames.size() * inodes_per_frame;
    has_bitmap.assign(frames.size(), 0);
    writes_bitmap.assign(frames.size(), 0);
    statuses.assign(total, Status::absent);
    types.assign(total, 0);
    marks.assign(total, 0);
    names.assign(total, 0);
    parents.assign(total, nobody);
    name_blocks.assign(total, 0);
    name_slots.assign(total, 0);
    return Errc::ok;
}

u64 InodeMap::number_of(u32 ordinal) const {
    return frames[ordinal / inodes_per_frame] * inodes_per_frame + ordinal % inodes_per_frame;
}

u32 InodeMap::ordinal_of(u64 number) const {
    const u64 frame = number / inodes_per_frame;
    const u32 slot = static_cast<u32>(number % inodes_per_frame);
    const auto found = std::ranges::lower_bound(frames, frame);
    if (slot < inodes_per_block || found == frames.end() || *found != frame) return nobody;
    return static_cast<u32>(found - frames.begin()) * inodes_per_frame + slot;
}

namespace {

constexpr u32 run_blocks_max = 64;

/// Why a repair cannot keep an inode, or null.
const char* find_hopeless(const Inode& inode) {
    if (inode.generation == 0) return "was never used";
    if (!format::type_is_known(inode.mode)) return "has no valid type";
    if (!format::is_symlink(inode.mode)) return nullptr;
    const bool has_target = format::link_is_possible(inode) && *format::target_head(inode).bytes;
    return has_target ? nullptr : "is a symbolic link without a target";
}

class InodeScan {
 public:
    explicit InodeScan(Context& context) : context_(context), inodes_(context.inodes) {}

    void run() {
        std::vector<Block> blocks(run_blocks_max);
        for (u32 index = 0; index < inodes_.frames.size(); ++index) {
            read_bitmap(index);
            scan_frame(index, blocks);
        }
    }

 private:
    /// Sets `wanted_`, the slots to check.
    void read_bitmap(u32 index) {
        const u64 place = inodes_.frames[index] * format::frame_size;
        Block block;
        const bool is_sound = read_checked(context_.disk, place, format::BlockKind::inode_bitmap,
                                           context_.volume(), block) == Errc::ok;
        inodes_.has_bitmap[index] = is_sound;
        inodes_.writes_bitmap[index] = !is_sound;
        if (!is_sound) {
            context_.report.frame(inodes_.frames[index], "its inode bitmap is damaged");
            std::ranges::fill(wanted_, ~u64{0});
            return;
        }
        const auto& bitmap = reinterpret_cast<const format::InodeBitmap&>(block);
        std::memcpy(wanted_, bitmap.used, sizeof wanted_);
        if ((wanted_[0] & 0xffff) != 0xffff) {
            context_.report.frame(inodes_.frames[index], "its inode bitmap has its own place free");
            inodes_.writes_bitmap[index] = 1;
        }
    }

    u32 wanted_of_block(u32 block) const {
        return static_cast<u32>(wanted_[block / 4] >> block % 4 * 16 & 0xffff);
    }

    void scan_frame(u32 index, std::vector<Block>& blocks) {
        const u64 place = inodes_.frames[index] * format::frame_size;
        for (u32 first = 1; first < format::blocks_per_frame;) {
            u32 run = 0;
            while (run < run_blocks_max && first + run < format::blocks_per_frame &&
                   wanted_of_block(first + run) != 0) {
                ++run;
            }
            if (run == 0) {
                ++first;
                continue;
            }
            read_run(place + first * block_size, std::span(blocks.data(), run));
            for (u32 i = 0; i < run; ++i)
                scan_block(index, first + i, blocks[i]);
            first += run;
        }
    }

    /// Reads blocks of inodes. A block that cannot be read becomes zeros, which are no valid inode.
    void read_run(u64 place, std::span<Block> blocks) {
        if (context_.disk.read(place, std::as_writable_bytes(blocks)) == Errc::ok) return;
        for (Block& block : blocks) {
            if (!context_.read(place, block)) block = Block{};
            place += block_size;
        }
    }

    void scan_block(u32 index, u32 block, const Block& content) {
        const auto* inodes = reinterpret_cast<const Inode*>(&content);
        for (u32 i = 0; i < inodes_per_block; ++i) {
            if ((wanted_of_block(block) >> i & 1) == 0) continue;
            scan_inode(index * inodes_per_frame + block * inodes_per_block + i, inodes[i],
                       inodes_.has_bitmap[index] != 0);
        }
    }

    void scan_inode(u32 ordinal, const Inode& inode, bool is_certain) {
        const u64 number = inodes_.number_of(ordinal);
        const bool has_crc =
            inode.generation != 0 && format::inode_is_sound(inode, context_.volume(), number);
        const char* hopeless = find_hopeless(inode);
        inodes_.types[ordinal] = format::entry_type(inode.mode);
        if (!is_certain) {
            if (!has_crc || hopeless != nullptr) return;
            inodes_.statuses[ordinal] = Status::doubtful;
        } else if (hopeless != nullptr) {
            context_.problem(ordinal,
                             has_crc ? hopeless : std::string("is damaged and ") + hopeless);
            inodes_.statuses[ordinal] = Status::unusable;
            return;
        } else if (has_crc) {
            inodes_.statuses[ordinal] = Status::sound;
        } else {
            context_.wrong(ordinal, "its CRC is wrong");
            inodes_.statuses[ordinal] = Status::damaged;
        }
        if (inodes_.is_directory(ordinal)) {
            inodes_.parents[ordinal] = inodes_.ordinal_of(inode.parent);
        }
    }

    Context& context_;
    InodeMap& inodes_;
    u64 wanted_[inodes_per_frame / 64];
};

/// Makes the root or the orphan directory exist, even if its inode is lost: its leaves may be left.
void secure(Context& context, u32 ordinal, const char* what) {
    InodeMap& inodes = context.inodes;
    const bool is_sound = inodes.statuses[ordinal] == Status::doubtful || inodes.exists(ordinal);
    if (is_sound && inodes.is_directory(ordinal)) {
        if (inodes.statuses[ordinal] == Status::doubtful) inodes.statuses[ordinal] = Status::sound;
    } else {
        context.report.volume(std::string(what) + " is lost");
        inodes.statuses[ordinal] = Status::damaged;
        inodes.types[ordinal] = InodeMap::directory_type;
        inodes.set(ordinal, mark_write);
        inodes.writes_bitmap[ordinal / inodes_per_frame] = 1;
    }
    inodes.parents[ordinal] = ordinal;
    inodes.set(ordinal, mark_placed);
    inodes.set(ordinal, mark_anchored);
}

}  // namespace

Errc scan_inodes(Context& context) {
    WARREN_TRY(context.inodes.set_frames(context.frames.inode_frames()));
    InodeScan(context).run();
    context.root = context.inodes.ordinal_of(context.superblock.root_inode);
    context.orphans = context.inodes.ordinal_of(context.superblock.orphan_directory);
    secure(context, context.root, "the root directory");
    secure(context, context.orphans, "the directory of orphans");
    return Errc::ok;
}

void compare_inode_count(Context& context) {
    const i64 count = std::ranges::count_if(context.inodes.statuses, [](Status status) {
        return status != Status::absent && status != Status::doubtful;
    });
    if (static_cast<u64>(count) == context.superblock.inodes_used) return;
    context.report.volume("superblock: counts " + std::to_string(context.superblock.inodes_used) +
                          " inodes, there are " + std::to_string(count));
}

}  // namespace warren::check
