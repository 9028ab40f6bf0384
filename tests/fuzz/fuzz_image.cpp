// SPDX-License-Identifier: Apache-2.0
// A volume with changed metadata. An input says what is done with the volume, then which bytes of
// which block are replaced; blocks get checksums that agree afterwards, those in the journal too.
// Whatever the bytes are, check and repair end, and an open volume answers.
#include <map>

#include "base/crc32c.hpp"
#include "fs/check/check.hpp"
#include "fs/format/check_block.hpp"
#include "fs/format/frame.hpp"
#include "fs/format/inode.hpp"
#include "fs/format/journal.hpp"
#include "fs/format/superblock.hpp"
#include "tests/fuzz/image.hpp"
#include "tests/fuzz/target.hpp"

namespace warren::fuzz {

namespace {

using format::Block;
using format::block_size;
using format::BlockHeader;
using format::BlockKind;

enum Flag : u8 {
    is_cut = 1,          // begins with the volume whose journal is to be replayed
    is_full = 2,         // checks without a first look
    repairs = 4,         // before it is opened
    writes = 8,          // opens for writing, adds and removes
    removes_trees = 16,  // by bulk removal
    is_small = 32,       // with the smallest meta buffer
    is_unsealed = 64,    // checksums stay as they are
};

constexpr u32 journal_blocks_shown = 24;  // of each half
constexpr int visits_max = 150;           // a forged directory may lead in a circle

Block read_block(Disk& disk, u64 place) {
    Block block{};
    static_cast<void>(disk.read(place, std::as_writable_bytes(std::span(&block, 1))));
    return block;
}

void write_block(Disk& disk, u64 place, const Block& block) {
    WARREN_CHECK(disk.write(place, std::as_bytes(std::span(&block, 1))) == Errc::ok);
}

/// A volume and the places of its metadata.
class Base {
 public:
    explicit Base(const MemoryDisk& disk) : disk_(disk.copy()) {
        const Block first = read_block(*disk_, 0);
        superblock_ = reinterpret_cast<const format::Superblock&>(first);
        inodes_ = superblock_.root_inode / format::inodes_per_frame * format::frame_size;
        places_ = {0, format::superblock_copy_offset, superblock_.frame_table_offset, inodes_};
        for (u64 place = inodes_ + block_size; place < inodes_ + format::frame_size;
             place += block_size) {
            const Block block = read_block(*disk_, place);
            if (reinterpret_cast<const format::Inode&>(block).mode != 0) places_.push_back(place);
        }
        const u64 end = superblock_.metadata_frames_end * format::frame_size;
        for (u64 place = inodes_ + format::frame_size; place < end; place += block_size) {
            const Block block = read_block(*disk_, place);
            if (reinterpret_cast<const BlockHeader&>(block).place == place)
                places_.push_back(place);
        }
        for (const u64 half : halves()) {
            for (u32 i = 0; i < journal_blocks_shown; ++i)
                places_.push_back(half + i * block_size);
        }
    }

    std::unique_ptr<MemoryDisk> copy() const { return disk_->copy(); }
    const std::vector<u64>& places() const { return places_; }

    /// Makes checksums agree after the blocks at `places` were changed.
    void seal(MemoryDisk& disk, const std::map<u64, Block>& changed) const {
        for (const auto& [place, block] : changed) {
            Block sealed = block;
            if (!is_in_journal(place)) seal_at(place, sealed);
            write_block(disk, place, sealed);
        }
        for (const u64 half : halves())
            seal_transaction(disk, half);
    }

 private:
    std::vector<u64> halves() const {
        const u64 begin = superblock_.journal_offset;
        return {begin, begin + superblock_.journal_blocks / 2 * block_size};
    }
    bool is_in_journal(u64 place) const {
        return place >= superblock_.journal_offset &&
               place < superblock_.journal_offset + superblock_.journal_blocks * block_size;
    }

    void seal_at(u64 place, Block& block) const {
        const u64 volume = superblock_.header.volume;
        if (place <= inodes_ || place >= inodes_ + format::frame_size) {
            const u64 transaction = reinterpret_cast<const BlockHeader&>(block).transaction;
            format::seal_block(block, volume, place, transaction);
            return;
        }
        for (u32 i = 0; i < format::inodes_per_block; ++i) {
            auto& inode = reinterpret_cast<format::Inode*>(&block)[i];
            Block alone{};
            auto& copy = reinterpret_cast<format::Inode*>(&alone)[i];
            copy = inode;
            format::seal_inodes(alone, volume, place, inode.transaction);
            inode = copy;
        }
    }

    /// Seals the transaction of one descriptor at the begin of a half.
    void seal_transaction(MemoryDisk& disk, u64 half) const {
        Block first = read_block(disk, half);
        const auto& descriptor = reinterpret_cast<const format::JournalDescriptor&>(first);
        if (descriptor.header.kind != static_cast<u16>(BlockKind::journal_descriptor)) return;
        const u64 total = descriptor.total;
        if (total > format::journal_places_max) return;
        seal_at(half, first);
        write_block(disk, half, first);
        u32 sum = crc32c(std::as_bytes(std::span(&first, 1)));
        for (u64 i = 0; i < total; ++i) {
            const u64 place = half + (1 + i) * block_size;
            Block block = read_block(disk, place);
            seal_at(descriptor.places[i] / block_size * block_size, block);
            write_block(disk, place, block);
            sum = crc32c(std::as_bytes(std::span(&block, 1)), sum);
        }
        const u64 end = half + (1 + total) * block_size;
        Block last = read_block(disk, end);
        auto& commit = reinterpret_cast<format::JournalCommit&>(last);
        if (commit.header.kind != static_cast<u16>(BlockKind::journal_commit)) return;
        commit.crc_of_blocks = sum;
        seal_at(end, last);
        write_block(disk, end, last);
    }

    std::unique_ptr<MemoryDisk> disk_;
    format::Superblock superblock_;
    u64 inodes_ = 0;
    std::vector<u64> places_;
};

void change(const Base& base, MemoryDisk& disk, Input& input, bool is_sealed) {
    std::map<u64, Block> changed;
    while (!input.at_end()) {
        const u64 place = base.places()[input.get<u16>() % base.places().size()];
        const u32 at = input.get<u16>() % block_size;
        const std::string_view bytes = input.take(input.get<u8>());
        Block& block = changed.try_emplace(place, read_block(disk, place)).first->second;
        std::memcpy(reinterpret_cast<char*>(&block) + at, bytes.data(),
                    std::min<size_t>(bytes.size(), block_size - at));
    }
    if (is_sealed) return base.seal(disk, changed);
    for (const auto& [place, block] : changed)
        write_block(disk, place, block);
}

CheckResult check(Disk& disk, bool is_full, bool repairs, Failure& failure) {
    CheckOptions options;
    options.repair = repairs;
    options.engine = EngineChoice::cpu;
    options.is_full = is_full;
    options.report = [](const std::string&) {};
    CheckResult result;
    failure = check_disk(disk, "image", options, result);
    return result;
}

/// Uses an open volume.
class Visitor {
 public:
    Visitor(Volume& volume, u8 flags) : volume_(volume), flags_(flags) {}

    void run() {
        directories_ = {volume_.root()};
        for (size_t i = 0; i < directories_.size(); ++i)
            list(directories_[i]);
        static_cast<void>(volume_.statistics());
        std::vector<DirectoryUsage> usage;
        static_cast<void>(volume_.usage(anybody, volume_.root(), {.depth_max = 3}, usage));
        if ((flags_ & writes) == 0) return;
        for (size_t i = std::min<size_t>(directories_.size(), 8); i-- > 0;)
            change(directories_[i]);
        static_cast<void>(volume_.sync());
    }

 private:
    std::vector<std::string> names_in(Handle directory) {
        std::vector<std::string> names;
        static_cast<void>(volume_.read_directory(directory, 0, [&](const DirectoryEntry& entry) {
            names.emplace_back(entry.name);
            return ++visits_ < visits_max;
        }));
        return names;
    }
    void list(Handle directory) {
        for (const std::string& name : names_in(directory)) {
            const auto found = volume_.lookup(anybody, directory, name);
            if (!found) continue;
            look(*found);
            if (format::is_directory(found->mode)) directories_.push_back(found->handle);
        }
    }
    void look(const Attributes& file) {
        char names[5000];
        static_cast<void>(volume_.list_attributes(file.handle, names));
        std::vector<std::byte> bytes(8 * block_size);
        static_cast<void>(volume_.get_attribute(file.handle, "user.note", bytes));
        static_cast<void>(volume_.read_link(file.handle));
        if (volume_.open_file(file.handle) != Errc::ok) return;
        for (const u64 from : {u64{0}, file.size - std::min<u64>(file.size, 100)}) {
            const auto got = volume_.read(file.handle, from, bytes);
            WARREN_CHECK(!got || *got <= bytes.size());
        }
        static_cast<void>(volume_.seek(file.handle, 0, Seek::hole));
        if ((flags_ & writes) != 0) {
            static_cast<void>(volume_.write(file.handle, 5000, std::span(bytes).first(10)));
            static_cast<void>(
                volume_.allocate(file.handle, Allocate::punch_hole, 0, 2 * block_size));
            static_cast<void>(volume_.set_attribute(anybody, file.handle, "user.new",
                                                    std::span(bytes).first(300)));
        }
        static_cast<void>(volume_.release(file.handle));
    }
    void change(Handle directory) {
        static_cast<void>(volume_.create(anybody, directory, "made", {}));
        static_cast<void>(volume_.create(anybody, directory, "new", {.mode = 040755}));
        static_cast<void>(volume_.rename(anybody, directory, "made", volume_.root(), "moved"));
        Rebuilt rebuilt;
        static_cast<void>(volume_.rebuild(anybody, directory, rebuilt));
        for (const std::string& name : names_in(directory)) {
            Removal removal;
            if ((flags_ & removes_trees) != 0) {
                static_cast<void>(volume_.remove_tree(anybody, directory, name, removal));
            } else if (volume_.unlink(anybody, directory, name) != Errc::ok) {
                static_cast<void>(volume_.remove_directory(anybody, directory, name));
            }
        }
    }

    Volume& volume_;
    const u8 flags_;
    int visits_ = 0;
    std::vector<Handle> directories_;
};

void use(MemoryDisk& disk, u8 flags) {
    Failure failure;
    const bool is_closer = (flags & is_full) != 0;
    const CheckResult result = check(disk, is_closer, (flags & repairs) != 0, failure);
    if ((flags & repairs) != 0 && failure.code == Errc::ok && result.repaired == result.problems) {
        // What the check calls repaired must be repaired.
        WARREN_CHECK(check(disk, true, false, failure).problems == 0);
    }
    OpenOptions options;
    options.read_only = (flags & writes) == 0;
    if ((flags & is_small) != 0) options.meta_buffer_bytes = mib;
    const std::unique_ptr<Volume> volume = open(disk, options);
    if (volume == nullptr) return;
    Visitor(*volume, flags).run();
    static_cast<void>(volume->close());
}

}  // namespace

std::vector<std::string> seeds() {
    std::vector<std::string> all;
    for (const u8 flags : {0, 1, 2, 6, 8, 9, 5 + 8, 4 + 8 + 16, 8 + 32, 1 + 8 + 16 + 32, 64 + 8}) {
        all.push_back(Output().put(flags).take());
        Output edits;
        edits.put(flags);
        for (const u16 block : {2, 5, 12})
            edits.put(block).put(u16{64}).put(u8{4}).put(u32{1});
        all.push_back(edits.take());
    }
    return all;
}

}  // namespace warren::fuzz

extern "C" int LLVMFuzzerTestOneInput(const warren::u8* bytes, size_t size_bytes) {
    using namespace warren::fuzz;
    static const Base bases[] = {Base(closed_image()), Base(cut_image())};
    Input input(bytes, size_bytes);
    const auto flags = input.get<warren::u8>();
    const Base& base = bases[(flags & is_cut) != 0 ? 1 : 0];
    const auto disk = base.copy();
    change(base, *disk, input, (flags & is_unsealed) == 0);
    use(*disk, flags);
    return 0;
}
