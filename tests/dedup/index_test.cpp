// SPDX-License-Identifier: Apache-2.0
// The index is compared with a std::map, with and without a limit that makes it spill. Its file is
// loaded unchanged, and no file with a changed byte or a missing end is accepted.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "base/random.hpp"
#include "tests/support/seed.hpp"
#include "warren/dedup.hpp"

namespace warren::dedup::index_test {
namespace {

class Folder {
 public:
    Folder() {
        char name[] = "/tmp/warren-index-XXXXXX";
        path_ = ::mkdtemp(name);
    }
    ~Folder() { std::filesystem::remove_all(path_); }
    std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
    std::string path_;
};

Key random_key(Random& random, u64 kinds) {
    Random of_kind(random.below(kinds));
    return {of_kind.next(), of_kind.next()};
}

std::map<Key, Entry> fill(Index& index, Random& random, u64 kinds, u64 chunks) {
    std::map<Key, Entry> model;
    u64 place = index.next_place();
    index.add_source("some", chunks * 10);
    while (chunks > 0) {
        std::vector<Chunk> batch(std::min<u64>(chunks, 1 + random.below(500)));
        std::vector<Entry> found(batch.size());
        for (Chunk& chunk : batch) {
            chunk = {random_key(random, kinds), place, static_cast<u32>(random.below(9000))};
            place += 10;
        }
        EXPECT_EQ(index.add(batch, found), Errc::ok);
        for (size_t i = 0; i < batch.size(); ++i) {
            const Chunk& chunk = batch[i];
            Entry& entry =
                model.try_emplace(chunk.key, Entry{chunk.key, chunk.place, chunk.length, 0})
                    .first->second;
            ++entry.count;
            EXPECT_EQ(found[i], entry);
        }
        chunks -= batch.size();
    }
    return model;
}

void expect_equal(const Index& index, const std::map<Key, Entry>& model) {
    ASSERT_EQ(index.entries(), model.size());
    auto expected = model.begin();
    for (const Entry& entry : index.sorted())
        ASSERT_EQ(entry, (expected++)->second);
}

TEST(Index, EqualsAMap) {
    const Seed seed;
    Random random(seed.value());
    for (u64 kinds : {1u, 50u, 5'000u, 500'000u}) {
        Index index;
        ASSERT_EQ(index.open({}), Errc::ok);
        const auto model = fill(index, random, kinds, 20'000);
        expect_equal(index, model);
        EXPECT_EQ(index.find({1, 2}), std::nullopt);
        EXPECT_EQ(index.find(model.begin()->first), model.begin()->second);
    }
}

TEST(Index, EqualsAMapBeyondItsMemory) {
    const Seed seed;
    Random random(seed.value());
    Index index;
    ASSERT_EQ(index.open({.memory_bytes = 1 * mib}), Errc::ok);
    const auto model = fill(index, random, 900'000, 500'000);
    EXPECT_GT(index.spilled_entries(), 8u * 24'000);
    EXPECT_LE(index.memory_bytes(), 1 * mib);
    expect_equal(index, model);
}

TEST(Index, RefusesWhatCannotWork) {
    Index index;
    EXPECT_EQ(index.open({.memory_bytes = 1000}), Errc::invalid);
    ASSERT_EQ(index.open({.memory_bytes = 1 * mib, .spill_folder = "/nowhere"}), Errc::ok);
    Random random(1);
    Errc code = Errc::ok;
    for (u64 i = 0; i < 40'000 && code == Errc::ok; ++i) {
        const Chunk chunk{{random.next(), i}, i, 1};
        Entry found;
        code = index.add({&chunk, 1}, {&found, 1});
    }
    EXPECT_EQ(code, Errc::no_entry);
}

TEST(Index, PlacesKnowTheirSource) {
    Index index;
    ASSERT_EQ(index.open({}), Errc::ok);
    EXPECT_EQ(index.add_source("a", 10), 0u);
    EXPECT_EQ(index.add_source("empty", 0), 10u);
    EXPECT_EQ(index.add_source("b", 5), 10u);
    EXPECT_EQ(index.source_of(9)->path, "a");
    EXPECT_EQ(index.source_of(10)->path, "b");
    EXPECT_EQ(index.source_of(14)->path, "b");
    EXPECT_EQ(index.source_of(15), nullptr);
}

TEST(IndexFile, ComesBackAsItWas) {
    const Seed seed;
    Random random(seed.value());
    const Folder folder;
    const std::string path = folder.file("index");
    const Index::Options options{.algorithm = hash::Algorithm::sha256, .secret = "mine"};
    Index index;
    ASSERT_EQ(index.open(options), Errc::ok);
    const auto model = fill(index, random, 6'000, 20'000);
    ASSERT_EQ(index.save(path), Errc::ok);
    ASSERT_EQ(index.save(path), Errc::ok);
    Index again;
    ASSERT_EQ(again.load(path, options), Errc::ok);
    expect_equal(again, model);
    EXPECT_EQ(again.sources(), index.sources());
    EXPECT_EQ(again.next_place(), index.next_place());
    EXPECT_EQ(again.load(path, {.algorithm = hash::Algorithm::sha256, .secret = "other"}),
              Errc::access);
    EXPECT_EQ(again.load(path, {.algorithm = hash::Algorithm::sha256}), Errc::access);
    EXPECT_EQ(again.load(path, {.secret = "mine"}), Errc::invalid);
    EXPECT_EQ(again.load(folder.file("absent"), options), Errc::no_entry);
    EXPECT_EQ(index.save(folder.file("no/folder")), Errc::no_entry);
}

TEST(IndexFile, KeyedKeysDependOnTheSecret) {
    Index plain;
    Index mine;
    Index yours;
    ASSERT_EQ(plain.open({}), Errc::ok);
    ASSERT_EQ(mine.open({.secret = "mine"}), Errc::ok);
    ASSERT_EQ(yours.open({.secret = "yours"}), Errc::ok);
    const std::vector<u8> digest(32, 7);
    EXPECT_EQ(plain.key_of(digest), (Key{0x0707070707070707, 0x0707070707070707}));
    EXPECT_NE(mine.key_of(digest), plain.key_of(digest));
    EXPECT_NE(mine.key_of(digest), yours.key_of(digest));
    EXPECT_EQ(mine.key_of(digest), mine.key_of(digest));
}

TEST(IndexFile, DamageIsFound) {
    const Folder folder;
    const std::string path = folder.file("index");
    Index index;
    ASSERT_EQ(index.open({}), Errc::ok);
    Random random(1);
    fill(index, random, 12, 40);
    ASSERT_EQ(index.save(path), Errc::ok);
    std::ifstream file(path, std::ios::binary);
    const std::string good((std::istreambuf_iterator<char>(file)), {});
    auto load = [&](const std::string& bytes) {
        std::ofstream(path, std::ios::binary) << bytes;
        Index loaded;
        return loaded.load(path, {});
    };
    ASSERT_EQ(load(good), Errc::ok);
    for (size_t at = 0; at < good.size(); ++at) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
        EXPECT_EQ(load(bad), Errc::corrupt) << "byte " << at;
        EXPECT_EQ(load(good.substr(0, at)), Errc::corrupt) << "length " << at;
    }
    EXPECT_EQ(load(good + "x"), Errc::corrupt);
}

/// Inputs are added and forgotten at random, in the index and in the map.
TEST(Index, ForgottenSourcesAreUnknown) {
    const Seed seed;
    for (const u64 memory_bytes : {u64{0}, u64{1 * mib}}) {
        Random random(seed.part(memory_bytes));
        Folder folder;
        Index index;
        ASSERT_EQ(index.open({.memory_bytes = memory_bytes, .spill_folder = folder.file("")}),
                  Errc::ok);
        std::map<Key, Entry> model;
        for (u64 round = 0; round < 30; ++round) {
            const u64 base = index.add_source(std::to_string(round), random.below(6000) * 10);
            std::vector<Chunk> chunks((index.next_place() - base) / 10);
            std::vector<Entry> found(chunks.size());
            for (u64 i = 0; i < chunks.size(); ++i) {
                chunks[i] = {random_key(random, 60'000), base + 10 * i, 10};
                model.try_emplace(chunks[i].key, Entry{chunks[i].key, base + 10 * i, 10, 0})
                    .first->second.count++;
            }
            ASSERT_EQ(index.add(chunks, found), Errc::ok);
            for (u64 i = 0; i < chunks.size(); ++i)
                ASSERT_EQ(found[i].place, model[chunks[i].key].place);
            if (!random.one_in(3)) continue;
            const size_t gone = random.below(index.sources().size());
            const Source source = index.sources()[gone];
            index.forget_source(gone);
            std::erase_if(model, [&](const auto& known) {
                return known.second.place - source.base < source.size;
            });
            // Behind the base of an empty source the next one begins.
            if (source.size > 0) {
                EXPECT_EQ(index.source_of(source.base + 1), nullptr);
            }
        }
        std::vector<Entry> expected;
        for (const auto& [key, entry] : model)
            expected.push_back(entry);
        EXPECT_EQ(index.sorted(), expected);
        ASSERT_EQ(index.save(folder.file("index")), Errc::ok);
        Index again;
        ASSERT_EQ(again.load(folder.file("index"), {}), Errc::ok);
        EXPECT_EQ(again.sorted(), expected);
        for (const Source& source : again.sources())
            EXPECT_FALSE(source.is_forgotten);
    }
}

}  // namespace
}  // namespace warren::dedup::index_test
