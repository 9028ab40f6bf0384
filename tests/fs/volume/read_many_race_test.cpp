// SPDX-License-Identifier: Apache-2.0
// Files that other threads remove, truncate and write during read() and read_many(): a read gives
// the file's own bytes or an error, even if other files get its blocks before they are read.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/volume_walk.hpp"
#include "tests/support/watched_disk.hpp"

namespace warren::read_many_race_test {
namespace {

Handle make_open_file(Volume& volume, Handle directory, const std::string& name) {
    return volume.create(anybody, directory, name, {.open = true})->handle;
}

/// Makes all words of a part of a file `word`.
void write_words(Volume& volume, Handle file, u64 offset, u64 bytes, u64 word) {
    const std::vector<u64> words(bytes / sizeof word, word);
    EXPECT_TRUE(volume.write(file, offset, std::as_bytes(std::span(words))));
}

/// A file "old" in the directory "d", and a change between its mapping and the read.
class ReadManyRace : public testing::Test {
 protected:
    static constexpr u64 bytes = 8192;

    ReadManyRace()
        : disk_(make_memory_disk(16 * mib)),
          watched_(*disk_),
          volume_(open_on(watched_, {.engine = EngineChoice::cpu})) {
        directory_ = make_directory(*volume_, volume_->root(), "d");
        old_ = make_open_file(*volume_, directory_, "old");
        write_words(*volume_, old_, 0, bytes, 'o');
        EXPECT_EQ(volume_->release(old_), Errc::ok);
        new_ = make_open_file(*volume_, volume_->root(), "new");
        EXPECT_EQ(volume_->sync(), Errc::ok);
    }
    ~ReadManyRace() override {
        EXPECT_EQ(volume_->release(new_), Errc::ok);
        EXPECT_EQ(volume_->close(), Errc::ok);
        expect_clean(*disk_);
    }

    /// Calls `read` for the old file. Before the disk reads it, another thread makes `change` and
    /// writes the new file, which gets the old one's blocks.
    void race(const std::function<void()>& change, const std::function<void()>& read) {
        const u64 place = *volume_->address_of(old_, 0);
        std::atomic<bool> is_first{true};
        watched_.before_read = [&](u64 offset) {
            if (offset != place || !is_first.exchange(false)) return;
            std::thread([&] {
                change();
                EXPECT_EQ(volume_->sync(), Errc::ok);
                give_to_new(place);
            }).join();
        };
        read();
        watched_.before_read = [](u64) {};
        EXPECT_FALSE(is_first);
    }
    std::span<std::byte> target() { return std::as_writable_bytes(std::span(words_)); }
    /// Reads all of the old file by read_many().
    Result<u64> read_behind(const std::function<void()>& change) {
        std::vector<FileRead> reads{{.file = old_, .offset = 0, .target = target()}};
        race(change, [&] { volume_->read_many(reads); });
        return reads[0].done;
    }
    /// Makes a clone of the old file. The function that this returns writes to the old file, which
    /// then shares no block with the clone, and removes the clone.
    std::function<void()> share_until_called() {
        ClonedTree cloned;
        EXPECT_EQ(volume_->clone(anybody, old_, volume_->root(), "clone", cloned), Errc::ok);
        return [this] {
            ASSERT_EQ(volume_->open_file(old_), Errc::ok);
            write_words(*volume_, old_, 0, bytes, 'w');
            EXPECT_EQ(volume_->release(old_), Errc::ok);
            EXPECT_EQ(volume_->unlink(anybody, volume_->root(), "clone"), Errc::ok);
        };
    }
    void give_to_new(u64 place) {
        for (u64 offset = 0; offset < 16 * mib; offset += bytes) {
            const std::vector<u64> words(bytes / sizeof(u64), 'n');
            ASSERT_TRUE(volume_->write(new_, offset, std::as_bytes(std::span(words))));
            for (u64 at = offset; at < offset + bytes; at += 4096) {
                if (*volume_->address_of(new_, at) == place) return;
            }
        }
        ADD_FAILURE() << "the new file does not get block " << place;
    }

    std::unique_ptr<MemoryDisk> disk_;
    WatchedDisk watched_;
    std::unique_ptr<Volume> volume_;
    Handle directory_;
    Handle old_;
    Handle new_;
    std::vector<u64> words_ = std::vector<u64>(bytes / sizeof(u64));
};

TEST_F(ReadManyRace, anUnlinkedFileIsStale) {
    const Result<u64> done =
        read_behind([&] { EXPECT_EQ(volume_->unlink(anybody, directory_, "old"), Errc::ok); });
    EXPECT_EQ(done.code(), Errc::stale);
}

TEST_F(ReadManyRace, aFileOfARemovedTreeIsStale) {
    const Result<u64> done = read_behind([&] {
        Removal removal;
        EXPECT_EQ(volume_->remove_tree(anybody, volume_->root(), "d", removal), Errc::ok);
    });
    EXPECT_EQ(done.code(), Errc::stale);
}

TEST_F(ReadManyRace, blocksThatTheFileSharesNoMoreAreReadAgain) {
    const Result<u64> done = read_behind(share_until_called());
    EXPECT_EQ(*done, bytes);
    EXPECT_EQ(words_, std::vector<u64>(words_.size(), 'w'));
}

TEST_F(ReadManyRace, aSingleReadDoesSoToo) {
    ASSERT_EQ(volume_->open_file(old_), Errc::ok);
    Result<u64> done = Errc::io;
    race(share_until_called(), [&] { done = volume_->read(old_, 0, target()); });
    EXPECT_EQ(*done, bytes);
    EXPECT_EQ(words_, std::vector<u64>(words_.size(), 'w'));
    EXPECT_EQ(volume_->release(old_), Errc::ok);
}

/// Threads that create files whose words all hold the file's number, and remove and truncate them,
/// beside threads that read them.
class Crowd {
 public:
    Crowd(Volume& volume, const Seed& seed, u64 rounds)
        : volume_(volume), seed_(seed), rounds_(rounds) {}

    void run() {
        std::vector<std::thread> threads;
        for (u64 i = 0; i < 2; ++i)
            threads.emplace_back([this, i] { change(i); });
        for (u64 i = 2; i < 4; ++i)
            threads.emplace_back([this, i] { read(i); });
        for (std::thread& thread : threads)
            thread.join();
    }
    u64 good() const { return good_; }
    u64 stale() const { return stale_; }

 private:
    static constexpr u64 remembered = 300;
    static constexpr u64 in_directory = 40;

    struct Known {
        Handle handle;
        u64 number;
        std::string name;
    };

    void change(u64 thread) {
        Random random(seed_.part(thread));
        for (u64 round = 0; round < rounds_; ++round) {
            const std::string name = "d" + std::to_string(thread);
            const Handle directory =
                volume_.create(anybody, volume_.root(), name, {.mode = 0040755})->handle;
            std::vector<Known> own;
            for (u64 i = 0; i < in_directory; ++i) {
                own.push_back(make(directory, "f" + std::to_string(i), random));
                change_one(directory, own[random.below(own.size())], random);
            }
            Removal removal;
            EXPECT_EQ(volume_.remove_tree(anybody, volume_.root(), name, removal), Errc::ok);
            EXPECT_EQ(volume_.sync(), Errc::ok);
        }
        working_.fetch_sub(1);
    }
    Known make(Handle directory, const std::string& name, Random& random) {
        constexpr u64 sizes[] = {64, 4096, 8192, 8192, 12'000, 40'000};
        const Known made{make_open_file(volume_, directory, name), next_.fetch_add(1), name};
        write_words(volume_, made.handle, 0, sizes[random.below(std::size(sizes))], made.number);
        EXPECT_EQ(volume_.release(made.handle), Errc::ok);
        const std::lock_guard lock(mutex_);
        if (known_.size() < remembered) {
            known_.push_back(made);
        } else {
            known_[made.number % remembered] = made;
        }
        return made;
    }
    void change_one(Handle directory, const Known& file, Random& random) {
        switch (random.below(4)) {
            case 0:
                static_cast<void>(volume_.unlink(anybody, directory, file.name));
                break;
            case 1:
                static_cast<void>(volume_.set_attributes(
                    anybody, file.handle,
                    {.which = AttributeChange::size, .new_size = 8 * random.below(1000)}));
                break;
            case 2:
                EXPECT_EQ(volume_.sync(), Errc::ok);
                break;
            default:
                break;
        }
    }

    void read(u64 thread) {
        Random random(seed_.part(thread));
        std::vector<u64> words(100 * 1000);
        while (working_ != 0) {
            std::vector<u64> numbers;
            std::vector<FileRead> reads;
            std::ranges::fill(words, 0);
            {
                const std::lock_guard lock(mutex_);
                for (u64 i = 0; i < 100 && !known_.empty(); ++i) {
                    const Known& one = known_[random.below(known_.size())];
                    const u64 size = 8 * random.below(1001);
                    reads.push_back({.file = one.handle,
                                     .offset = 8 * random.below(100),
                                     .target = std::as_writable_bytes(
                                         std::span(words).subspan(1000 * i, size / 8))});
                    numbers.push_back(one.number);
                }
            }
            volume_.read_many(reads);
            for (u64 i = 0; i < reads.size(); ++i)
                check(reads[i], std::span(words).subspan(1000 * i), numbers[i]);
        }
    }
    void check(const FileRead& read, std::span<const u64> words, u64 number) {
        if (!read.done) {
            EXPECT_EQ(read.done.code(), Errc::stale);
            ++stale_;
            return;
        }
        ++good_;
        const auto own = words.first(*read.done / sizeof(u64));
        // A file that became longer by truncate() has zeros there.
        const auto wrong =
            std::ranges::find_if(own, [&](u64 word) { return word != number && word != 0; });
        EXPECT_TRUE(wrong == own.end()) << "file " << number << " shows bytes of " << *wrong;
    }

    Volume& volume_;
    const Seed& seed_;
    const u64 rounds_;
    std::atomic<u64> next_{1};
    std::atomic<u64> working_{2};
    std::atomic<u64> good_{0};
    std::atomic<u64> stale_{0};
    std::mutex mutex_;  // guards known_
    std::vector<Known> known_;
};

TEST(ReadManyCrowd, everyFileHasItsOwnBytes) {
    const Seed seed;
    const std::unique_ptr<MemoryDisk> disk = make_memory_disk(16 * mib);
    WatchedDisk watched(*disk);
    const std::unique_ptr<Volume> volume = open_on(watched);
    // Other threads may run between mapping and reading.
    watched.before_read = [](u64) { std::this_thread::yield(); };
    Crowd crowd(*volume, seed, 40 * test_load());
    crowd.run();
    EXPECT_GT(crowd.good(), 0u);
    EXPECT_GT(crowd.stale(), 0u);
    EXPECT_EQ(volume->close(), Errc::ok);
    expect_clean(*disk);
}

}  // namespace
}  // namespace warren::read_many_race_test
