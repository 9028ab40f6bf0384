// SPDX-License-Identifier: Apache-2.0
// A disk that refuses a write of an open volume, be it contents or metadata, and whichever thread
// issues it. By default the volume then becomes read-only: the writer gets the error, the report
// names the reason, further changes get EROFS and do not reach the disk, and all earlier data can
// be read as before. With errors=continue other changes go on.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "fs/volume/volume_disk.hpp"
#include "tests/support/keeping_disk.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/thread_executor.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::refused_write_test {
namespace {

using Bytes = std::vector<std::byte>;

constexpr u64 volume_bytes = 16 * mib;
constexpr u64 small_file_buffer = 256 * kib;
constexpr u64 kept_bytes = 600 * kib;  // more than the file buffer holds
constexpr FaultPlan all_writes{.reads = false, .flushes = false, .nth = 1};

struct Way {
    const char* name;
    DataMode data = DataMode::ordered;
    u64 file_buffer_bytes = 0;
    u64 meta_buffer_bytes = 0;
};
const Way ways[] = {{.name = "Direct"},
                    {.name = "Buffer", .file_buffer_bytes = small_file_buffer},
                    {.name = "SmallBuffers",
                     .file_buffer_bytes = small_file_buffer,
                     .meta_buffer_bytes = small_meta_buffer},
                    {.name = "Journal", .data = DataMode::journal},
                    {.name = "Writeback", .data = DataMode::writeback}};

/// The refusals that a volume has reported.
struct Heard {
    std::mutex mutex;
    std::vector<DiskRefusal> refusals;
};

OpenOptions options_of(const Way& way, ErrorMode errors, Heard& heard) {
    OpenOptions options;
    options.workers = 2;
    options.data = way.data;
    options.errors = errors;
    options.file_buffer_bytes = way.file_buffer_bytes;
    options.meta_buffer_bytes = way.meta_buffer_bytes;
    options.refused = [&](const DiskRefusal& refusal) {
        const std::lock_guard lock(heard.mutex);
        heard.refusals.push_back(refusal);
    };
    return options;
}

Handle create_open(Volume& volume, std::string_view name) {
    const Result<Attributes> made = volume.create(anybody, volume.root(), name, {.open = true});
    EXPECT_TRUE(made);
    return made->handle;
}

Bytes contents_of(Volume& volume, Handle file) {
    const Result<Attributes> found = volume.attributes(file);
    EXPECT_TRUE(found);
    Bytes bytes(found ? found->size : 0);
    const Result<u64> got = volume.read(file, 0, bytes);
    EXPECT_TRUE(got && *got == bytes.size()) << "cannot be read";
    return bytes;
}

/// A volume with files, all synced; from then on its disk may fail.
class RefusingVolume {
 public:
    RefusingVolume(const Way& way, ErrorMode errors)
        : volume_(volume_bytes, options_of(way, errors, heard_)) {
        Volume& volume = *volume_;
        kept_ = create_open(volume, "kept");
        EXPECT_TRUE(volume.write(kept_, 0, kept()));
        const Result<Attributes> folder =
            volume.create(anybody, volume.root(), "folder", {.mode = 040755});
        EXPECT_TRUE(folder);
        folder_ = folder->handle;
        for (int i = 0; i < 20; ++i)
            make_file(volume, folder_, "file" + std::to_string(i));
        EXPECT_EQ(volume.sync(), Errc::ok);
    }

    static Bytes kept() { return Bytes(kept_bytes, std::byte{'k'}); }
    Volume& operator*() { return *volume_; }
    Volume* operator->() { return &*volume_; }
    FaultDisk& faults() { return volume_.faults(); }
    Heard& heard() { return heard_; }
    Handle kept_file() const { return kept_; }
    Handle folder() const { return folder_; }

    void expect_kept_is_whole() { EXPECT_TRUE(contents_of(*volume_, kept_) == kept()); }
    /// Changes are refused, nothing reaches the disk, reads go on.
    void expect_read_only() {
        faults().set_plan({.reads = false});  // it would take writes again: none may come
        expect_changes_refused();
        expect_bulk_refused();
        EXPECT_NE(volume_->sync(), Errc::ok) << "an error is not forgotten";
        EXPECT_NE(volume_->sync_file(kept_), Errc::ok);
        EXPECT_EQ(faults().count(), 0u) << "something was written";
        expect_kept_is_whole();
        u64 names = 0;
        EXPECT_EQ(
            volume_->read_directory(folder_, 0, [&](const DirectoryEntry&) { return ++names > 0; }),
            Errc::ok);
        EXPECT_EQ(names, 20u);
    }
    /// Closes the volume and opens it again on a working disk. What was synced is there.
    void expect_sound_after_all() {
        faults().set_plan({});
        static_cast<void>(volume_->close());
        const auto after = open_on(volume_.disk(), {.workers = 1});
        ASSERT_TRUE(after);
        const Result<Attributes> found = after->lookup(anybody, after->root(), "kept");
        ASSERT_TRUE(found);
        EXPECT_TRUE(contents_of(*after, found->handle) == kept());
        EXPECT_EQ(after->close(), Errc::ok);
        EXPECT_TRUE(expect_clean(volume_.disk()));
    }

 private:
    void expect_changes_refused() {
        Volume& volume = *volume_;
        const Handle root = volume.root();
        const Bytes bytes(8192, std::byte{'x'});
        EXPECT_EQ(volume.create(anybody, root, "late", {}).code(), Errc::read_only);
        EXPECT_EQ(volume.unlink(anybody, root, "kept"), Errc::read_only);
        EXPECT_EQ(volume.rename(anybody, root, "kept", folder_, "k"), Errc::read_only);
        EXPECT_EQ(volume.link(anybody, kept_, root, "a link").code(), Errc::read_only);
        for (const Stamp stamp : {Stamp::yes, Stamp::no}) {
            EXPECT_EQ(volume.write(kept_, 0, bytes, stamp).code(), Errc::read_only);
            EXPECT_EQ(volume.write(kept_, 5, bytes, stamp).code(), Errc::read_only);
            EXPECT_EQ(volume.write(kept_, 2 * kept_bytes, bytes, stamp).code(), Errc::read_only);
            EXPECT_EQ(volume.allocate(kept_, Allocate::punch_hole, 100, 100, stamp),
                      Errc::read_only);
            EXPECT_EQ(volume.allocate(kept_, Allocate::zero_range, 100, 100'000, stamp),
                      Errc::read_only);
        }
        AttributeChange cut;
        cut.which = AttributeChange::size;
        cut.new_size = 1000;
        EXPECT_EQ(volume.set_attributes(anybody, kept_, cut).code(), Errc::read_only);
        const auto value = std::span(bytes).first(100);
        EXPECT_EQ(volume.set_attribute(anybody, kept_, "user.a", value), Errc::read_only);
        std::unique_ptr<MappedFile> mapped;
        ASSERT_EQ(volume.map_file(kept_, {}, mapped), Errc::ok);
        EXPECT_EQ(mapped->write_back(), Errc::read_only);
    }
    void expect_bulk_refused() {
        Volume& volume = *volume_;
        Removal removal;
        EXPECT_EQ(volume.remove_tree(anybody, volume.root(), "folder", removal), Errc::read_only);
        Rebuilt rebuilt;
        EXPECT_EQ(volume.rebuild(anybody, folder_, rebuilt), Errc::read_only);
        const std::array moves{Move{folder_, "file1", volume.root(), "moved"}};
        const std::array names{Unlink{folder_, "file2"}};
        const std::array creations{Creation{folder_, "new", {}}};
        Errc result = Errc::ok;
        volume.move_many(anybody, moves, {&result, 1});
        EXPECT_EQ(result, Errc::read_only);
        result = Errc::ok;
        volume.remove_many(anybody, names, {&result, 1});
        EXPECT_EQ(result, Errc::read_only);
        Result<Attributes> created = Errc::ok;
        volume.create_many(anybody, creations, {&created, 1});
        EXPECT_EQ(created.code(), Errc::read_only);
    }

    Heard heard_;
    MemoryVolume volume_;
    Handle kept_;
    Handle folder_;
};

/// Writes a new file until an error is returned: by write, else by fsync.
Errc write_and_sync(Volume& volume, Handle file, u64 length) {
    const Bytes bytes(32 * kib, std::byte{'n'});
    for (u64 done = 0; done < length;) {
        const Result<u64> put = volume.write(file, done, bytes);
        if (!put) return put.code();
        done += *put;
    }
    return volume.sync_file(file);
}

class RefusedWrite : public testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(Ways, RefusedWrite, testing::ValuesIn(ways),
                         [](const auto& one) { return std::string(one.param.name); });

TEST_P(RefusedWrite, ofContentsEndsAllChangesAndReadsGoOn) {
    RefusingVolume volume(GetParam(), ErrorMode::remount_ro);
    const Handle file = create_open(*volume, "new");
    volume.faults().set_plan(all_writes);
    EXPECT_EQ(write_and_sync(*volume, file, mib), Errc::io);
    ASSERT_EQ(volume.heard().refusals.size(), 1u);
    const DiskRefusal& refusal = volume.heard().refusals[0];
    EXPECT_EQ(refusal.code, Errc::io);
    EXPECT_GT(refusal.bytes, 0u);
    EXPECT_LE(refusal.offset + refusal.bytes, volume_bytes);
    volume.expect_read_only();
    EXPECT_EQ(volume.heard().refusals.size(), 1u);
    EXPECT_EQ(volume->release(file), Errc::ok);
    EXPECT_NE(volume->close(), Errc::ok);
    volume.expect_sound_after_all();
}

TEST_P(RefusedWrite, ofEachWriteAndFlushIsToldAndIsTheLastChange) {
    bool failed = true;
    for (u64 nth = 1; failed && !HasFailure(); ++nth) {
        SCOPED_TRACE(testing::Message() << "write or flush " << nth);
        RefusingVolume volume(GetParam(), ErrorMode::remount_ro);
        volume.faults().set_plan(
            {.reads = false, .nth = nth, .is_once = true, .is_torn = nth % 2 == 0});
        const Result<Attributes> made =
            volume->create(anybody, volume->root(), "new", {.open = true});
        ASSERT_TRUE(made);
        const Errc told = write_and_sync(*volume, made->handle, 400 * kib);
        failed = volume.faults().failed_count() > 0;
        EXPECT_EQ(told, failed ? Errc::io : Errc::ok);
        ASSERT_EQ(volume.heard().refusals.size(), failed ? 1u : 0u);
        if (failed) volume.expect_read_only();
        volume.faults().set_plan({});
        EXPECT_EQ(volume->close() != Errc::ok, failed);
        volume.expect_sound_after_all();
        EXPECT_TRUE(failed || nth > 3);
    }
}

TEST_P(RefusedWrite, leavesTheOthersAloneIfTheyShallContinue) {
    RefusingVolume volume(GetParam(), ErrorMode::go_on);
    if (GetParam().data == DataMode::journal) GTEST_SKIP() << "commits alone write contents";
    const std::string engine = std::string(volume->engine());
    if (engine != "cpu") GTEST_SKIP() << "contents are shown before they are written";
    const Handle file = create_open(*volume, "new");
    volume.faults().set_plan(all_writes);
    const Bytes bytes(32 * kib, std::byte{'n'});
    Errc told = Errc::ok;
    for (u64 at = 0; told == Errc::ok && at < mib; at += bytes.size())
        told = volume->write(file, at, bytes).code();
    EXPECT_EQ(told, Errc::io);
    volume.expect_kept_is_whole();
    EXPECT_TRUE(volume->create(anybody, volume->root(), "other", {}));
    volume.faults().set_plan({});
    EXPECT_EQ(volume->sync(), Errc::ok);
    EXPECT_TRUE(volume.heard().refusals.empty());
    EXPECT_EQ(volume->release(file), Errc::ok);
    // After a failed commit the volume is read-only in either mode.
    EXPECT_TRUE(volume->create(anybody, volume->root(), "another", {}));
    volume.faults().set_plan(all_writes);
    EXPECT_EQ(volume->sync(), Errc::io);
    volume.expect_read_only();
    EXPECT_TRUE(volume.heard().refusals.empty());
    EXPECT_EQ(volume->close(), Errc::io);
    volume.expect_sound_after_all();
}

TEST_P(RefusedWrite, isNotWhatItsCallerOrTheSpaceOrAReadIsToBlameFor) {
    RefusingVolume volume(GetParam(), ErrorMode::remount_ro);
    const Handle file = create_open(*volume, "new");
    const Bytes bytes(64 * kib, std::byte{'f'});
    EXPECT_EQ(volume->write(file, ~u64{0} / 2, bytes).code(), Errc::file_too_big);
    EXPECT_EQ(volume->allocate(file, Allocate::reserve, 0, 0), Errc::invalid);
    Errc told = Errc::ok;
    for (u64 at = 0; told == Errc::ok; at += bytes.size()) {
        const Result<u64> put = volume->write(file, at, bytes);
        told = put && *put < bytes.size() ? Errc::no_space : put.code();
    }
    EXPECT_EQ(told, Errc::no_space);
    AttributeChange cut;
    cut.which = AttributeChange::size;
    cut.new_size = 0;
    EXPECT_TRUE(volume->set_attributes(anybody, file, cut));
    EXPECT_EQ(volume->sync(), Errc::ok);
    volume.faults().set_plan({.writes = false, .flushes = false, .nth = 1});
    Bytes room(kept_bytes);
    static_cast<void>(volume->read(volume.kept_file(), 0, room));
    // In journal mode the file buffer is larger, and holds all of it.
    EXPECT_EQ(volume.faults().failed_count() > 0, GetParam().data != DataMode::journal);
    volume.faults().set_plan({});
    EXPECT_TRUE(volume->write(file, 0, bytes));
    EXPECT_EQ(volume->sync(), Errc::ok);
    EXPECT_TRUE(volume.heard().refusals.empty());
    EXPECT_EQ(volume->release(file), Errc::ok);
    EXPECT_EQ(volume->close(), Errc::ok);
    volume.expect_sound_after_all();
}

TEST_P(RefusedWrite, meetsManyWhoWriteAndAllComeToAnEnd) {
    const Seed seed;
    Random random(seed.value());
    for (int round = 0; round < 6 && !HasFailure(); ++round) {
        RefusingVolume volume(GetParam(), ErrorMode::remount_ro);
        volume.faults().set_plan({.reads = false, .nth = 1 + random.below(60)});
        std::vector<std::function<void(Random&)>> bodies;
        for (u64 writer = 0; writer < 4; ++writer) {
            bodies.emplace_back([&, writer](Random& mine) {
                const std::string name = "new" + std::to_string(writer);
                // The others write until every writer has got the error.
                const Result<Attributes> made =
                    volume->create(anybody, volume->root(), name, {.open = true});
                const Bytes bytes(16 * kib, std::byte{'n'});
                bool was_told = !made;
                while (!was_told) {
                    const u64 at = mine.below(40) * bytes.size();
                    const bool fails = !volume->write(made->handle, at, bytes) ||
                                       (mine.one_in(4) && volume->sync() != Errc::ok);
                    was_told = fails;
                }
            });
        }
        bodies.emplace_back([&](Random&) {
            while (volume->create(anybody, volume.folder(), "n", {}) &&
                   volume->unlink(anybody, volume.folder(), "n") == Errc::ok)
                volume.expect_kept_is_whole();
        });
        run_executor(random.next(), bodies);
        EXPECT_EQ(volume.heard().refusals.size(), 1u);
        if (HasFailure()) break;
        const u64 names = 20;
        Removal removal;
        EXPECT_EQ(volume->remove_tree(anybody, volume->root(), "folder", removal), Errc::read_only);
        EXPECT_NE(volume->sync(), Errc::ok);
        volume.expect_kept_is_whole();
        u64 found = 0;
        EXPECT_EQ(volume->read_directory(volume.folder(), 0,
                                         [&](const DirectoryEntry&) { return ++found > 0; }),
                  Errc::ok);
        EXPECT_GE(found, names);
        EXPECT_NE(volume->close(), Errc::ok);
        volume.expect_sound_after_all();
    }
}

/// On an engine that makes block addresses visible before the contents are written, the old
/// contents of the blocks must not become readable, however many writes fail at once.
TEST(RefusedWriteOfAPiece, showsNothingOfWhatWasInItsBlocks) {
    const Seed seed;
    Random random(seed.value());
    for (int round = 0; round < 10 && !HasFailure(); ++round) {
        const auto disk = make_memory_disk(volume_bytes);
        FaultDisk faults(*disk);
        Failure failure;
        const auto volume = open_on_engine(std::make_unique<KeepingDisk>(faults), "commands",
                                           {.workers = 2}, failure);
        ASSERT_TRUE(volume) << failure.message;
        const Handle old = create_open(*volume, "old");
        ASSERT_TRUE(volume->write(old, 0, Bytes(10 * mib, std::byte{'s'})));
        ASSERT_EQ(volume->sync(), Errc::ok);
        ASSERT_EQ(volume->unlink(anybody, volume->root(), "old"), Errc::ok);
        ASSERT_EQ(volume->release(old), Errc::ok);
        ASSERT_EQ(volume->sync(), Errc::ok);
        std::array<Handle, 4> files;
        for (u64 i = 0; i < files.size(); ++i)
            files[i] = create_open(*volume, "new" + std::to_string(i));
        faults.set_plan({.reads = false, .nth = 1 + random.below(8)});
        std::vector<std::function<void(Random&)>> bodies;
        for (const Handle& file : files) {
            bodies.emplace_back([&, file](Random&) {
                const Bytes bytes(32 * kib, std::byte{'n'});
                for (u64 at = 0; volume->write(file, at, bytes); at += bytes.size()) {
                }
            });
        }
        run_executor(random.next(), bodies);
        faults.set_plan({});
        EXPECT_EQ(volume->create(anybody, volume->root(), "late", {}).code(), Errc::read_only);
        for (const Handle& file : files) {
            const Bytes found = contents_of(*volume, file);
            EXPECT_EQ(std::ranges::count(found, std::byte{'s'}), 0);
        }
        EXPECT_EQ(volume->close(), Errc::io);
    }
}

/// A writer whose request failed with another one must not return before the volume knows of the
/// refusal, or its error would be reported for good.
TEST(RefusedWriteOfTheDisk, isToldToNobodyBeforeTheVolumeKnows) {
    const auto memory = make_memory_disk(volume_bytes);
    auto faults = std::make_unique<FaultDisk>(*memory);
    faults->set_plan({.reads = false, .nth = 1});
    VolumeDisk watched(std::move(faults));
    std::promise<void> heard;
    std::atomic<bool> knows{false};
    std::future<std::pair<Errc, bool>> late;
    watched.watch(ErrorMode::remount_ro, [&](const DiskRefusal& refusal) {
        EXPECT_EQ(refusal.code, Errc::io);
        late = std::async(std::launch::async, [&] {
            heard.set_value();
            const Errc code = watched.flush();
            return std::pair(code, knows.load());
        });
        heard.get_future().wait();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));  // for a flush that is too fast
        knows = true;
    });
    const Bytes block(format::block_size);
    EXPECT_EQ(watched.write(0, block), Errc::io);
    EXPECT_EQ(late.get(), std::pair(Errc::read_only, true));
    EXPECT_EQ(watched.write(0, block), Errc::read_only);
}

TEST(ErrorModes, haveTheNamesThatExt4HasForThem) {
    ErrorMode mode = ErrorMode::go_on;
    EXPECT_TRUE(find_error_mode("remount-ro", mode));
    EXPECT_EQ(mode, ErrorMode::remount_ro);
    EXPECT_TRUE(find_error_mode("continue", mode));
    EXPECT_EQ(mode, ErrorMode::go_on);
    EXPECT_FALSE(find_error_mode("panic", mode));
    EXPECT_EQ((DiskRefusal{Errc::no_space, 8192, 4096}.text()),
              "the disk refused a write of 4096 bytes at offset 8192: No space left on device");
    EXPECT_EQ((DiskRefusal{Errc::io, 8192, 12'288, 3}.text()),
              "the disk refused a write of 12288 bytes in 3 places, the first at offset 8192: "
              "Input/output error");
    EXPECT_EQ((DiskRefusal{Errc::io, 0, 0}.text()), "the disk refused a flush: Input/output error");
}

}  // namespace
}  // namespace warren::refused_write_test
