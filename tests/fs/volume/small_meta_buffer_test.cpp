// SPDX-License-Identifier: Apache-2.0
// Far more than the smallest buffers hold. Many more inodes are referred to, by a kernel or by open
// files: each keeps its references, its number and its contents, whatever is evicted. And a volume
// far larger than memory, where the blocks in use exceed the buffers four times, agrees with a
// model at each step.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "fs/cache/file_buffer.hpp"
#include "fs/disk/file_disk.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/test_engine.hpp"
#include "tests/support/two_looks.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::small_meta_buffer_test {
namespace {

constexpr u64 file_count = 12'000;  // their inodes alone take three times the buffer

std::string name_of(u64 number) {
    return "file-with-a-name-" + std::to_string(number);
}

struct Held {
    Handle handle;
    bool is_open = false;
    bool is_removed = false;
};

class SmallMetaBuffer : public testing::Test {
 protected:
    void make_files() {
        Handle directory;
        for (u64 i = 0; i < file_count; ++i) {
            if (i % 1000 == 0) {
                directory = make_directory(*volume_, volume_->root(), "d" + std::to_string(i));
                directories_.push_back(directory);
            }
            CreateOptions options;
            options.hold = Hold::yes;
            options.open = i % 50 == 0;
            const Result<Attributes> made =
                volume_->create(anybody, directory, name_of(i), options);
            ASSERT_TRUE(made) << i;
            held_.push_back({made->handle, options.open});
            if (!options.open) continue;
            ASSERT_TRUE(volume_->write(made->handle, 0, contents_of(i)));
        }
    }
    static std::vector<std::byte> contents_of(u64 number) {
        return std::vector<std::byte>(300, static_cast<std::byte>(number));
    }
    void remove_some() {
        for (u64 i = 0; i < file_count; i += 25) {  // half of them are open
            ASSERT_EQ(volume_->unlink(anybody, directories_[i / 1000], name_of(i)), Errc::ok);
            held_[i].is_removed = true;
        }
    }
    void expect_all() {
        for (u64 i = 0; i < file_count && !HasFailure(); ++i) {
            const Result<Attributes> found = volume_->attributes(held_[i].handle);
            const bool lives = held_[i].is_open || !held_[i].is_removed;
            ASSERT_EQ(found.code(), lives ? Errc::ok : Errc::stale) << i;
            if (!held_[i].is_open) continue;
            std::vector<std::byte> bytes(300);
            ASSERT_TRUE(volume_->read(held_[i].handle, 0, bytes));
            ASSERT_EQ(bytes, contents_of(i)) << i;
        }
    }

    MemoryVolume volume_{128 * mib, {.workers = 1, .meta_buffer_bytes = small_meta_buffer}};
    std::vector<Handle> directories_;
    std::vector<Held> held_;
};

TEST_F(SmallMetaBuffer, keepsEveryReference) {
    const Seed seed;
    Random random(seed.value());
    make_files();
    expect_all();
    remove_some();
    expect_all();
    // A held number is not reused, although its inode is gone.
    for (u64 i = 0; i < 2000; ++i) {
        const Handle fresh = make_file(*volume_, volume_->root(), "fresh" + std::to_string(i));
        for (const Held& one : held_)
            ASSERT_NE(one.handle.inode, fresh.inode);
    }
    expect_all();
    const u64 used = volume_->statistics().inodes_used;
    for (u64 i = held_.size(); i > 1; --i)
        std::swap(held_[i - 1], held_[random.below(i)]);
    u64 gone = 0;
    for (const Held& one : held_) {
        if (one.is_open) {
            ASSERT_EQ(volume_->release(one.handle), Errc::ok);
            gone += one.is_removed;
        }
        volume_->forget(one.handle, 1);
        const Errc now = volume_->attributes(one.handle).code();
        ASSERT_EQ(now, one.is_removed ? Errc::stale : Errc::ok);
    }
    EXPECT_EQ(volume_->statistics().inodes_used, used - gone);
    EXPECT_EQ(volume_->release(held_[0].handle) != Errc::ok, true) << "nothing is open any more";
    expect_counts_agree(*volume_);
    volume_.close_and_check();
}

/// Counts the reads of the block at one address.
class WatchedDisk final : public Disk {
 public:
    explicit WatchedDisk(Disk& below) : below_(below) {}
    u64 size_bytes() const override { return below_.size_bytes(); }
    Errc read(u64 offset, std::span<std::byte> target) override {
        ++reads;
        reads_of_place += offset <= place && place < offset + target.size();
        return below_.read(offset, target);
    }
    Errc write(u64 offset, std::span<const std::byte> source) override {
        return below_.write(offset, source);
    }
    Errc flush() override { return below_.flush(); }
    Errc discard(u64 offset, u64 length) override { return below_.discard(offset, length); }

    u64 place = 0;
    u64 reads = 0;
    u64 reads_of_place = 0;

 private:
    Disk& below_;
};

TEST(SmallMetaBufferOrder, whatIsUsedAgainStaysAndTheRestGoes) {
    constexpr u64 count = 16'000;  // 1,000 blocks of inodes; there is room for 256 blocks
    const auto memory = make_memory_disk(128 * mib);
    WatchedDisk disk(*memory);
    const auto volume = open_on(disk, {.workers = 1, .meta_buffer_bytes = small_meta_buffer});
    ASSERT_NE(volume, nullptr);
    std::map<u64, Handle> files;  // by block, one of each: workers take numbers far apart
    for (u64 i = 0; i < count; ++i) {
        const Handle file = make_file(*volume, volume->root(), name_of(i));
        files.emplace(file.inode / format::inodes_per_block, file);
    }
    ASSERT_EQ(volume->sync(), Errc::ok);
    const Handle hot = std::next(files.begin(), static_cast<i64>(files.size() / 2))->second;
    disk.place = hot.inode / format::inodes_per_block * format::block_size;
    ASSERT_TRUE(volume->attributes(hot));
    disk.reads = disk.reads_of_place = 0;
    for (u64 round = 0; round < 2; ++round) {
        for (const auto& [block, file] : files) {
            ASSERT_TRUE(volume->attributes(file));
            ASSERT_TRUE(volume->attributes(hot));
        }
    }
    EXPECT_GE(disk.reads, 2 * (files.size() - 256)) << "what does not fit must be read again";
    EXPECT_EQ(disk.reads_of_place, 0u) << "what was used all the time was evicted";
    ASSERT_EQ(volume->close(), Errc::ok);
}

/// The expected contents of a file of LargeVolume: a hole with data in one window only.
struct ModelFile {
    Handle handle;
    u64 size = 0;
    u64 window_begin = 0;
    std::vector<std::byte> window;
};

class LargeVolume : public testing::TestWithParam<DataMode> {
 protected:
    static constexpr u64 volume_bytes = 64 * gib;
    static constexpr u64 window_bytes = 64 * kib;
    static constexpr u64 files_with_contents = 64;  // 4 MiB: sixteen times the file buffer
    static constexpr u64 files = 16'000;            // their inodes: four times the meta buffer

    void SetUp() override {
        // A sparse file in memory where possible: the test then waits for no disk.
        std::string pattern = ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/var/tmp";
        pattern += "/warren_XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
        FormatOptions format;
        format.size_bytes = volume_bytes;
        ASSERT_EQ(make_volume(image(), format).code, Errc::ok);
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }
    std::string image() const { return folder_ + "/image"; }

    void open() {
        OpenOptions options;
        options.workers = 1;
        options.data = GetParam();
        options.meta_buffer_bytes = small_meta_buffer;
        options.file_buffer_bytes = FileBuffer::size_bytes_min;
        Failure failure;
        auto disk = FileDisk::open(image(), OpenMode::read_write, failure);
        ASSERT_NE(disk, nullptr) << failure.message;
        volume_ = open_on_test_engine(std::move(disk), options, failure);
        ASSERT_NE(volume_, nullptr) << failure.message;
    }
    void make_files(Random& random) {
        const u64 step = files / files_with_contents;
        for (u64 i = 0; i < files; ++i) {
            const Result<Attributes> made =
                volume_->create(anybody, volume_->root(), name_of(i), {.open = true});
            ASSERT_TRUE(made) << i;
            ASSERT_EQ(volume_->release(made->handle), Errc::ok);
            model_.emplace_back().handle = made->handle;
            if (i % step != 0) continue;
            model_[i].window_begin = random.below(16 * gib) / 512 * 512;
            model_[i].window.resize(window_bytes);
        }
    }
    ModelFile& any_with_contents(Random& random) {
        return model_[random.below(files_with_contents) * (files / files_with_contents)];
    }
    void step(Random& random) {
        switch (random.below(8)) {
            case 0:
                return resize(model_[random.below(files)], random);
            case 1:
            case 2:
                return expect_size(model_[random.below(files)]);
            case 3:
                return punch(any_with_contents(random), random);
            case 4:
            case 5:
                return write(any_with_contents(random), random);
            default:
                return expect_contents(any_with_contents(random), random);
        }
    }
    void expect_size(const ModelFile& file) {
        const Result<Attributes> found = volume_->attributes(file.handle);
        ASSERT_TRUE(found);
        ASSERT_EQ(found->size, file.size);
    }
    void resize(ModelFile& file, Random& random) {
        AttributeChange change;
        change.which = AttributeChange::size;
        change.new_size =
            random.one_in(4) ? 0 : file.window_begin + random.below(window_bytes + 5000);
        ASSERT_TRUE(volume_->set_attributes(anybody, file.handle, change));
        file.size = change.new_size;
        const u64 kept =
            std::clamp(file.size, file.window_begin, file.window_begin + file.window.size()) -
            file.window_begin;
        std::fill(file.window.begin() + static_cast<std::ptrdiff_t>(kept), file.window.end(),
                  std::byte{});
    }
    void write(ModelFile& file, Random& random) {
        const u64 at = random.below(window_bytes);
        const u64 length = 1 + random.below(std::min<u64>(window_bytes - at, 20'000));
        std::vector<std::byte> bytes(length);
        for (std::byte& byte : bytes)
            byte = static_cast<std::byte>(random.next());
        const Result<u64> done = volume_->write(file.handle, file.window_begin + at, bytes);
        ASSERT_TRUE(done);
        ASSERT_EQ(*done, length);
        std::ranges::copy(bytes, file.window.begin() + static_cast<std::ptrdiff_t>(at));
        file.size = std::max(file.size, file.window_begin + at + length);
    }
    void punch(ModelFile& file, Random& random) {
        const u64 at = random.below(window_bytes);
        const u64 length = 1 + random.below(window_bytes - at);
        ASSERT_EQ(
            volume_->allocate(file.handle, Allocate::punch_hole, file.window_begin + at, length),
            Errc::ok);
        std::fill_n(file.window.begin() + static_cast<std::ptrdiff_t>(at), length, std::byte{});
    }
    /// A random part that exceeds the window on both sides, or all of it.
    void expect_contents(const ModelFile& file, Random& random, bool all = false) {
        const u64 before = std::min<u64>(file.window_begin, all ? 4096 : random.below(6000));
        const u64 begin = file.window_begin - before;
        std::vector<std::byte> wanted(before + file.window.size() + 3000);
        std::ranges::copy(file.window, wanted.begin() + static_cast<std::ptrdiff_t>(before));
        if (!all) wanted.resize(1 + random.below(wanted.size()));
        wanted.resize(std::min<u64>(wanted.size(), file.size - std::min(file.size, begin)));
        std::vector<std::byte> found(wanted.size() + 1);
        const Result<u64> got = volume_->read(file.handle, begin, found);
        ASSERT_TRUE(got);
        found.resize(std::min<u64>(*got, wanted.size()));
        ASSERT_TRUE(found == wanted) << "at " << begin << " of a file of " << file.size;
    }
    void expect_all(Random& random) {
        for (const ModelFile& file : model_) {
            expect_size(file);
            if (!file.window.empty()) expect_contents(file, random, true);
            if (HasFatalFailure()) return;
        }
    }
    void expect_clean_image() {
        CheckResult result;
        CheckOptions options;
        options.engine = test::looking_engine();
        options.report = [](const std::string& line) { ADD_FAILURE() << line; };
        ASSERT_EQ(check_volume(image(), options, result).code, Errc::ok);
        EXPECT_EQ(result.problems, 0u);
    }

    std::string folder_;
    std::unique_ptr<Volume> volume_;
    std::vector<ModelFile> model_;
};
INSTANTIATE_TEST_SUITE_P(Modes, LargeVolume, testing::Values(DataMode::ordered, DataMode::journal),
                         [](const auto& mode) { return std::string(name_of(mode.param)); });

TEST_P(LargeVolume, agreesWithAModelAtTheSmallestSizes) {
    const Seed seed;
    Random random(seed.value());
    ASSERT_NO_FATAL_FAILURE(open());
    ASSERT_NO_FATAL_FAILURE(make_files(random));
    for (u64 i = 0; i < test_operations(4000); ++i) {
        ASSERT_NO_FATAL_FAILURE(step(random)) << "operation " << i;
        ASSERT_EQ(random.one_in(400) ? volume_->sync() : Errc::ok, Errc::ok);
    }
    ASSERT_NO_FATAL_FAILURE(expect_all(random));
    ASSERT_EQ(volume_->close(), Errc::ok);
    volume_.reset();
    expect_clean_image();
    ASSERT_NO_FATAL_FAILURE(open());
    ASSERT_NO_FATAL_FAILURE(expect_all(random));
    ASSERT_EQ(volume_->close(), Errc::ok);
}

}  // namespace
}  // namespace warren::small_meta_buffer_test
