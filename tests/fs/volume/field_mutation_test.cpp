// SPDX-License-Identifier: Apache-2.0
// The check and an open volume must follow the same rules. Each field of each structure of a
// volume gets boundary values and random values, with correct checksums, and two rules are tested:
// if the check calls a volume clean, all of it can be listed, read, written beside and removed,
// and then its space is free; and whatever can be read before a repair can be read after it,
// unchanged.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "fs/check/check.hpp"
#include "fs/format/check_block.hpp"
#include "fs/format/directory.hpp"
#include "fs/format/frame.hpp"
#include "tests/support/image_builder.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/sanitized.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/two_looks.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::field_mutation_test {
namespace {

using format::Block;
using format::block_size;
using format::BlockHeader;
using format::BlockKind;
using format::Inode;
using test::ImageBuilder;
using test::ImageEditor;

constexpr u64 visits_max = 300;  // a forged directory may lead in a circle

/// Some bytes of a volume's metadata with a single meaning.
struct Field {
    std::string name;
    u64 place;  // of its block
    u32 at;     // in the block
    u32 bytes;
};

/// All fields of some structures of a volume; of an array, one used element and the one behind it.
class FieldList {
 public:
    explicit FieldList(ImageBuilder& image) : image_(image), editor_(image.disk()) {
        const format::Superblock& superblock = image.superblock();
        const u64 first = superblock.root_inode / format::inodes_per_frame * format::frame_size;
        add_words("superblock", 0, sizeof(BlockHeader), 280);
        add_table(superblock.frame_table_offset);
        add_words("bitmap", first, sizeof(BlockHeader), 80);
        add_words("bitmap held", first, 2048, 2056);
        for (u64 place = first + block_size; place < first + format::frame_size;
             place += block_size)
            add_inodes(place);
        const u64 end = superblock.metadata_frames_end * format::frame_size;
        for (u64 place = first + format::frame_size; place < end; place += block_size)
            add_block(place);
    }
    const std::vector<Field>& fields() const { return fields_; }

 private:
    void add(const std::string& name, u64 place, u64 at, u64 bytes) {
        fields_.push_back({name, place, static_cast<u32>(at), static_cast<u32>(bytes)});
    }
    void add_words(const std::string& name, u64 place, u64 begin, u64 end) {
        for (u64 at = begin; at < end; at += 8)
            add(name + " " + std::to_string(at), place, at, 8);
    }
    void add_header(const std::string& name, u64 place) {
        add(name + " kind", place, 4, 2);
        add(name + " zero", place, 6, 2);
        add(name + " owner", place, 24, 8);
        add(name + " owner_generation", place, 32, 4);
        add(name + " zero2", place, 36, 4);
        add(name + " transaction", place, 40, 8);
    }
    void add_table(u64 place) {
        add_header("table", place);
        const Block block = editor_.read(place);
        const auto& table = reinterpret_cast<const format::FrameTableBlock&>(block);
        u64 last_kind = 0;
        for (u32 i = 0; i < format::frames_per_table_block; ++i) {
            if (i != 0 && table.entries[i].kind == last_kind) continue;
            last_kind = table.entries[i].kind;
            const std::string name = "frame of kind " + std::to_string(last_kind);
            const u64 at = 128 + i * sizeof(format::FrameEntry);
            add_words(name, place, at, at + 16);
            add_words(name, place, at + 64, at + 88);
        }
    }
    void add_inodes(u64 place) {
        const Block block = editor_.read(place);
        for (u32 i = 0; i < format::inodes_per_block; ++i) {
            const Inode& inode = reinterpret_cast<const Inode*>(&block)[i];
            if (inode.generation == 0) continue;
            const u32 type = inode.mode >> 12 & 15;
            // The small files of a directory are all alike.
            const u32 kind = type << 8 | inode.area_kind << 4 | inode.height;
            if (++inodes_[kind] > 2) continue;
            const std::string name = "inode of type " + std::to_string(type) + " area " +
                                     std::to_string(inode.area_kind);
            const u64 at = i * format::inode_size;
            for (const auto& [offset, bytes] :
                 {std::pair{4, 4}, {8, 4},  {12, 4}, {16, 8}, {24, 8}, {32, 4}, {36, 4},
                  {40, 8},         {48, 4}, {52, 2}, {54, 1}, {55, 1}, {56, 2}, {58, 2},
                  {60, 4},         {64, 8}, {72, 8}, {80, 8}, {88, 8}, {96, 8}}) {
                add(name + " field " + std::to_string(offset), place, at + static_cast<u64>(offset),
                    static_cast<u64>(bytes));
            }
            add_words(name + " area", place, at + 128, at + 184);
            add(name + " flags of an extent", place, at + 128 + 20, 4);
            add(name + " length of an extent", place, at + 128 + 16, 4);
        }
    }
    void add_block(u64 place) {
        const Block block = editor_.read(place);
        const auto& header = reinterpret_cast<const BlockHeader&>(block);
        if (header.place != place || ++blocks_[header.kind] > 3) return;
        const std::string name = "block of kind " + std::to_string(header.kind);
        add_header(name, place);
        for (u64 at = 48; at < 64; at += 4)
            add(name + " field " + std::to_string(at), place, at, 4);
        if (static_cast<BlockKind>(header.kind) == BlockKind::directory_leaf) {
            add(name + " hash", place, offsetof(format::DirectoryLeaf, hashes), 4);
            const u64 slots = offsetof(format::DirectoryLeaf, slots);
            add_words(name + " slot", place, slots, slots + 16);
            add(name + " type", place, slots + 6, 1);
            add(name + " length", place, slots + 7, 1);
            add(name + " end of a position", place, slots + 14, 2);
            add(name + " unused slot", place, slots + 95 * 16, 8);
            add_words(name + " heap", place, 1984, 2024);
        } else if (static_cast<BlockKind>(header.kind) == BlockKind::reference_counts) {
            const auto& counts = reinterpret_cast<const format::ReferenceBlock&>(block).extra;
            const auto* used = std::ranges::find_if(counts, [](u32 extra) { return extra != 0; });
            const u64 at = offsetof(format::ReferenceBlock, extra) +
                           static_cast<u64>(used - counts) * sizeof *used;
            add(name + " count", place, at, 4);
            add(name + " count of a block without", place, at - 4, 4);
        } else {
            add_words(name + " entry", place, 64, 136);
            add(name + " flags of an extent", place, 64 + 20, 4);
        }
    }

    ImageBuilder& image_;
    ImageEditor editor_;
    std::vector<Field> fields_;
    std::map<u32, u32> inodes_;
    std::map<u16, u32> blocks_;
};

/// The values to try in a field of `bytes` bytes; `old` is its value.
std::vector<u64> values_for(const Field& field, u64 old, Random& random) {
    const u32 bits = field.bytes * 8;
    const u64 all = bits == 64 ? ~u64{0} : (u64{1} << bits) - 1;
    std::vector<u64> values{0, 1, old + 1, old - 1, all, all >> 1, (all >> 1) + 1};
    for (int i = 0; i < 4; ++i) {
        values.push_back(old ^ u64{1} << random.below(bits));
        values.push_back(u64{1} << random.below(bits));
        values.push_back(random.next());
    }
    for (u64& value : values)
        value &= all;
    std::erase(values, old & all);
    return values;
}

/// The answers about the readable objects of a volume, by path.
using Survey = std::map<std::string, std::string>;

/// Reads all that can be reached, and records what can be read without an error. `failed`: the
/// paths of the rest.
class Surveyor {
 public:
    explicit Surveyor(Volume& volume) : volume_(volume) {}

    Survey found;
    std::vector<std::string> failed;

    void run() { list(volume_.root(), "", 0); }

 private:
    void list(Handle directory, const std::string& path, u32 depth) {
        std::map<std::string, u64> names;
        const Errc listed = volume_.read_directory(directory, 0, [&](const DirectoryEntry& entry) {
            names.emplace(std::string(entry.name), entry.inode);
            return names.size() < visits_max;
        });
        if (listed != Errc::ok) failed.push_back(path + "/");
        for (const auto& [name, inode] : names) {
            if (++visits_ > visits_max || depth > 8) return;
            const std::string below = path + "/" + name;
            const auto at = volume_.lookup(anybody, directory, name);
            if (!at || !look(*at, below)) {
                failed.push_back(below);
            } else if ((at->mode & 0170000) == 0040000) {
                list(at->handle, below, depth + 1);
            }
        }
    }

    /// Reads one object; whether that succeeded.
    bool look(const Attributes& at, const std::string& path) {
        const u32 type = at.mode & 0170000;
        std::string text = std::to_string(at.mode);
        // A directory that is rewritten may take more blocks or fewer.
        if (type != 0040000) text += " " + std::to_string(at.size);
        char names[5000];
        const Result<u64> listed = volume_.list_attributes(at.handle, names);
        if (!listed) return false;
        text.append(names, *listed);
        if (type == 0120000) {
            const Result<std::string> target = volume_.read_link(at.handle);
            if (!target || target->find('\0') != std::string::npos) return false;
            text += *target;
        } else if (type == 0100000) {
            if (!read(at, text)) return false;
        }
        found[path] = text;
        return true;
    }

    bool read(const Attributes& at, std::string& text) {
        if (volume_.open_file(at.handle) != Errc::ok) return false;
        bool is_good = true;
        std::vector<std::byte> bytes(64 * block_size);
        for (const u64 from : {u64{0}, at.size - std::min<u64>(at.size, 100)}) {
            const Result<u64> got = volume_.read(at.handle, from, bytes);
            const u64 wanted = std::min<u64>(at.size - from, bytes.size());
            is_good = is_good && got && *got == wanted;
            if (is_good) text.append(reinterpret_cast<const char*>(bytes.data()), *got);
        }
        return volume_.release(at.handle) == Errc::ok && is_good;
    }

    Volume& volume_;
    u64 visits_ = 0;
};

Survey survey_of(Disk& disk, std::vector<std::string>* failed = nullptr) {
    Failure failure;
    const OpenOptions options{.read_only = true, .workers = 1};
    const auto volume =
        open_on_test_engine(std::make_unique<FaultDisk>(disk), options, failure, ~u64{0});
    if (volume == nullptr) {
        if (failed != nullptr) failed->push_back("the volume: " + failure.message);
        return {};
    }
    Surveyor surveyor(*volume);
    surveyor.run();
    if (failed != nullptr) *failed = surveyor.failed;
    return surveyor.found;
}

/// Writes beside everything, then removes everything; returns the usage after that.
std::string empty_volume(MemoryDisk& disk, bool by_trees) {
    std::string used;
    {
        const auto volume = open_on(disk, {.workers = 1});
        if (volume == nullptr) return "cannot be opened";
        std::vector<Handle> directories{volume->root()};
        for (u64 i = 0; i < directories.size(); ++i) {
            for (const auto& [name, inode] : list_names(*volume, directories[i])) {
                const auto at = volume->lookup(anybody, directories[i], name);
                if (at && (at->mode & 0170000) == 0040000) directories.push_back(at->handle);
            }
            const auto made = volume->create(anybody, directories[i], "made", {});
            EXPECT_TRUE(made) << static_cast<int>(made.code());
        }
        if (by_trees) directories.resize(1);
        for (u64 i = directories.size(); i-- > 0;) {
            for (const auto& [name, inode] : list_names(*volume, directories[i])) {
                const auto at = volume->lookup(anybody, directories[i], name);
                if (!at) return name + " is not found";
                const bool is_directory = (at->mode & 0170000) == 0040000;
                Removal removal;
                const Errc code = !is_directory ? volume->unlink(anybody, directories[i], name)
                                  : by_trees
                                      ? volume->remove_tree(anybody, directories[i], name, removal)
                                      : volume->remove_directory(anybody, directories[i], name);
                if (code != Errc::ok) {
                    return name + " cannot be removed: " + std::to_string(static_cast<int>(code));
                }
            }
        }
        EXPECT_EQ(volume->close(), Errc::ok);
    }
    const auto volume = open_on(disk, {.workers = 1});
    if (volume == nullptr) return "cannot be opened again";
    const Statistics statistics = volume->statistics();
    used = std::to_string(statistics.blocks - statistics.blocks_free) + " blocks, " +
           std::to_string(statistics.inodes_used) + " inodes";
    EXPECT_EQ(volume->close(), Errc::ok);
    return used;
}

/// Whether two objects claim the same resource, so that a repair must take it from one of them.
bool is_contested(const test::Outcome& outcome) {
    for (const char* text : {"not its own", "second name", "must have no name", "lies in itself",
                             "overlap", "makes no sense", "is there twice"}) {
        if (outcome.says(text)) return true;
    }
    return false;
}

/// How many tests share the fields, so that they can run in parallel. A sanitized build tries few.
constexpr u64 parts = case_step == 1 ? 4 : 1;

/// The parameter is the part of the fields that a test changes.
class FieldMutation : public testing::TestWithParam<u64> {
 protected:
    FieldMutation() : image_(16 * mib) {
        test::build_one_of_everything(image_, 20, 14);
        pristine_ = image_.disk().copy();
        before_ = survey_of(*pristine_);
        EXPECT_GT(before_.size(), 25u);
        for (const bool by_trees : {false, true}) {
            const auto copy = pristine_->copy();
            const std::string used = empty_volume(*copy, by_trees);
            EXPECT_TRUE(emptied_.empty() || emptied_ == used) << used;
            emptied_ = used;
        }
    }

    /// Tries up to `count` values of each field of the part.
    void run(u64 count, u64 seed) {
        Random random(seed);
        const FieldList list(image_);
        u64 clean = 0;
        u64 tried = 0;
        const u64 first = GetParam() * case_step + random.below(case_step);
        for (u64 f = first; f < list.fields().size(); f += parts * case_step) {
            const Field& field = list.fields()[f];
            const Block block = ImageEditor(*pristine_).read(field.place);
            u64 old = 0;
            std::memcpy(&old, reinterpret_cast<const char*>(&block) + field.at, field.bytes);
            std::vector<u64> values = values_for(field, old, random);
            for (u64 i = 0; i < count && !values.empty(); ++i) {
                const u64 chosen = random.below(values.size());
                const u64 value = values[chosen];
                values.erase(values.begin() + static_cast<std::ptrdiff_t>(chosen));
                SCOPED_TRACE(testing::Message() << field.name << " at " << field.place << " + "
                                                << field.at << ": " << old << " becomes " << value);
                clean += try_one(field, block, value, random.one_in(2));
                ++tried;
            }
        }
        std::printf("[   FIELDS ] %llu values of %llu fields, %llu called clean\n",
                    static_cast<unsigned long long>(tried),
                    static_cast<unsigned long long>(list.fields().size()),
                    static_cast<unsigned long long>(clean));
        EXPECT_GT(clean, tried / 20);
        EXPECT_LT(clean, tried);
    }

 private:
    /// Whether the check calls the volume with the changed field clean.
    bool try_one(const Field& field, Block block, u64 value, bool by_trees) {
        const auto disk = pristine_->copy();
        std::memcpy(reinterpret_cast<char*>(&block) + field.at, &value, field.bytes);
        seal(*disk, field.place, block);
        const test::Outcome outcome = test::expect_equal_looks(*disk);
        if (outcome.failure.code != Errc::ok) return false;
        std::vector<std::string> failed;
        const Survey seen = survey_of(*disk, &failed);
        if (outcome.result.problems == 0) {
            EXPECT_TRUE(failed.empty()) << "clean, but cannot be read: " << failed[0];
            EXPECT_EQ(empty_volume(*disk, by_trees), emptied_) << "it was called clean";
            EXPECT_TRUE(expect_clean(*disk));
            return true;
        }
        const test::Outcome repaired = test::check_once(*disk, true, false);
        EXPECT_EQ(repaired.failure.code, Errc::ok) << repaired.all();
        EXPECT_EQ(repaired.result.repaired, repaired.result.problems) << repaired.all();
        const Survey after = survey_of(*disk, &failed);
        EXPECT_TRUE(failed.empty()) << "repaired, but cannot be read: " << failed[0];
        if (!is_contested(outcome)) expect_kept(seen, after, outcome);
        return false;
    }

    void seal(MemoryDisk& disk, u64 place, const Block& block) {
        ImageEditor editor(disk);
        const u64 inodes = image_.root() / format::inodes_per_frame * format::frame_size;
        if (place <= inodes || place >= inodes + format::frame_size)
            return editor.write(place, block);
        for (u32 i = 0; i < format::inodes_per_block; ++i) {
            const Inode& inode = reinterpret_cast<const Inode*>(&block)[i];
            if (inode.generation != 0) editor.set_inode(place / format::inode_size + i, inode);
        }
    }

    /// Whatever was readable before the field was changed is unchanged; whatever was readable with
    /// the changed field still is.
    void expect_kept(const Survey& seen, const Survey& after, const test::Outcome& outcome) {
        for (const auto& [path, text] : seen) {
            const auto kept = after.find(path);
            if (kept == after.end()) {
                ADD_FAILURE() << path
                              << " could be read, and the repair has removed it: " << outcome.all();
                return;
            }
            const auto was = before_.find(path);
            const bool is_unchanged = was != before_.end() && was->second == text;
            EXPECT_TRUE(!is_unchanged || kept->second == text) << path << "\n" << outcome.all();
        }
    }

    ImageBuilder image_;
    std::unique_ptr<MemoryDisk> pristine_;
    Survey before_;
    std::string emptied_;
};

INSTANTIATE_TEST_SUITE_P(Parts, FieldMutation, testing::Range(u64{0}, parts));

TEST_P(FieldMutation, aCheckAndAReaderAgree) {
    const Seed seed;
    run(2 * test_load(), seed.value());
}

TEST_P(FieldMutation, aCheckAndAReaderAgreeLong) {
    const Seed seed;
    run(100, seed.value());
}

}  // namespace
}  // namespace warren::field_mutation_test
