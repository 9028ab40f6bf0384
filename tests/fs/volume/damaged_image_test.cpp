// SPDX-License-Identifier: Apache-2.0
// Damage of any kind, met by an open volume: no changed byte of the metadata, whether the checksum
// was recomputed or not, makes the engine crash, hang or read outside of the disk. It may return
// errors, or believe a forged block; a check survives the resulting volume.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "fs/check/check.hpp"
#include "fs/format/check_block.hpp"
#include "tests/support/bounded_disk.hpp"
#include "tests/support/image_builder.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/thread_executor.hpp"
#include "tests/support/volume_walk.hpp"
#include "tests/support/watchdog.hpp"

namespace warren::damaged_image_test {
namespace {

using format::Block;
using format::block_size;
using format::BlockHeader;
using std::chrono::milliseconds;
using test::ImageBuilder;
using test::ImageEditor;

constexpr u64 visits_max = 400;  // a forged directory may lead in a circle

/// A volume whose last transaction is only in the journal.
std::unique_ptr<MemoryDisk> make_unreplayed() {
    ImageBuilder image(16 * mib);
    test::build_one_of_everything(image, 30, 20);
    const auto disk = image.disk().copy();
    const auto volume = open_on(*disk, {.workers = 1});
    for (int i = 0; i < 20; ++i)
        make_file(*volume, volume->root(), "new" + std::to_string(i));
    disk->start_recording();
    EXPECT_EQ(volume->sync(), Errc::ok);
    disk->stop_recording();
    u64 events = 0;
    while (disk->event(events).kind != DiskEventKind::flush)
        ++events;
    ++events;
    auto cut = disk->image_after(events);
    EXPECT_EQ(volume->close(), Errc::ok);
    return cut;
}

/// Addresses of blocks that hold metadata or a journal.
std::vector<u64> metadata_places(Disk& disk) {
    ImageEditor editor(disk);
    const format::Superblock& superblock = editor.superblock();
    const u64 end = superblock.metadata_frames_end * format::frame_size;
    std::vector<u64> places;
    for (u64 place = 0; place < end; place += block_size) {
        const Block block = editor.read(place);
        const bool is_in_use = std::ranges::any_of(block.words, [](u64 w) { return w != 0; });
        if (is_in_use) places.push_back(place);
    }
    return places;
}

/// Reads all that can be reached; any answer is right except an internal retry reason.
class Visitor {
 public:
    explicit Visitor(Volume& volume) : volume_(volume) {}

    void visit_all() {
        directories_ = {volume_.root()};
        for (u64 at = 0; at < directories_.size() && visits_ < visits_max; ++at) {
            list(directories_[at]);
        }
        u64 seen = 0;
        expect(volume_.scan(anybody, volume_.root(),
                            [&](const Scanned&) { return ++seen < visits_max; }));
    }
    const std::vector<Handle>& directories() const { return directories_; }

    static void expect(Errc code) { EXPECT_TRUE(is_final(code)) << static_cast<int>(code); }
    template <class T>
    static void expect(const Result<T>& result) {
        expect(result.code());
    }

 private:
    void list(Handle directory) {
        std::vector<std::string> names;
        expect(volume_.read_directory(directory, 0, [&](const DirectoryEntry& entry) {
            names.emplace_back(entry.name);
            return names.size() < visits_max;
        }));
        for (const std::string& name : names) {
            if (++visits_ > visits_max) return;
            const auto found = volume_.lookup(anybody, directory, name);
            expect(found);
            if (found) visit(*found);
        }
    }

    void visit(const Attributes& found) {
        const Handle handle = found.handle;
        if ((found.mode & 0170000) == 0040000) directories_.push_back(handle);
        expect(volume_.read_link(handle));
        std::vector<char> names(1000);
        expect(volume_.list_attributes(handle, names));
        std::byte bytes[9000];
        expect(volume_.get_attribute(handle, "user.note", bytes));
        const Errc opened = volume_.open_file(handle);
        expect(opened);
        if (opened != Errc::ok) return;
        for (const u64 at : {u64{0}, u64{5000}, found.size / 2, found.size - 100}) {
            expect(volume_.read(handle, at, bytes));
        }
        expect(volume_.seek(handle, 0, Seek::hole));
        expect(volume_.seek(handle, 0, Seek::data));
        expect(volume_.release(handle));
    }

    Volume& volume_;
    std::vector<Handle> directories_;
    u64 visits_ = 0;
};

/// Makes some changes in each directory that was found, and to part of the original contents.
void change(Volume& volume, const std::vector<Handle>& directories) {
    const std::vector<std::byte> data(6000, std::byte{1});
    for (u64 i = 0; i < directories.size() && i < 20; ++i) {
        const auto made = volume.create(anybody, directories[i], "added", {.open = true});
        Visitor::expect(made);
        if (!made) continue;
        Visitor::expect(volume.write(made->handle, 3000, data));
        Visitor::expect(volume.set_attribute(anybody, made->handle, "user.note", data));
        Visitor::expect(volume.release(made->handle));
        Visitor::expect(volume.rename(anybody, directories[i], "added", volume.root(), "moved"));
        Rebuilt rebuilt;
        Visitor::expect(volume.rebuild(anybody, directories[i], rebuilt));
    }
    for (const char* path : {"/sparse", "/text", "/outer/inner/few"}) {
        const auto file = resolve(volume, anybody, path);
        if (!file || volume.open_file(file->handle) != Errc::ok) continue;
        Visitor::expect(volume.write(file->handle, 9000, data));
        Visitor::expect(volume.allocate(file->handle, Allocate::punch_hole, 20'000, 30'000));
        Visitor::expect(volume.allocate(file->handle, Allocate::reserve, 0, 100'000));
        AttributeChange cut;
        cut.which = AttributeChange::size;
        cut.new_size = 10'000;
        Visitor::expect(volume.set_attributes(anybody, file->handle, cut));
        Visitor::expect(volume.release(file->handle));
    }
    Visitor::expect(volume.unlink(anybody, volume.root(), "text"));
    Visitor::expect(volume.unlink(anybody, volume.root(), "sparse"));
    Visitor::expect(volume.unlink(anybody, volume.root(), "long-link"));
    Removal removal;
    Visitor::expect(volume.remove_tree(anybody, volume.root(), "directory", removal));
    Visitor::expect(volume.remove_tree(anybody, volume.root(), "outer", removal));
    Visitor::expect(volume.sync());
}

/// Opens, reads, changes and closes; then a check with and without repair.
void use_damaged(Disk& disk, const OpenOptions& options) {
    Failure failure;
    {
        const auto volume =
            open_on_test_engine(std::make_unique<BoundedDisk>(disk), options, failure);
        EXPECT_NE(volume == nullptr, failure.code == Errc::ok);
        EXPECT_NE(volume == nullptr, failure.message.empty());
        if (volume) {
            Visitor visitor(*volume);
            visitor.visit_all();
            change(*volume, visitor.directories());
            Visitor::expect(volume->close());
        }
    }
    for (const bool repair : {false, true}) {
        BoundedDisk bounded(disk);
        CheckOptions check;
        check.repair = repair;
        CheckResult result;
        failure = check_disk(bounded, "image", check, result);
        Visitor::expect(failure.code);
    }
}

enum class Seal : u8 { broken, forged };

/// Recomputes the checksums of the block at `place`. False where that is impossible: in a journal,
/// which has one checksum over all blocks.
bool forge_seal(Disk& disk, u64 place) {
    ImageEditor editor(disk);
    const Block block = editor.read(place);
    const u64 inodes = editor.superblock().root_inode / format::inodes_per_frame;
    if (place / format::frame_size == inodes && place % format::frame_size != 0) {
        for (u64 i = 0; i < format::inodes_per_block; ++i) {
            const auto& inode = reinterpret_cast<const format::Inode*>(&block)[i];
            if (inode.generation != 0) {
                editor.set_inode(place / format::inode_size + i, inode);
            }
        }
        return true;
    }
    const u64 journal_end =
        editor.superblock().journal_offset + editor.superblock().journal_blocks * block_size;
    if (place >= editor.superblock().journal_offset && place < journal_end) return false;
    editor.write(place, block);
    return true;
}

class DamagedImage : public testing::TestWithParam<Seal> {
 protected:
    /// Flips a bit of one byte in a copy of the disk and uses the volume.
    void flip_one(MemoryDisk& disk, u64 place, u64 at) {
        const std::string what = std::to_string(place) + " + " + std::to_string(at) +
                                 (GetParam() == Seal::forged ? " sealed again" : "");
        SCOPED_TRACE(what);
        watchdog_.begin(what);
        const auto copy = disk.copy();
        ImageEditor(*copy).flip(place + at, static_cast<u8>(1u << (at + count_) % 8));
        if (GetParam() == Seal::forged && !forge_seal(*copy, place)) return;
        OpenOptions options{.workers = 1, .meta_buffer_bytes = count_ % 3 == 0 ? mib : 0};
        options.read_only = count_ % 7 == 0;
        use_damaged(*copy, options);
        ++count_;
    }

    /// Flips random bytes, mostly of words that are not zero.
    void flip_some(MemoryDisk& disk, u64 seed, milliseconds time) {
        const Deadline deadline(time);
        const std::vector<u64> places = metadata_places(disk);
        ImageEditor editor(disk);
        Random random(seed);
        while ((!deadline.is_over() || count_ <= 20) && !HasFailure()) {
            const u64 place = places[random.below(places.size())];
            const Block block = editor.read(place);
            u64 at = random.below(block_size);
            for (int i = 0; i < 30 && block.words[at / 8] == 0; ++i)
                at = random.below(block_size);
            flip_one(disk, place, at);
        }
        std::printf("[    FLIPS ] %llu\n", static_cast<unsigned long long>(count_));
    }

    void flip_all(MemoryDisk& disk) {
        for (const u64 place : metadata_places(disk)) {
            for (u64 at = 0; at < block_size && !HasFailure(); ++at)
                flip_one(disk, place, at);
        }
    }

 private:
    Watchdog watchdog_;
    u64 count_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Seals, DamagedImage, testing::Values(Seal::broken, Seal::forged));

TEST_P(DamagedImage, isUsedWithoutHarm) {
    const Seed seed;
    ImageBuilder image(16 * mib);
    test::build_one_of_everything(image, 30, 20);
    flip_some(image.disk(), seed.value(), milliseconds(10'000 * test_load()));
}

TEST_P(DamagedImage, isReplayedWithoutHarm) {
    const Seed seed;
    flip_some(*make_unreplayed(), seed.value(), milliseconds(5'000 * test_load()));
}

TEST_P(DamagedImage, isUsedWithoutHarmWhateverTheByteLong) {
    ImageBuilder image(16 * mib);
    test::build_one_of_everything(image, 30, 20);
    flip_all(image.disk());
}

TEST_P(DamagedImage, isReplayedWithoutHarmWhateverTheByteLong) {
    flip_all(*make_unreplayed());
}

}  // namespace
}  // namespace warren::damaged_image_test
