// SPDX-License-Identifier: Apache-2.0
// Trees for tests that remove one: each is built below "doomed" in the root, with its links to the
// rest of the volume, and comes with the counts that its removal must report.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "fs/ops/references.hpp"
#include "fs/ops/remove_tree.hpp"
#include "fs/volume/volume_implementation.hpp"
#include "tests/support/volume_walk.hpp"
#include "warren/volume.hpp"

namespace warren {

/// What a builder has created.
struct DoomedTree {
    u64 files = 0;                // names below "doomed"
    u64 directories = 0;          // "doomed" among them
    std::vector<Handle> to_open;  // files that are open while the tree goes
    u64 others = 0;               // directories in "others" of the root, which stay
};

/// Opens the files that shall be open and detaches "doomed"; returns its inode.
inline u64 detach_doomed(VolumeImplementation& volume, const DoomedTree& tree) {
    for (const Handle file : tree.to_open)
        EXPECT_EQ(volume.run([&](CpuOperation& op) { return ops::open_file(op, file); }), Errc::ok);
    const core::Credentials anyone{.check = false};
    const Result<Handle> root =
        volume.run([&](CpuOperation& op) { return ops::handle_of(op, op.store.root_inode); });
    const Result<Handle> detached = volume.run([&](CpuOperation& op) {
        return ops::detach_tree(op, anyone, *root, "doomed", 6, now_nanoseconds());
    });
    EXPECT_TRUE(detached);
    return detached->inode;
}

struct TreeRecipe {
    std::string label;
    u64 size_bytes = 64 * mib;
    std::function<DoomedTree(Volume&)> build;
    bool may_be_listed = true;  // a list tells all that the removal frees
};

/// Writes adjoining blocks, from block `first` of the file on.
inline void write_run(Volume& volume, Handle file, u64 first, u64 count) {
    const std::vector<std::byte> run(count * 4096, std::byte{8});
    EXPECT_EQ(volume.open_file(file), Errc::ok);
    EXPECT_TRUE(volume.write(file, first * 4096, run));
    EXPECT_EQ(volume.release(file), Errc::ok);
}
/// The first blocks of `from` become those of `to`, too; at most `most`.
inline void share_blocks(Volume& volume, Handle from, Handle to, u64 most) {
    for (const Handle file : {from, to})
        EXPECT_EQ(volume.open_file(file), Errc::ok);
    const u64 blocks = std::min(most, volume.attributes(from)->size / 4096);
    EXPECT_TRUE(volume.share_range(from, 0, to, 0, blocks * 4096));
    for (const Handle file : {from, to})
        EXPECT_EQ(volume.release(file), Errc::ok);
}

class TreeBuilder {
 public:
    explicit TreeBuilder(Volume& volume) : volume_(volume) {
        root_ = add_directory(volume.root(), "doomed");
    }

    DoomedTree made;

    Volume& volume() { return volume_; }
    Handle root() const { return root_; }
    Handle add_directory(Handle in, const std::string& name) {
        ++made.directories;
        return make_directory(volume_, in, name);
    }
    Handle add_file(Handle in, const std::string& name) {
        ++made.files;
        return make_file(volume_, in, name);
    }
    void add_link(Handle in, const std::string& name, const std::string& target) {
        ++made.files;
        const CreateOptions options{.mode = 0120777, .target = target};
        EXPECT_TRUE(volume_.create(anybody, in, name, options)) << name;
    }
    void add_name(Handle file, Handle in, const std::string& name) {
        ++made.files;
        EXPECT_TRUE(volume_.link(anybody, file, in, name)) << name;
    }
    /// One block at every second block of the file: extents that do not merge.
    void write_blocks(Handle file, u64 count) {
        const std::vector<std::byte> block(4096, std::byte{7});
        EXPECT_EQ(volume_.open_file(file), Errc::ok);
        for (u64 i = 0; i < count; ++i)
            EXPECT_TRUE(volume_.write(file, i * 2 * block.size(), block));
        EXPECT_EQ(volume_.release(file), Errc::ok);
    }
    void write_run(Handle file, u64 first, u64 count) {
        warren::write_run(volume_, file, first, count);
    }
    void share(Handle from, Handle to, u64 most = ~u64{0}) {
        share_blocks(volume_, from, to, most);
    }
    void set_attribute(Handle handle, u64 bytes) {
        const std::vector<std::byte> value(bytes, std::byte{9});
        EXPECT_EQ(volume_.set_attribute(anybody, handle, "user.note", value), Errc::ok);
    }

 private:
    Volume& volume_;
    Handle root_;
};

inline DoomedTree build_deep(Volume& volume, u32 levels) {
    TreeBuilder builder(volume);
    Handle at = builder.root();
    for (u32 i = 1; i < levels; ++i)
        at = builder.add_directory(at, "down");
    return builder.made;
}

/// A chain of directories, and beside it directories that do not belong to the tree.
inline DoomedTree build_deep_among(Volume& volume, u32 levels, u32 others) {
    const Handle beside = make_directory(volume, volume.root(), "others");
    std::vector<std::string> names;
    for (u32 i = 0; i < others; ++i)
        names.push_back("other" + std::to_string(i));
    std::vector<Creation> creations;
    for (const std::string& name : names)
        creations.push_back({beside, name, {.mode = 040755}});
    std::vector<Result<Attributes>> results(creations.size(), Errc::io);
    volume.create_many(anybody, creations, results);
    for (const Result<Attributes>& result : results)
        EXPECT_TRUE(result);
    DoomedTree made = build_deep(volume, levels);
    made.others = others;
    return made;
}

inline DoomedTree build_flat(Volume& volume, u32 parents, u32 entries, bool directories) {
    TreeBuilder builder(volume);
    for (u32 p = 0; p < parents; ++p) {
        const Handle parent =
            parents == 1 ? builder.root()
                         : builder.add_directory(builder.root(), "parent" + std::to_string(p));
        for (u32 e = 0; e < entries; ++e) {
            const std::string name = "entry" + std::to_string(e);
            directories ? builder.add_directory(parent, name) : builder.add_file(parent, name);
        }
    }
    return builder.made;
}

/// All kinds of inodes with all kinds of contents, some of them linked from outside of the tree.
inline DoomedTree build_zoo(Volume& volume) {
    TreeBuilder builder(volume);
    const Handle outside = make_directory(volume, volume.root(), "outside");
    const Handle inner = builder.add_directory(builder.root(), "inner");
    builder.set_attribute(inner, 100);
    builder.add_link(inner, "short", "target");
    builder.add_link(inner, "long", std::string(3000, 't'));
    for (const u64 blocks : {1, 5, 6, 200}) {
        const std::string name = "blocks" + std::to_string(blocks);
        builder.write_blocks(builder.add_file(inner, name), blocks);
    }
    builder.set_attribute(builder.add_file(inner, "noted"), 2000);
    for (u32 i = 0; i < 30; ++i) {
        const std::string name = "linked" + std::to_string(i);
        const Handle in = builder.add_file(i % 2 == 0 ? inner : builder.root(), name);
        if (i % 3 == 0) {
            EXPECT_TRUE(volume.link(anybody, in, outside, name));
        }
        if (i % 3 == 1) builder.add_name(in, i % 2 == 0 ? builder.root() : inner, name + "too");
        if (i % 5 == 0) builder.write_blocks(in, 3);
    }
    for (u32 i = 0; i < 10; ++i) {
        const Handle file = make_file(volume, outside, "out" + std::to_string(i));
        builder.add_name(file, inner, "in" + std::to_string(i));
    }
    for (u32 i = 0; i < 5; ++i)
        builder.made.to_open.push_back(builder.add_file(inner, "open" + std::to_string(i)));
    return builder.made;
}

/// Files with blocks that other files have too: one outside of the tree, one in it, both, or one
/// that is gone. Two of them need an operation of their own.
inline DoomedTree build_sharing(Volume& volume) {
    TreeBuilder builder(volume);
    const Handle outside = make_directory(volume, volume.root(), "outside");
    const Handle inner = builder.add_directory(builder.root(), "inner");
    for (u32 i = 0; i < 80; ++i) {
        const std::string name = "sharing" + std::to_string(i);
        const Handle file = builder.add_file(i % 3 == 0 ? inner : builder.root(), name);
        builder.write_run(file, 0, 1 + i % 2);
        if (i % 4 != 1) builder.share(file, make_file(volume, outside, name), 1);
        if (i % 4 == 1 || i % 4 == 2) builder.share(file, builder.add_file(inner, name + "too"));
        if (i % 4 == 3) {
            EXPECT_EQ(volume.unlink(anybody, outside, name), Errc::ok);
        }
        if (i % 5 == 0) builder.write_run(file, 2, 1);  // a block of its own
    }
    const Handle large = builder.add_file(inner, "large");
    builder.write_run(large, 0, 1300);
    builder.share(large, make_file(volume, outside, "large"));
    for (const u64 extents : {5, 6}) {
        const std::string name = "scattered" + std::to_string(extents);
        const Handle file = builder.add_file(inner, name);
        builder.write_blocks(file, extents);
        builder.share(file, make_file(volume, outside, name));
    }
    const Handle open = builder.add_file(inner, "open");
    builder.share(large, open, 1);
    builder.made.to_open.push_back(open);
    return builder.made;
}

/// A random tree of `size` inodes, determined by the seed.
inline DoomedTree build_random(Volume& volume, u64 seed, u32 size) {
    TreeBuilder builder(volume);
    Random random(seed);
    std::vector<Handle> directories = {builder.root()};
    std::vector<Handle> files;
    std::vector<Handle> sharers;
    const Handle outside = make_directory(volume, volume.root(), "outside");
    const u64 depth_bias = random.below(4);
    for (u32 i = 0; i < size; ++i) {
        const std::string name = std::string(random.below(40), 'n') + std::to_string(i);
        const u64 among = depth_bias == 0 ? 1 : std::min<u64>(directories.size(), depth_bias * 3);
        const Handle in =
            directories[random.below(2) == 0 ? random.below(directories.size())
                                             : directories.size() - 1 - random.below(among)];
        const u64 what = random.below(100);
        if (what < 20) {
            directories.push_back(builder.add_directory(in, name));
        } else if (what < 25) {
            builder.add_link(in, name, std::string(1 + random.below(400), 'x'));
        } else if (what < 30 && !files.empty()) {
            builder.add_name(files[random.below(files.size())], in, name);
        } else {
            files.push_back(builder.add_file(in, name));
            if (what < 34) builder.write_blocks(files.back(), 1 + random.below(12));
            if (what == 34) builder.set_attribute(files.back(), 300);
            if (what == 35) {
                EXPECT_TRUE(volume.link(anybody, files.back(), outside, name));
            }
            if (what == 36) builder.made.to_open.push_back(files.back());
            if (what < 37 || what > 44) continue;
            if (sharers.empty() || random.below(2) == 0) {
                builder.write_run(files.back(), 0, 1 + random.below(4));
            } else {
                const Handle other = sharers[random.below(sharers.size())];
                builder.share(other, files.back(), 1 + random.below(4));
            }
            sharers.push_back(files.back());
            if (what < 40) builder.share(files.back(), make_file(volume, outside, "shared" + name));
        }
    }
    return builder.made;
}

/// Small trees of every kind.
inline std::vector<TreeRecipe> small_trees() {
    return {
        {"empty", 64 * mib, [](Volume& volume) { return build_deep(volume, 1); }},
        {"deep", 64 * mib, [](Volume& volume) { return build_deep(volume, 60); }},
        {"wide", 64 * mib, [](Volume& volume) { return build_flat(volume, 1, 300, true); }},
        {"mix", 64 * mib, [](Volume& volume) { return build_flat(volume, 8, 20, true); }},
        {"files", 64 * mib, [](Volume& volume) { return build_flat(volume, 4, 900, false); }},
        {"zoo", 64 * mib, build_zoo, false},
        {"sharing", 64 * mib, build_sharing, false},
    };
}

}  // namespace warren
