// SPDX-License-Identifier: Apache-2.0
// Guarantees that programs rely on after a power cut: a file replaced by rename is the old one or
// the new one, an item of a bulk command is done or not, and a full volume keeps the writes that it
// has accepted.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "tests/support/cut_recording.hpp"
#include "tests/support/keeping_disk.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::workload_cut_test {
namespace {

constexpr u64 volume_bytes = 16 * mib;
constexpr CutBounds few{.subsets_of_max = 2, .samples = 1};
constexpr CutBounds many{.subsets_of_max = 6, .samples = 8};

void print(const char* what, const CutFigures& figures) {
    std::printf("%s: %llu cuts, %llu states\n", what, static_cast<unsigned long long>(figures.cuts),
                static_cast<unsigned long long>(figures.states));
}

std::vector<std::byte> contents_of(u64 version) {
    const u64 size = version % 3 == 0 ? 90 : version % 3 == 1 ? 5000 : 30'000;
    return std::vector<std::byte>(size, static_cast<std::byte>('a' + version));
}

std::vector<std::byte> read_all(Volume& volume, const Attributes& file) {
    std::vector<std::byte> bytes(file.size);
    EXPECT_EQ(volume.open_file(file.handle), Errc::ok);
    const Result<u64> got = volume.read(file.handle, 0, bytes);
    EXPECT_TRUE(got && *got == bytes.size());
    EXPECT_EQ(volume.release(file.handle), Errc::ok);
    return bytes;
}

/// How a program replaces a file.
enum class Replacing : u8 { with_fsync, without_fsync };

/// Writes a version to another file and renames it over the file.
void replace_file(Volume& volume, u64 version, Replacing how) {
    const auto made = volume.create(anybody, volume.root(), "file.new", {.open = true});
    ASSERT_TRUE(made);
    const auto bytes = contents_of(version);
    const Result<u64> written = volume.write(made->handle, 0, bytes);
    ASSERT_TRUE(written && *written == bytes.size());
    if (how == Replacing::with_fsync) {
        ASSERT_EQ(volume.sync_file(made->handle), Errc::ok);
    }
    ASSERT_EQ(volume.release(made->handle), Errc::ok);
    ASSERT_EQ(volume.rename(anybody, volume.root(), "file.new", volume.root(), "file"), Errc::ok);
}

CutRecording record_replacements(const OpenOptions& options, Replacing how, u64 versions) {
    CutRecording out;
    out.log = make_memory_disk(volume_bytes);
    KeepingDisk keeping(out.disk());
    const auto volume = open_on(keeping, options);
    replace_file(*volume, 0, how);
    EXPECT_EQ(volume->sync(), Errc::ok);
    out.disk().start_recording();
    out.note_state();
    out.note_sync();
    for (u64 version = 1; version <= versions; ++version) {
        replace_file(*volume, version, how);
        out.note_state();
        if (version % 3 != 0) continue;
        EXPECT_EQ(volume->sync_file(volume->root()), Errc::ok);
        out.note_sync();
    }
    out.disk().stop_recording();
    EXPECT_GT(out.disk().event_count(), versions) << "nothing was recorded";
    return out;
}

/// Replaces a file again and again, with each data mode and size of buffers, and cuts everywhere.
void cut_replacements(u64 seed, u64 versions, const CutBounds& bounds) {
    const OpenOptions all[] = {
        {.workers = 1},
        {.workers = 1, .meta_buffer_bytes = small_meta_buffer, .file_buffer_bytes = 256 * kib},
        {.workers = 1, .data = DataMode::journal}};
    CutFigures figures;
    for (const OpenOptions& options : all) {
        for (const Replacing how : {Replacing::with_fsync, Replacing::without_fsync}) {
            SCOPED_TRACE(testing::Message()
                         << name_of(options.data) << ", buffer of " << options.file_buffer_bytes
                         << ", fsync " << (how == Replacing::with_fsync));
            const CutRecording recording = record_replacements(options, how, versions);
            figures += for_each_cut(recording, bounds, seed, [&](MemoryDisk& image, u64 event) {
                const auto volume = open_on(image, {.workers = 1});
                ASSERT_TRUE(volume);
                const auto file = volume->lookup(anybody, volume->root(), "file");
                ASSERT_TRUE(file) << "neither old nor new";
                const auto found = read_all(*volume, *file);
                bool is_whole = false;
                const u64 last = recording.last_state(event);
                for (u64 version = recording.first_state(event); version <= last; ++version)
                    is_whole = is_whole || found == contents_of(version);
                ASSERT_TRUE(is_whole) << found.size() << " bytes";
                ASSERT_EQ(volume->close(), Errc::ok);
                ASSERT_TRUE(expect_clean(image));
            });
        }
    }
    print("replacements", figures);
}

TEST(WorkloadCuts, leaveAFileThatIsReplacedOldOrNew) {
    const Seed seed;
    cut_replacements(seed.value(), 6 * test_load(), few);
}

TEST(WorkloadCutsLong, leaveAFileThatIsReplacedOldOrNew) {
    const Seed seed;
    cut_replacements(seed.value(), 24, many);
}

constexpr u64 folder_count = 3;
constexpr u64 item_count = 300;

std::string item_name(u64 number) {
    return "item" + std::to_string(number) + std::string(number % 40, '-');
}

/// Creates many names by one command, moves them by another, and syncs after each. States: nothing,
/// created, moved.
CutRecording record_bulk(std::string_view engine) {
    CutRecording out;
    out.log = make_memory_disk(volume_bytes);
    Failure failure;
    const auto volume =
        open_on_engine(std::make_unique<FaultDisk>(out.disk()), engine, {.workers = 2}, failure);
    EXPECT_TRUE(volume) << failure.message;
    std::vector<Handle> folders;
    for (u64 i = 0; i < folder_count; ++i)
        folders.push_back(make_directory(*volume, volume->root(), "d" + std::to_string(i)));
    EXPECT_EQ(volume->sync(), Errc::ok);
    out.disk().start_recording();
    out.note_state();
    out.note_sync();

    std::vector<std::string> names;
    for (u64 i = 0; i < item_count; ++i)
        names.push_back(item_name(i));
    std::vector<Creation> creations;
    std::vector<Move> moves;
    for (u64 i = 0; i < item_count; ++i) {
        creations.push_back({folders[i % folder_count], names[i], {.mode = 0100640}});
        const Handle to = folders[(i + 1) % folder_count];
        moves.push_back({folders[i % folder_count], names[i], to, names[i]});
    }
    std::vector<Result<Attributes>> made(item_count, Errc::io);
    volume->create_many(anybody, creations, made);
    EXPECT_TRUE(std::ranges::all_of(made, [](const auto& one) { return bool(one); }));
    out.note_state();
    EXPECT_EQ(volume->sync(), Errc::ok);
    out.note_sync();
    std::vector<Errc> moved(item_count, Errc::io);
    volume->move_many(anybody, moves, moved);
    EXPECT_TRUE(std::ranges::all_of(moved, [](Errc code) { return code == Errc::ok; }));
    out.note_state();
    EXPECT_EQ(volume->sync(), Errc::ok);
    out.note_sync();
    out.disk().stop_recording();
    EXPECT_GT(out.disk().event_count(), 4u) << "nothing was recorded";
    return out;
}

/// Each item is as in one of the states [first, last], once, and complete.
void expect_items_whole(Volume& volume, u64 first, u64 last) {
    std::vector<Handle> folders;
    for (u64 i = 0; i < folder_count; ++i) {
        const auto found = volume.lookup(anybody, volume.root(), "d" + std::to_string(i));
        ASSERT_TRUE(found);
        folders.push_back(found->handle);
    }
    u64 names = 0;
    for (u64 i = 0; i < item_count; ++i) {
        u64 places = 0;
        for (u64 state = std::max<u64>(first, 1); state <= last; ++state) {
            const Handle in = folders[(i + state - 1) % folder_count];
            const auto found = volume.lookup(anybody, in, item_name(i));
            if (!found) continue;
            ++places;
            EXPECT_EQ(found->mode, 0100640u);
            EXPECT_EQ(found->links, 1u);
        }
        ASSERT_LE(places, 1u) << item_name(i) << " is in two places";
        ASSERT_TRUE(places == 1 || first == 0) << item_name(i) << " is nowhere";
        names += places;
    }
    u64 listed = 0;
    for (const Handle& folder : folders)
        listed += list_names(volume, folder).size();
    ASSERT_EQ(listed, names) << "a name that no state has";
}

void cut_bulk(u64 seed, const CutBounds& bounds) {
    CutFigures figures;
    for (const std::string_view engine : {"cpu", "commands"}) {
        SCOPED_TRACE(engine);
        const CutRecording recording = record_bulk(engine);
        figures += for_each_cut(recording, bounds, seed, [&](MemoryDisk& image, u64 event) {
            const auto volume = open_on(image, {.workers = 1});
            ASSERT_TRUE(volume);
            // A command may be in progress: the state after the last completed one is possible too.
            const u64 last = std::min<u64>(recording.last_state(event) + 1, 2);
            expect_items_whole(*volume, recording.first_state(event), last);
            ASSERT_EQ(volume->close(), Errc::ok);
            ASSERT_TRUE(expect_clean(image));
        });
    }
    print("bulk commands", figures);
}

TEST(WorkloadCuts, leaveEachItemOfABulkCommandDoneOrNot) {
    const Seed seed;
    cut_bulk(seed.value(), few);
}

TEST(WorkloadCutsLong, leaveEachItemOfABulkCommandDoneOrNot) {
    const Seed seed;
    for (u64 round = 0; round < 10 && !HasFailure(); ++round)
        cut_bulk(seed.part(round), {.subsets_of_max = 8, .samples = 20});
}

/// A full volume, and the operations on it: the model applies each step only as far as the volume
/// accepted it.
class FullDiskWorkload {
 public:
    explicit FullDiskWorkload(u64 seed) : random_(seed) {
        out_.log = make_memory_disk(volume_bytes);
        keeping_ = std::make_unique<KeepingDisk>(out_.disk());
        volume_ = open_on(*keeping_, {.workers = 1});
        reserve_most();
        while (refusals_ == 0 && !testing::Test::HasFailure())
            write_new_file();
        EXPECT_EQ(volume_->sync(), Errc::ok);
    }

    CutRecording run(u64 steps) {
        out_.disk().start_recording();
        add_state();
        out_.note_sync();
        refusals_ = 0;
        for (u64 i = 0; i < steps && !testing::Test::HasFailure(); ++i)
            step();
        // The steps may have freed more space than they took.
        while (refusals_ == 0 && !testing::Test::HasFailure())
            write_new_file();
        EXPECT_EQ(volume_->sync(), Errc::ok);
        out_.note_sync();
        out_.disk().stop_recording();
        EXPECT_GT(out_.disk().event_count(), steps / 2) << "nothing was recorded";
        EXPECT_GT(refusals_, 0u) << "the volume was never full";
        volume_.reset();
        return std::move(out_);
    }

 private:
    /// Reserves almost all blocks, in a way that no comparison has to read.
    void reserve_most() {
        constexpr u64 step = 64 * kib;
        const Handle spare = make_file(*volume_, volume_->root(), "spare");
        const Handle ballast = make_file(*volume_, volume_->root(), "ballast");
        EXPECT_TRUE(model_.create(anybody, model_.root(), "ballast", {.mode = 0100666}));
        EXPECT_EQ(volume_->open_file(spare), Errc::ok);
        EXPECT_EQ(volume_->allocate(spare, Allocate::reserve_keep_size, 0, 9 * step), Errc::ok);
        EXPECT_EQ(volume_->release(spare), Errc::ok);
        EXPECT_EQ(volume_->open_file(ballast), Errc::ok);
        for (u64 at = 0;
             volume_->allocate(ballast, Allocate::reserve_keep_size, at, step) == Errc::ok;)
            at += step;
        EXPECT_EQ(volume_->release(ballast), Errc::ok);
        EXPECT_EQ(volume_->unlink(anybody, volume_->root(), "spare"), Errc::ok);
    }
    void add_state() {
        out_.history.add(model_);
        out_.note_state();
    }
    std::string any_name() {
        auto at = names_.begin();
        std::advance(at, static_cast<i64>(random_.below(names_.size())));
        return *at;
    }
    void step() {
        const u64 what = random_.below(10);
        if (what < 5 || names_.size() < 3) {
            write_new_file();
        } else if (what < 7) {
            const std::string name = any_name();
            EXPECT_EQ(volume_->unlink(anybody, volume_->root(), name), Errc::ok);
            EXPECT_EQ(model_.unlink(anybody, model_.root(), name), Errc::ok);
            names_.erase(name);
            add_state();
        } else if (what < 9) {
            replace(any_name(), any_name());
        } else {
            EXPECT_EQ(volume_->sync(), Errc::ok);
            out_.note_sync();
        }
    }
    void replace(const std::string& from, const std::string& to) {
        EXPECT_EQ(volume_->rename(anybody, volume_->root(), from, volume_->root(), to), Errc::ok);
        EXPECT_EQ(model_.rename(anybody, model_.root(), from, model_.root(), to), Errc::ok);
        if (from != to) names_.erase(from);
        add_state();
    }
    void write_new_file() {
        const std::string name = "f" + std::to_string(++made_);
        const auto made = volume_->create(anybody, volume_->root(), name, {.open = true});
        if (!made) return expect_full(made.code());
        const auto file = model_.create(anybody, model_.root(), name, {.open = true});
        ASSERT_TRUE(file);
        names_.insert(name);
        add_state();
        const std::vector<std::byte> bytes(30'000, static_cast<std::byte>('a' + made_ % 26));
        for (u64 at = 0; at < 4 * bytes.size();) {
            const Result<u64> done = volume_->write(made->handle, at, bytes);
            if (!done) {
                expect_full(done.code());
                break;
            }
            ASSERT_TRUE(model_.write(file->handle, at, std::span(bytes).first(*done)));
            at += *done;
            add_state();
        }
        EXPECT_EQ(volume_->release(made->handle), Errc::ok);
        EXPECT_EQ(model_.release(file->handle), Errc::ok);
    }
    void expect_full(Errc code) {
        EXPECT_EQ(code, Errc::no_space);
        ++refusals_;
    }

    Random random_;
    CutRecording out_;
    std::unique_ptr<KeepingDisk> keeping_;
    std::unique_ptr<Volume> volume_;
    ModelFileSystem model_;
    std::set<std::string> names_;
    u64 made_ = 0;
    u64 refusals_ = 0;
};

void cut_full_disk(u64 seed, u64 steps, const CutBounds& bounds) {
    FullDiskWorkload workload(seed);
    const CutRecording recording = workload.run(steps);
    print("full disk", for_each_cut(recording, bounds, seed, [&](MemoryDisk& image, u64 event) {
              expect_state_after(image, recording, event);
          }));
}

TEST(WorkloadCuts, ofAFullVolumeKeepWhatItSaidYesTo) {
    const Seed seed;
    cut_full_disk(seed.value(), 12 * test_load(), {.subsets_of_max = 1, .samples = 1});
}

TEST(WorkloadCutsLong, ofAFullVolumeKeepWhatItSaidYesTo) {
    const Seed seed;
    for (u64 round = 0; round < 10 && !HasFailure(); ++round)
        cut_full_disk(seed.part(round), 40, {.subsets_of_max = 3, .samples = 3});
}

}  // namespace
}  // namespace warren::workload_cut_test
