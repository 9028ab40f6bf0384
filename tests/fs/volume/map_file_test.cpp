// SPDX-License-Identifier: Apache-2.0
// Files whose contents also lie in the engine's memory: every change of a file through its volume
// appears in its mappings, bytes written to a mapping reach the file by write_back() and not
// before, and a mapping outlives its file's name.
//
// The model of a file is its bytes, that of a mapping its own copy of a part of them, updated by
// the rules of mapped_file.hpp. Device memory is read through copy_out().
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/seed.hpp"

namespace warren::map_file_test {
namespace {

const Caller anybody{.check = false};
using Bytes = std::vector<std::byte>;

Bytes some_bytes(Random& random, u64 count) {
    Bytes bytes(count);
    for (std::byte& one : bytes)
        one = static_cast<std::byte>(random.below(255) + 1);
    return bytes;
}

Handle create_open(Volume& volume, std::string_view name) {
    const Result<Attributes> made = volume.create(anybody, volume.root(), name, {.open = true});
    EXPECT_TRUE(made);
    return made->handle;
}

std::unique_ptr<MappedFile> map(Volume& volume, Handle file, const MapOptions& options = {}) {
    std::unique_ptr<MappedFile> mapped;
    EXPECT_EQ(volume.map_file(file, options, mapped), Errc::ok);
    return mapped;
}

Bytes all_of(const MappedFile& mapped) {
    Bytes bytes(mapped.view().bytes);
    EXPECT_EQ(mapped.copy_out(mapped.view().offset, bytes), Errc::ok);
    return bytes;
}

/// One file of the model, with those of its parts that are mapped.
class MappedModel {
 public:
    MappedModel(Volume& volume, Random& random, std::string_view name)
        : volume_(volume), random_(random), name_(name), file_(create_open(volume, name)) {}

    void step() {
        switch (random_.below(9)) {
            case 0:
                return add_mapping();
            case 1:
                return drop_mapping();
            case 2:
                return resize();
            case 3:
                return change_by(random_.one_in(2) ? Allocate::punch_hole
                                                   : Allocate::zero_range_keep_size);
            case 4:
                return change_in_mapping();
            case 5:
                return write_back();
            case 6:
                return unlink();
            default:
                return write();
        }
    }

    void compare() {
        Bytes found(bytes_.size() + 1);
        const Result<u64> got = volume_.read(file_, 0, found);
        ASSERT_TRUE(got);
        found.resize(*got);
        ASSERT_TRUE(found == bytes_) << name_;
        for (const Part& part : parts_)
            ASSERT_TRUE(all_of(*part.mapped) == part.bytes) << name_;
    }

    void end() {
        parts_.clear();
        EXPECT_EQ(volume_.release(file_), Errc::ok);
    }

 private:
    static constexpr u64 size_max = 6 * mib;
    struct Part {
        std::unique_ptr<MappedFile> mapped;
        u64 offset;
        Bytes bytes;
    };

    /// The file's bytes in [offset, offset + length), zeros behind its end.
    Bytes part_of_file(u64 offset, u64 length) const {
        Bytes bytes(length);
        const u64 end = std::min<u64>(offset + length, bytes_.size());
        if (offset < end) std::copy_n(bytes_.begin() + i64(offset), end - offset, bytes.begin());
        return bytes;
    }
    /// Updates the parts with the file's bytes in [begin, end), but for `except`.
    void show(u64 begin, u64 end, const Part* except = nullptr) {
        for (Part& part : parts_) {
            const u64 first = std::max(begin, part.offset);
            const u64 last = std::min<u64>(end, part.offset + part.bytes.size());
            if (&part == except || first >= last) continue;
            const Bytes now = part_of_file(first, last - first);
            std::copy(now.begin(), now.end(), part.bytes.begin() + i64(first - part.offset));
        }
    }
    u64 some_size() { return random_.below(random_.one_in(3) ? 9000 : size_max) + 1; }
    /// Often at the boundary of a block.
    u64 some_offset(u64 below) {
        const u64 offset = random_.below(below);
        return random_.one_in(2) ? offset / 4096 * 4096 : offset;
    }

    void add_mapping() {
        if (parts_.size() == 3) return;
        MapOptions options;
        options.offset = random_.one_in(2) ? 0 : some_offset(size_max);
        options.length = random_.one_in(2) ? 0 : some_size();
        std::unique_ptr<MappedFile> mapped;
        const Errc code = volume_.map_file(file_, options, mapped);
        if (options.length == 0 && options.offset >= bytes_.size()) {
            ASSERT_EQ(code, Errc::invalid);
            return;
        }
        ASSERT_EQ(code, Errc::ok);
        const u64 length = options.length == 0 ? bytes_.size() - options.offset : options.length;
        ASSERT_EQ(mapped->view().bytes, length);
        ASSERT_EQ(mapped->view().offset, options.offset);
        parts_.push_back({std::move(mapped), options.offset, part_of_file(options.offset, length)});
    }
    void drop_mapping() {
        if (!parts_.empty()) parts_.erase(parts_.begin() + i64(random_.below(parts_.size())));
    }
    void resize() {
        AttributeChange change;
        change.which = AttributeChange::size;
        change.new_size = some_size() - 1;
        ASSERT_TRUE(volume_.set_attributes(anybody, file_, change));
        bytes_.resize(change.new_size);
        show(change.new_size, ~u64{0});
    }
    void change_by(Allocate how) {
        const u64 offset = some_offset(size_max);
        const u64 length = some_size();
        ASSERT_EQ(volume_.allocate(file_, how, offset, length), Errc::ok);
        for (u64 i = offset; i < std::min<u64>(bytes_.size(), offset + length); ++i)
            bytes_[i] = std::byte{0};
        show(offset, offset + length);
    }
    void write() {
        const u64 offset = some_offset(size_max);
        write_at(offset, some_bytes(random_, random_.one_in(4) ? 8192 : some_size() / 4 + 1));
    }
    void write_at(u64 offset, const Bytes& bytes) {
        const Result<u64> put = volume_.write(file_, offset, bytes);
        ASSERT_TRUE(put);
        ASSERT_EQ(*put, bytes.size());
        store(offset, bytes);
        show(offset, offset + bytes.size());
    }
    void store(u64 offset, const Bytes& bytes) {
        bytes_.resize(std::max<u64>(bytes_.size(), offset + bytes.size()));
        std::copy(bytes.begin(), bytes.end(), bytes_.begin() + i64(offset));
    }
    void change_in_mapping() {
        if (parts_.empty()) return;
        Part& part = parts_[random_.below(parts_.size())];
        const u64 at = some_offset(part.bytes.size());
        const Bytes bytes = some_bytes(random_, random_.below(part.bytes.size() - at) + 1);
        ASSERT_EQ(part.mapped->copy_in(part.offset + at, bytes), Errc::ok);
        std::copy(bytes.begin(), bytes.end(), part.bytes.begin() + i64(at));
    }
    void write_back() {
        if (parts_.empty()) return;
        Part& part = parts_[random_.below(parts_.size())];
        u64 at = 0;
        u64 length = 0;
        if (random_.one_in(2)) {
            ASSERT_EQ(part.mapped->write_back(), Errc::ok);
            const u64 size = bytes_.size();
            length = size > part.offset ? std::min(size - part.offset, part.bytes.size()) : 0;
        } else {
            at = some_offset(part.bytes.size());
            length = random_.below(part.bytes.size() - at) + 1;
            ASSERT_EQ(part.mapped->write_back(part.offset + at, length), Errc::ok);
        }
        if (length == 0) return;
        const Bytes bytes(part.bytes.begin() + i64(at), part.bytes.begin() + i64(at + length));
        store(part.offset + at, bytes);
        show(part.offset + at, part.offset + at + length, &part);
    }
    void unlink() {
        if (!random_.one_in(8) || is_unlinked_) return;
        ASSERT_EQ(volume_.unlink(anybody, volume_.root(), name_), Errc::ok);
        is_unlinked_ = true;
    }

    Volume& volume_;
    Random& random_;
    const std::string name_;
    const Handle file_;
    Bytes bytes_;
    std::vector<Part> parts_;
    bool is_unlinked_ = false;
};

TEST(MapFile, agreesWithAModel) {
    const Seed seed;
    Random random(seed.value());
    for (const u64 meta_buffer : block_maps) {
        MemoryVolume volume(128 * mib, {.meta_buffer_bytes = meta_buffer});
        std::deque<MappedModel> files;
        for (const char* name : {"one", "two", "three"})
            files.emplace_back(*volume, random, name);
        const u64 steps = test_operations(is_sanitized ? 60 : 150);
        for (u64 i = 0; i < steps && !HasFatalFailure(); ++i) {
            files[random.below(files.size())].step();
            if (i % 3 == 0) files[random.below(files.size())].compare();
            if (i % 40 == 0) {
                EXPECT_EQ(volume->sync(), Errc::ok);
            }
        }
        for (MappedModel& file : files) {
            file.compare();
            file.end();
        }
        volume.close_and_check();
    }
}

TEST(MapFile, showsAFileThatLiesInItsInode) {
    MemoryVolume volume(64 * mib);
    const Handle file = create_open(*volume, "small");
    const std::string text = "a few bytes";
    ASSERT_TRUE(volume->write(file, 0, std::as_bytes(std::span(text))));
    const auto mapped = map(*volume, file);
    EXPECT_EQ(mapped->view().bytes, text.size());
    EXPECT_EQ(std::memcmp(all_of(*mapped).data(), text.data(), text.size()), 0);
    const std::string more = "A FEW";
    ASSERT_TRUE(volume->write(file, 0, std::as_bytes(std::span(more))));
    EXPECT_EQ(std::memcmp(all_of(*mapped).data(), more.data(), more.size()), 0);
    EXPECT_EQ(volume->release(file), Errc::ok);
}

TEST(MapFile, keepsAnUnlinkedFilesContents) {
    const Seed seed;
    Random random(seed.value());
    MemoryVolume volume(64 * mib);
    const Handle file = create_open(*volume, "file");
    const Bytes bytes = some_bytes(random, 3 * mib);
    ASSERT_TRUE(volume->write(file, 0, bytes));
    auto mapped = map(*volume, file);
    EXPECT_EQ(volume->release(file), Errc::ok);  // only the mapping holds it now
    ASSERT_EQ(volume->unlink(anybody, volume->root(), "file"), Errc::ok);
    ASSERT_EQ(volume->sync(), Errc::ok);
    const u64 free_before = volume->statistics().blocks_free;
    // A file that allocates blocks here must not get those of the mapped file.
    const Handle other = create_open(*volume, "other");
    ASSERT_TRUE(volume->write(other, 0, some_bytes(random, 20 * mib)));
    ASSERT_EQ(volume->sync(), Errc::ok);
    EXPECT_TRUE(all_of(*mapped) == bytes);
    Bytes found(bytes.size());
    ASSERT_TRUE(volume->read(file, 0, found));
    EXPECT_TRUE(found == bytes);
    EXPECT_EQ(mapped->write_back(), Errc::ok);
    mapped.reset();
    EXPECT_EQ(volume->release(other), Errc::ok);
    EXPECT_EQ(volume->unlink(anybody, volume->root(), "other"), Errc::ok);
    ASSERT_EQ(volume->sync(), Errc::ok);
    EXPECT_GE(volume->statistics().blocks_free, free_before + bytes.size() / 4096);
    EXPECT_EQ(volume->attributes(file).code(), Errc::stale);
    volume.close_and_check();
}

TEST(MapFile, refusesWhatCannotBeMapped) {
    MemoryVolume volume(64 * mib);
    const Handle file = create_open(*volume, "file");
    std::unique_ptr<MappedFile> mapped;
    EXPECT_EQ(volume->map_file(file, {}, mapped), Errc::invalid);  // no bytes
    EXPECT_EQ(volume->map_file(volume->root(), {}, mapped), Errc::is_directory);
    EXPECT_EQ(volume->map_file(file, {.offset = ~u64{0}, .length = 1}, mapped), Errc::file_too_big);
    EXPECT_EQ(volume->map_file(file, {.offset = 1, .length = ~u64{0}}, mapped), Errc::file_too_big);
    EXPECT_EQ(volume->map_file({file.inode, file.generation + 1}, {}, mapped), Errc::stale);
    EXPECT_EQ(mapped, nullptr);
    ASSERT_TRUE(volume->write(file, 0, Bytes(5000)));
    // More than any machine has, and then more than any GPU with memory of its own has.
    EXPECT_EQ(volume->map_file(file, {.length = u64{1} << 58}, mapped), Errc::no_memory);
    if (volume->engine() == name_of(EngineChoice::cuda)) {
        EXPECT_EQ(volume->map_file(file, {.length = 2 * tib}, mapped), Errc::no_memory);
    }
    mapped = map(*volume, file, {.offset = 1000, .length = 2000});
    for (const auto& [offset, length] :
         {std::pair<u64, u64>{999, 1}, {1000, 2001}, {3000, 1}, {~u64{0}, 2}, {1001, ~u64{0}}}) {
        EXPECT_EQ(mapped->write_back(offset, length), Errc::invalid) << offset;
    }
    Bytes too_many(2001);
    EXPECT_EQ(mapped->copy_out(1000, too_many), Errc::invalid);
    EXPECT_EQ(mapped->copy_in(1000, too_many), Errc::invalid);
    EXPECT_EQ(volume->release(file), Errc::ok);
}

TEST(MapFile, outlivesItsVolume) {
    const Seed seed;
    Random random(seed.value());
    MemoryVolume volume(64 * mib);
    const Handle file = create_open(*volume, "file");
    const Bytes bytes = some_bytes(random, 100'000);
    ASSERT_TRUE(volume->write(file, 0, bytes));
    const auto mapped = map(*volume, file);
    EXPECT_EQ(volume->release(file), Errc::ok);
    volume.close_and_check();
    EXPECT_TRUE(all_of(*mapped) == bytes);
    EXPECT_EQ(mapped->write_back(), Errc::stale);
    EXPECT_EQ(mapped->write_back(0, 1), Errc::stale);
}

TEST(MapFile, takesNoWriteOnAReadOnlyVolume) {
    MemoryVolume volume(64 * mib);
    const Handle file = create_open(*volume, "file");
    ASSERT_TRUE(volume->write(file, 0, Bytes(5000, std::byte{1})));
    EXPECT_EQ(volume->release(file), Errc::ok);
    volume.close();
    const auto reader = open_on(volume.disk(), {.read_only = true});
    const auto mapped = map(*reader, file);
    EXPECT_TRUE(all_of(*mapped) == Bytes(5000, std::byte{1}));
    EXPECT_EQ(mapped->write_back(), Errc::read_only);
}

TEST(MapFile, tellsOfADiskThatFails) {
    MemoryVolume volume(64 * mib);
    const Handle file = create_open(*volume, "file");
    ASSERT_TRUE(volume->write(file, 0, Bytes(5 * mib, std::byte{1})));
    volume.faults().set_plan({.writes = false, .flushes = false, .nth = 1, .is_once = true});
    std::unique_ptr<MappedFile> mapped;
    EXPECT_EQ(volume->map_file(file, {}, mapped), Errc::io);
    EXPECT_EQ(mapped, nullptr);
    mapped = map(*volume, file);
    EXPECT_TRUE(all_of(*mapped) == Bytes(5 * mib, std::byte{1}));
    EXPECT_EQ(volume->release(file), Errc::ok);
}

TEST(MapFile, keepsWhatCouldNotBeWrittenBack) {
    MemoryVolume volume(64 * mib);
    const Handle file = create_open(*volume, "file");
    ASSERT_TRUE(volume->write(file, 0, Bytes(2 * mib, std::byte{1})));
    const auto mapped = map(*volume, file, {.length = 62 * mib});
    const auto other = map(*volume, file);
    const Bytes bytes(62 * mib, std::byte{2});
    ASSERT_EQ(mapped->copy_in(0, bytes), Errc::ok);
    EXPECT_EQ(mapped->write_back(0, bytes.size()), Errc::no_space);
    EXPECT_TRUE(all_of(*mapped) == bytes);
    EXPECT_TRUE(all_of(*other) == Bytes(2 * mib, std::byte{2}));
    EXPECT_EQ(volume->release(file), Errc::ok);
}

/// Threads share the slices of a long range, also where these begin within a block.
TEST(MapFile, writesBackALargeRange) {
    const Seed seed;
    Random random(seed.value());
    MemoryVolume volume(128 * mib);
    const Handle file = create_open(*volume, "file");
    Bytes model = some_bytes(random, 21 * mib + 777);
    ASSERT_TRUE(volume->write(file, 0, model));
    const u64 begin = 1000 + random.below(5000);
    const auto mapped = map(*volume, file, {.offset = begin});
    const Bytes changed = some_bytes(random, model.size() - begin);
    ASSERT_EQ(mapped->copy_in(begin, changed), Errc::ok);
    const u64 first = begin + random.below(5 * mib);
    const u64 length = 15 * mib + random.below(mib);
    ASSERT_EQ(mapped->write_back(first, length), Errc::ok);
    std::copy_n(changed.begin() + static_cast<i64>(first - begin), length,
                model.begin() + static_cast<i64>(first));
    Bytes found(model.size());
    ASSERT_TRUE(volume->read(file, 0, found));
    EXPECT_TRUE(found == model);
    EXPECT_EQ(volume->release(file), Errc::ok);
}

/// Writers and a mapping that is created and dropped: in the end each mapping equals the file.
TEST(MapFile, followsConcurrentWriters) {
    MemoryVolume volume(64 * mib);
    const Handle file = create_open(*volume, "file");
    constexpr u64 size = 4 * mib;
    ASSERT_TRUE(volume->write(file, 0, Bytes(size, std::byte{1})));
    std::atomic<bool> must_end{false};
    std::vector<std::thread> writers;
    for (u64 writer = 0; writer < 2; ++writer) {
        writers.emplace_back([&, writer] {
            Random random(writer);
            for (u64 round = 0; round < 200 && !must_end.load(); ++round) {
                const u64 length = random.one_in(2) ? 65536 : 10'000;
                const u64 offset = random.below(size / 65536) * 65536;
                const Bytes bytes(length, static_cast<std::byte>(2 * round + writer));
                EXPECT_TRUE(volume->write(file, offset, bytes));
            }
        });
    }
    std::vector<std::unique_ptr<MappedFile>> mappings;
    for (int i = 0; i < 6; ++i) {
        mappings.push_back(map(*volume, file));
        if (i % 2 == 1) mappings.erase(mappings.begin());
    }
    must_end = true;
    for (std::thread& writer : writers)
        writer.join();
    Bytes found(size);
    ASSERT_TRUE(volume->read(file, 0, found));
    for (const auto& mapped : mappings)
        EXPECT_TRUE(all_of(*mapped) == found);
    mappings.clear();
    EXPECT_EQ(volume->release(file), Errc::ok);
    volume.close_and_check();
}

}  // namespace
}  // namespace warren::map_file_test
