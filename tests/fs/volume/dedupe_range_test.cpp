// SPDX-License-Identifier: Apache-2.0
// Volume::dedupe_range(): what it shares, what it refuses, and that it never changes the contents
// of a file, despite concurrent writers and power cuts.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fs/format/check_block.hpp"
#include "fs/format/superblock.hpp"
#include "fs/volume/inline_dedup.hpp"
#include "tests/fs/volume/sharing_volume.hpp"
#include "tests/support/cut_recording.hpp"
#include "tests/support/script.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/two_looks.hpp"

namespace warren::dedupe_range_test {
namespace {

class DedupeRange : public SharingVolume {
 public:
    Result<Deduped> dedupe(Handle source, u64 offset, Handle target, u64 target_offset,
                           u64 length) {
        return volume_->dedupe_range({}, source, offset, target, target_offset, length);
    }
    /// Expects that so many bytes are shared, in as many calls as necessary.
    void expect_deduped(Handle source, Handle target, u64 length) {
        for (u64 done = 0; done < length;) {
            const Result<Deduped> step = dedupe(source, done, target, done, length - done);
            ASSERT_TRUE(step) << static_cast<int>(step.code());
            ASSERT_FALSE(step->differs);
            ASSERT_EQ(step->bytes, std::min(length - done, dedupe_bytes_max));
            done += step->bytes;
        }
    }
    Handle open_with(const std::string& name, const Bytes& bytes) {
        const Handle file = open_new(name);
        put(*volume_, file, 0, bytes);
        return file;
    }
};

TEST_P(DedupeRange, EqualFilesCostTheBlocksOfOne) {
    const Bytes bytes = random_bytes(random_, 18 * mib + 100);
    const Handle source = open_with("source", bytes);
    const Handle target = open_with("target", bytes);
    ASSERT_EQ(volume_->sync(), Errc::ok);
    const u64 before = used_blocks(*volume_);
    const Attributes was = *volume_->attributes(target);
    expect_deduped(source, target, bytes.size());
    ASSERT_EQ(volume_->sync(), Errc::ok);
    // Reference counts of at most eleven block groups, and leaves of extents.
    EXPECT_LE(used_blocks(*volume_) + bytes.size() / block_bytes + 1, before + 14);
    const Attributes is = *volume_->attributes(target);
    EXPECT_EQ(is.size, was.size);
    EXPECT_EQ(is.blocks, was.blocks);
    EXPECT_EQ(is.modified, was.modified);
    EXPECT_EQ(is.changed, was.changed);
    const u64 after = used_blocks(*volume_);
    expect_deduped(source, target, bytes.size());
    EXPECT_EQ(used_blocks(*volume_), after) << "shared already";
    put(*volume_, source, 5000, Bytes(100, std::byte{1}));
    EXPECT_TRUE(contents(*volume_, target) == bytes);
    volume_.close_and_check();
}

TEST_P(DedupeRange, DifferentBytesStayApart) {
    Bytes bytes = random_bytes(random_, 2 * mib + 3 * block_bytes);
    const Handle source = open_with("source", bytes);
    bytes.back() ^= std::byte{1};
    const Handle target = open_with("target", bytes);
    const u64 before = used_blocks(*volume_);
    const Result<Deduped> done = dedupe(source, 0, target, 0, bytes.size());
    ASSERT_TRUE(done);
    EXPECT_TRUE(done->differs);
    EXPECT_EQ(done->bytes, 0u);
    EXPECT_EQ(used_blocks(*volume_), before);
    EXPECT_EQ(dedupe(source, 0, target, 0, bytes.size() - block_bytes)->bytes,
              bytes.size() - block_bytes);
    volume_.close_and_check();
}

TEST_P(DedupeRange, ALengthThatIsNoMultipleOfABlockIsSharedWhereBothFilesEnd) {
    const Bytes bytes = random_bytes(random_, 3 * block_bytes + 200);
    const Handle source = open_with("source", bytes);
    const Handle target = open_with("target", bytes);
    const Handle longer = open_with("longer", bytes);
    put(*volume_, longer, bytes.size(), Bytes(10, std::byte{0}));
    EXPECT_EQ(dedupe(source, 0, target, 0, 2 * block_bytes + 5)->bytes, 2 * block_bytes);
    EXPECT_EQ(dedupe(source, 0, target, 0, 5)->bytes, 0u);
    EXPECT_EQ(dedupe(source, 0, target, 0, 0)->bytes, 0u);
    EXPECT_EQ(dedupe(source, 0, longer, 0, bytes.size())->bytes, 3 * block_bytes);
    EXPECT_EQ(dedupe(longer, 0, source, 0, bytes.size())->bytes, 3 * block_bytes);
    EXPECT_EQ(dedupe(source, 0, target, 0, bytes.size())->bytes, bytes.size());
    for (const Handle file : {source, target})
        EXPECT_EQ(contents(*volume_, file), bytes);
    volume_.close_and_check();
}

TEST_P(DedupeRange, PartsOfOneFileAreShared) {
    const Bytes part = random_bytes(random_, 40 * block_bytes);
    const Handle file = open_with("file", part);
    put(*volume_, file, 60 * block_bytes, part);
    const u64 before = used_blocks(*volume_);
    EXPECT_EQ(dedupe(file, 0, file, 60 * block_bytes, part.size())->bytes, part.size());
    ASSERT_EQ(volume_->sync(), Errc::ok);
    EXPECT_LE(used_blocks(*volume_) + 40, before + 4);
    put(*volume_, file, 0, Bytes(block_bytes, std::byte{7}));
    Bytes found(part.size());
    ASSERT_EQ(*volume_->read(file, 60 * block_bytes, found), found.size());
    EXPECT_EQ(found, part);
    volume_.close_and_check();
}

TEST_P(DedupeRange, HolesAreSharedToo) {
    const Handle source = open_with("source", Bytes(1, std::byte{1}));
    put(*volume_, source, 100 * block_bytes, Bytes(block_bytes, std::byte{1}));
    const Bytes bytes = contents(*volume_, source);
    const Handle target = open_with("target", bytes);
    expect_deduped(source, target, bytes.size());
    EXPECT_EQ(volume_->attributes(target)->blocks, volume_->attributes(source)->blocks);
    EXPECT_EQ(contents(*volume_, target), bytes);
    volume_.close_and_check();
}

TEST_P(DedupeRange, BytesInAnInodeStayThere) {
    const Bytes bytes = random_bytes(random_, 100);
    const Handle source = open_with("source", bytes);
    const Handle target = open_with("target", bytes);
    const u64 before = used_blocks(*volume_);
    const Result<Deduped> done = dedupe(source, 0, target, 0, bytes.size());
    ASSERT_TRUE(done);
    EXPECT_FALSE(done->differs);
    EXPECT_EQ(done->bytes, 0u);
    put(*volume_, target, 0, Bytes(1, bytes[0] ^ std::byte{1}));
    EXPECT_TRUE(dedupe(source, 0, target, 0, bytes.size())->differs);
    EXPECT_EQ(used_blocks(*volume_), before);
    volume_.close_and_check();
}

TEST_P(DedupeRange, BadRangesAreRefused) {
    const Bytes bytes(4 * block_bytes, std::byte{1});
    const Handle source = open_with("source", bytes);
    const Handle target = open_with("target", bytes);
    const auto code_of = [&](u64 offset, u64 target_offset, u64 length) {
        return dedupe(source, offset, target, target_offset, length).code();
    };
    EXPECT_EQ(code_of(1, 0, block_bytes), Errc::invalid);
    EXPECT_EQ(code_of(0, 1, block_bytes), Errc::invalid);
    EXPECT_EQ(code_of(block_bytes, 0, 4 * block_bytes), Errc::invalid)
        << "behind the end of the source";
    EXPECT_EQ(code_of(0, block_bytes, 4 * block_bytes), Errc::invalid)
        << "behind the end of the target";
    EXPECT_EQ(code_of(8 * block_bytes, 0, block_bytes), Errc::invalid);
    EXPECT_EQ(code_of(block_bytes, 0, ~u64{0}), Errc::invalid);
    EXPECT_EQ(code_of(~u64{0} - block_bytes + 1, 0, block_bytes), Errc::invalid);
    EXPECT_EQ(dedupe(source, 0, source, block_bytes, 2 * block_bytes).code(), Errc::invalid);
    EXPECT_EQ(dedupe(source, 0, source, 0, block_bytes).code(), Errc::invalid);
    EXPECT_EQ(dedupe(source, 0, volume_->root(), 0, block_bytes).code(), Errc::is_directory);
    EXPECT_EQ(dedupe(volume_->root(), 0, target, 0, block_bytes).code(), Errc::is_directory);
    const auto link =
        volume_->create({}, volume_->root(), "link", {.mode = 0120777, .target = "source"});
    EXPECT_EQ(dedupe(link->handle, 0, target, 0, block_bytes).code(), Errc::invalid);
    remove(source, "source");
    EXPECT_EQ(code_of(0, 0, block_bytes), Errc::stale);
    EXPECT_EQ(contents(*volume_, target), bytes);
    volume_.close_and_check();
}

TEST_P(DedupeRange, OnlyReadersOfTheSourceAndOwnersOrWritersOfTheTargetMayDedupe) {
    const Bytes bytes(4 * block_bytes, std::byte{1});
    const Handle source = open_with("source", bytes);
    const Handle target = open_with("target", bytes);
    AttributeChange change;
    change.which = AttributeChange::mode | AttributeChange::user | AttributeChange::group;
    change.new_mode = 0464;
    change.new_user = 1000;
    change.new_group = 100;
    ASSERT_TRUE(volume_->set_attributes({}, target, change));
    const auto code_for = [&](const Caller& caller) {
        return volume_->dedupe_range(caller, source, 0, target, 0, block_bytes).code();
    };
    EXPECT_EQ(code_for({.user = 0}), Errc::ok);
    EXPECT_EQ(code_for({.user = 1000, .group = 1000}), Errc::ok) << "owns it, may not write";
    EXPECT_EQ(code_for({.user = 1001, .group = 100}), Errc::ok) << "may write";
    EXPECT_EQ(code_for({.user = 1001, .group = 1001}), Errc::not_permitted);
    EXPECT_EQ(code_for({.user = 1001, .group = 1001, .check = false}), Errc::ok);
    change.which = AttributeChange::mode;
    change.new_mode = 0200;
    ASSERT_TRUE(volume_->set_attributes({}, source, change));
    EXPECT_EQ(code_for({.user = 1000, .group = 1000}), Errc::access);
}

TEST_P(DedupeRange, AReadOnlyVolumeStaysAsItIs) {
    const Bytes bytes(4 * block_bytes, std::byte{1});
    const Handle source = open_with("source", bytes);
    const Handle target = open_with("target", bytes);
    ASSERT_EQ(volume_->release(source), Errc::ok);
    ASSERT_EQ(volume_->release(target), Errc::ok);
    volume_.close();
    {
        OpenOptions how = options();
        how.read_only = true;
        const auto reader = open_on(volume_.disk(), how);
        EXPECT_EQ(reader->dedupe_range({}, source, 0, target, 0, block_bytes).code(),
                  Errc::read_only);
    }
    volume_.open();
}

TEST_P(DedupeRange, AVolumeWithoutSharedBlocksSharesNothing) {
    const Bytes bytes(4 * block_bytes, std::byte{1});
    const Handle source = open_with("source", bytes);
    const Handle target = open_with("target", bytes);
    ASSERT_EQ(volume_->release(source), Errc::ok);
    ASSERT_EQ(volume_->release(target), Errc::ok);
    volume_.close();
    format::Block first;
    const auto raw = std::as_writable_bytes(std::span(&first, 1));
    ASSERT_EQ(volume_.disk().read(0, raw), Errc::ok);
    auto& superblock = reinterpret_cast<format::Superblock&>(first);
    superblock.features_read_only_compatible &= ~u64{format::feature_shared_blocks};
    format::seal_block(first, superblock.header.volume, 0, superblock.header.transaction);
    ASSERT_EQ(volume_.disk().write(0, raw), Errc::ok);
    volume_.open();
    EXPECT_EQ(dedupe(source, 0, target, 0, block_bytes).code(), Errc::not_supported);
    EXPECT_EQ(volume_->share_range(source, 0, target, 0, block_bytes).code(), Errc::not_supported);
}

/// Writes blocks of few different values to a file, so that many are equal.
void write_blocks(Volume& volume, Handle file, Bytes& bytes, u64 seed, u64 count) {
    Random random(seed);
    for (u64 i = 0; i < count && !testing::Test::HasFatalFailure(); ++i) {
        const u64 offset = random.below(bytes.size() / block_bytes) * block_bytes;
        const u64 room = bytes.size() - offset;
        const u64 length =
            std::min<u64>(room, random.below(3) == 0 ? 1 + random.below(6000)
                                                     : block_bytes * (1 + random.below(8)));
        const Bytes change(length, static_cast<std::byte>(random.below(2)));
        put(volume, file, offset, change);
        std::ranges::copy(change, bytes.begin() + static_cast<i64>(offset));
    }
}

TEST_P(DedupeRange, WritersOfBothSidesKeepTheirBytes) {
    const Seed seed;
    Bytes models[2] = {Bytes(64 * block_bytes), Bytes(64 * block_bytes)};
    const Handle files[2] = {open_with("one", models[0]), open_with("other", models[1])};
    const u64 writes = 600 * test_load();
    std::atomic<int> writing = 2;
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
        threads.emplace_back([&, i] {
            write_blocks(*volume_, files[i], models[i], seed.part(i), writes);
            --writing;
        });
    }
    Random random(seed.part(2));
    u64 shared = 0;
    for (u64 round = 0; (writing > 0 || (shared == 0 && round < 1000)) && !HasFatalFailure();
         ++round) {
        const u64 from = random.below(2);
        const u64 offset = random.below(60) * block_bytes;
        const u64 target_offset = random.one_in(2) ? offset : random.below(60) * block_bytes;
        const u64 length = (1 + random.below(4)) * block_bytes;
        const Result<Deduped> done =
            dedupe(files[from], offset, files[1 - from], target_offset, length);
        ASSERT_TRUE(done) << static_cast<int>(done.code());
        ASSERT_TRUE(done->differs || done->bytes == length);
        shared += done->bytes;
    }
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_GT(shared, 0u);
    for (int i = 0; i < 2; ++i)
        EXPECT_TRUE(contents(*volume_, files[i]) == models[i]);
    volume_.close_and_check();
    EXPECT_EQ(test::expect_equal_looks(volume_.disk()).result.problems, 0u);
}

INSTANTIATE_TEST_SUITE_P(MetaBuffers, DedupeRange, testing::ValuesIn(block_maps));

/// A step that dedupes a range of the file at `from` with one of the file at `to`.
void add_dedupe(Script& script, const std::string& from, u64 offset, const std::string& to,
                u64 target_offset, u64 length) {
    script.add_on("dedupe with " + from, to, [=](auto& system, Handle target) {
        const Result<Handle> source = handle_at(system, from);
        if (!source) return source.code();
        return system.dedupe_range(anybody, *source, offset, target, target_offset, length).code();
    });
}

constexpr u64 cut_files = 4;
constexpr u64 first_bytes = 12 * block_bytes;  // of each file
constexpr u64 run_blocks_min = InlineDedup::run_bytes_min / block_bytes;
constexpr u64 run_blocks_max = 2 * run_blocks_min;
std::string path_of(u64 number) {
    return "/f" + std::to_string(number);
}

/// Writes blocks of the text to a file, sometimes from the middle of a block on.
void add_run(Script& script, const std::string& file, u64 offset, const Bytes& text,
             Random& random) {
    const u64 length = run_blocks_min + random.below(run_blocks_max - run_blocks_min + 1);
    const u64 first = random.below(run_blocks_max - length + 1) * block_bytes;
    const u64 skipped = random.one_in(3) ? 100 : 0;
    add_write(script, file, offset + skipped,
              Bytes(&text[first + skipped], text.data() + first + length * block_bytes));
}

/// Bytes that another file has, and zeros, over blocks that files share and such as one has alone.
void add_overwrites_by_runs(Script& script, const Bytes (&texts)[2]) {
    add_write(script, path_of(0), 0, texts[0]);
    script.add_sync();
    // In place: nothing but the sharing of these blocks makes a commit wait for their bytes.
    add_write(script, path_of(0), 0, texts[1]);
    add_write(script, path_of(1), block_bytes, texts[1]);
    script.add_sync();
    add_write(script, path_of(2), 0, texts[0]);
    add_write(script, path_of(2), block_bytes, texts[1]);
    add_write(script, path_of(0), block_bytes, run_blocks_min * block_bytes, 0);
}

enum class Runs : bool { no, yes };

/// Steps on files of few different bytes: most dedupe, some write to a file. With `runs`,
/// others write what deduplication of writes does not store.
Script make_workload(u64 seed, u64 steps, Runs runs) {
    Script script;
    Random random(seed);
    const Bytes texts[] = {random_bytes(random, run_blocks_max * block_bytes),
                           random_bytes(random, run_blocks_max * block_bytes)};
    const Bytes zeros(run_blocks_max * block_bytes);
    for (u64 i = 0; i < cut_files; ++i) {
        add_create(script, path_of(i));
        add_write(script, path_of(i), 0, first_bytes, 'a');
    }
    script.add_sync();
    if (runs == Runs::yes) add_overwrites_by_runs(script, texts);
    for (u64 i = 0; i < steps; ++i) {
        const std::string file = path_of(random.below(cut_files));
        const u64 offset = random.below(8) * block_bytes;
        switch (random.below(runs == Runs::yes ? 12 : 8)) {
            case 0:
                add_write(script, file, offset, 4 * block_bytes,
                          'a' + static_cast<int>(random.below(2)));
                break;
            case 1:
                add_write(script, file, offset + 100, 700, 'b');
                break;
            case 2:
                script.add_sync();
                break;
            case 8:
            case 9:
            case 10:
                add_run(script, file, offset, texts[random.below(2)], random);
                break;
            case 11:
                add_run(script, file, offset, zeros, random);
                break;
            default:
                add_dedupe(script, path_of(random.below(cut_files)), random.below(8) * block_bytes,
                           file, offset, (1 + random.below(4)) * block_bytes);
        }
    }
    script.add_sync();
    return script;
}

/// Sets `dedup` to what deduplication of writes has done.
CutRecording record_workload(const Script& script, const OpenOptions& options,
                             DedupStatistics& dedup) {
    CutRecording out;
    out.log = make_memory_disk(16 * mib);
    const auto volume = open_on(out.disk(), options);
    ModelFileSystem model;
    out.disk().start_recording();
    const auto add_state = [&] {
        out.history.add(model);
        out.note_state();
    };
    EXPECT_EQ(volume->sync(), Errc::ok);
    add_state();
    out.note_sync();
    for (const Script::Step& step : script.steps()) {
        const Errc done = step.on_volume(*volume);
        EXPECT_EQ(done, step.on_model(model)) << step.text;
        add_state();
        if (step.is_sync) out.note_sync();
    }
    dedup = volume->dedup_statistics();
    EXPECT_EQ(volume->close(), Errc::ok);
    out.disk().stop_recording();
    EXPECT_GT(out.disk().event_count(), 0u) << "nothing was recorded";
    return out;
}

TEST(DedupeCuts, NoContentsAreLost) {
    const Seed seed;
    const OpenOptions ways[] = {
        {.workers = 1},
        {.workers = 1, .meta_buffer_bytes = small_meta_buffer, .file_buffer_bytes = 256 * kib},
        {.workers = 1, .data = DataMode::journal},
        {.workers = 1, .dedup = Dedup::on, .dedup_fill_bytes = 0}};
    CutFigures figures;
    u64 part = 0;
    for (const OpenOptions& options : ways) {
        SCOPED_TRACE(name_of(options.data));
        DedupStatistics dedup;
        const bool is_inline = options.dedup == Dedup::on;
        const Script script =
            make_workload(seed.part(part++), 30 * test_load(), is_inline ? Runs::yes : Runs::no);
        const CutRecording recording = record_workload(script, options, dedup);
        if (is_inline) {
            // The files are equal at first.
            EXPECT_GT(dedup.shared_bytes, (cut_files - 1) * first_bytes);
            EXPECT_GT(dedup.zero_bytes, 0u);
        }
        figures += for_each_cut(
            recording, {.subsets_of_max = 2, .samples = 1}, seed.value(),
            [&](MemoryDisk& image, u64 event) { expect_state_after(image, recording, event); });
    }
    EXPECT_GT(figures.cuts, 60u);
    std::printf("%llu cuts, %llu states\n", static_cast<unsigned long long>(figures.cuts),
                static_cast<unsigned long long>(figures.states));
}

/// Of the only file with certain bytes the blocks are freed, and the same bytes are written to
/// another file before a commit.
TEST(DedupeCuts, BlocksThatWereFreedAreNotShared) {
    const Seed seed;
    constexpr u64 length = 8 * block_bytes;
    const std::string source = "/directory/source";
    const std::pair<const char*, std::function<void(Script&)>> ways[] = {
        {"they stay", [](Script&) {}},
        {"unlink", [&](Script& script) { add_unlink(script, source); }},
        {"remove tree", [](Script& script) { add_remove_tree(script, "/directory"); }},
        {"rename", [&](Script& script) { add_rename(script, "/other", source); }},
        {"truncate", [&](Script& script) { add_resize(script, source, 0); }},
        {"share", [&](Script& script) { add_share(script, "/other", source, length); }},
        {"punch",
         [&](Script& script) { add_allocate(script, source, Allocate::punch_hole, 0, length); }}};
    for (const auto& [way, free_blocks] : ways) {
        SCOPED_TRACE(way);
        Script script;
        add_create(script, "/directory", 040755);
        for (const std::string& path : {source, std::string("/other"), std::string("/target")})
            add_create(script, path);
        add_write(script, source, 0, length, 'a');
        add_write(script, "/other", 0, length, 'b');
        script.add_sync();
        free_blocks(script);
        add_write(script, "/target", 0, length, 'a');
        script.add_sync();
        DedupStatistics dedup;
        const CutRecording recording = record_workload(
            script, {.workers = 1, .dedup = Dedup::on, .dedup_fill_bytes = 0}, dedup);
        EXPECT_EQ(dedup.shared_bytes, way == ways[0].first ? length : 0);
        for_each_cut(
            recording, {.subsets_of_max = 2, .samples = 1}, seed.value(),
            [&](MemoryDisk& image, u64 event) { expect_state_after(image, recording, event); });
    }
}

}  // namespace
}  // namespace warren::dedupe_range_test
