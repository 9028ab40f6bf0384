// SPDX-License-Identifier: Apache-2.0
// Names that many threads change: unchanged names are found and listed exactly once, directories
// never form a cycle, and link counts and data are in the end as the calls left them.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/memory_volume.hpp"
#include "tests/support/model_file_system.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/thread_executor.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::concurrency_names_test {
namespace {

using std::chrono::milliseconds;
using Bodies = std::vector<std::function<void(Random&)>>;

constexpr u32 executor = 8;
constexpr u64 stable_names = 400;

milliseconds some_time() {
    return milliseconds(1500 * test_load());
}

std::string stable(u64 index) {
    // Some names are long, so that leaves fill up by count and by bytes.
    return "stay" + std::to_string(index) + std::string(index % 10 == 0 ? 200 : 0, 's');
}

class ConcurrencyOfNames : public testing::TestWithParam<u64> {
 protected:
    OpenOptions options() const { return {.workers = 2, .meta_buffer_bytes = GetParam()}; }

    /// A directory whose stable names exist throughout the test.
    Handle make_stable(Volume& volume) {
        const Handle directory = make_directory(volume, volume.root(), "d");
        for (u64 i = 0; i < stable_names; ++i)
            make_file(volume, directory, stable(i));
        return directory;
    }

    /// Adds and removes names of its own without end, so that leaves are split and freed.
    static void churn(Volume& volume, Handle directory, u32 self, const Deadline& deadline) {
        for (u64 round = 0; !deadline.is_over(); ++round) {
            const u64 count = 50 + round % 5 * 150;
            const auto name = [&](u64 i) {
                return "t" + std::to_string(self) + "." + std::to_string(round % 3) + "." +
                       std::to_string(i);
            };
            for (u64 i = 0; i < count; ++i) {
                EXPECT_TRUE(volume.create(anybody, directory, name(i), {}));
            }
            for (u64 i = 0; i < count; ++i) {
                EXPECT_EQ(volume.unlink(anybody, directory, name(i)), Errc::ok) << name(i);
            }
        }
    }

    static void rebuild(Volume& volume, Handle directory, const Deadline& deadline) {
        while (!deadline.is_over()) {
            Rebuilt rebuilt;
            EXPECT_EQ(volume.rebuild(anybody, directory, rebuilt), Errc::ok);
            EXPECT_GE(rebuilt.entries, stable_names);
        }
    }
};
constexpr u64 maps_for_executors[] = {0, 2 * mib};
INSTANTIATE_TEST_SUITE_P(BlockMaps, ConcurrencyOfNames, testing::ValuesIn(maps_for_executors));

TEST_P(ConcurrencyOfNames, splitAgainstLookup) {
    const Seed seed;
    MemoryVolume volume(256 * mib, options());
    const Handle directory = make_stable(*volume);
    const auto names = list_names(*volume, directory);
    const Deadline deadline(some_time());
    Bodies bodies;
    for (u32 i = 0; i < 3; ++i) {
        bodies.push_back([&, i](Random&) { churn(*volume, directory, i, deadline); });
    }
    bodies.push_back([&](Random&) { rebuild(*volume, directory, deadline); });
    while (bodies.size() < executor) {
        bodies.push_back([&](Random& random) {
            while (!deadline.is_over()) {
                const std::string name = stable(random.below(stable_names));
                const auto found = volume->lookup(anybody, directory, name);
                ASSERT_TRUE(found) << name << " " << static_cast<int>(found.code());
                EXPECT_EQ(found->handle.inode, names.at(name));
                const auto absent = volume->lookup(anybody, directory, name + "x");
                EXPECT_EQ(absent.code(), Errc::no_entry);
            }
        });
    }
    run_executor(seed.value(), bodies);
    EXPECT_EQ(list_names(*volume, directory), names);
    expect_counts_agree(*volume);
    volume.close_and_check();
}

/// Lists a directory in pages of random length.
std::multiset<std::string> list_in_pages(Volume& volume, Handle directory, Random& random) {
    std::multiset<std::string> names;
    u64 cookie = 0;
    for (bool is_over = false; !is_over;) {
        u64 left = 1 + random.below(60);
        is_over = true;
        const Errc listed =
            volume.read_directory(directory, cookie, [&](const DirectoryEntry& entry) {
                EXPECT_GT(entry.cookie, cookie);
                cookie = entry.cookie;
                names.emplace(entry.name);
                is_over = --left > 0;
                return is_over;
            });
        EXPECT_EQ(listed, Errc::ok);
        if (listed != Errc::ok) break;
    }
    return names;
}

TEST_P(ConcurrencyOfNames, readdirAgainstEverything) {
    const Seed seed;
    MemoryVolume volume(256 * mib, options());
    const Handle directory = make_stable(*volume);
    const Handle elsewhere = make_directory(*volume, volume->root(), "elsewhere");
    const Deadline deadline(some_time());
    Bodies bodies;
    for (u32 i = 0; i < 2; ++i) {
        bodies.push_back([&, i](Random&) { churn(*volume, directory, i, deadline); });
    }
    bodies.push_back([&](Random&) { rebuild(*volume, directory, deadline); });
    // Renames put other inodes under the stable names, and add and remove names.
    bodies.push_back([&](Random& random) {
        while (!deadline.is_over()) {
            EXPECT_EQ(
                volume->rename(anybody, directory, stable(random.below(stable_names / 2)),
                               directory, stable(random.below(stable_names / 2)), Rename::exchange),
                Errc::ok);
            EXPECT_TRUE(volume->create(anybody, elsewhere, "x", {}));
            EXPECT_EQ(volume->rename(anybody, elsewhere, "x", directory,
                                     stable(random.below(stable_names))),
                      Errc::ok);
            EXPECT_TRUE(volume->create(anybody, elsewhere, "y", {}));
            EXPECT_EQ(volume->rename(anybody, elsewhere, "y", directory, "y"), Errc::ok);
        }
    });
    bodies.push_back([&](Random&) {
        while (!deadline.is_over()) {
            const Handle tree = make_directory(*volume, directory, "tree");
            for (u32 i = 0; i < 20; ++i)
                make_file(*volume, tree, std::to_string(i));
            Removal removal;
            EXPECT_EQ(volume->remove_tree(anybody, directory, "tree", removal), Errc::ok);
            EXPECT_EQ(removal.files, 20u);
            EXPECT_EQ(volume->sync(), Errc::ok);
        }
    });
    while (bodies.size() < executor) {
        bodies.push_back([&](Random& random) {
            while (!deadline.is_over()) {
                const auto names = list_in_pages(*volume, directory, random);
                for (u64 i = 0; i < stable_names; ++i) {
                    ASSERT_EQ(names.count(stable(i)), 1u) << stable(i);
                }
            }
        });
    }
    run_executor(seed.value(), bodies);
    EXPECT_GE(list_names(*volume, directory).size(), stable_names);
    expect_counts_agree(*volume);
    volume.close_and_check();
}

/// Directories move into each other at random: none may end up below itself, none may be lost.
TEST_P(ConcurrencyOfNames, movesOfDirectoriesMakeNoCircle) {
    const Seed seed;
    MemoryVolume volume(256 * mib, options());
    constexpr u64 count = 12;
    std::vector<Handle> directories = {volume->root()};
    for (u64 i = 0; i < count; ++i) {
        directories.push_back(make_directory(*volume, volume->root(), std::to_string(i)));
    }
    const Deadline deadline(some_time());
    std::atomic<u64> moved{0};
    Bodies bodies;
    for (u32 t = 0; t < executor; ++t) {
        bodies.push_back([&](Random& random) {
            while (!deadline.is_over()) {
                // The name belongs to the directory, wherever that is.
                const u64 which = random.below(count);
                const auto at = volume->attributes(directories[which + 1]);
                ASSERT_TRUE(at);
                const auto parent = volume->handle_of(at->parent);
                ASSERT_TRUE(parent);
                const Handle to = directories[random.below(directories.size())];
                const std::string name = std::to_string(which);
                const Errc code =
                    volume->rename(anybody, *parent, name, to, name, Rename::no_replace);
                if (code == Errc::ok) ++moved;
                EXPECT_TRUE(code == Errc::ok || code == Errc::no_entry || code == Errc::invalid ||
                            code == Errc::exists)
                    << static_cast<int>(code);
            }
        });
    }
    run_executor(seed.value(), bodies);
    EXPECT_GT(moved, 0u);
    EXPECT_EQ(volume->statistics().inodes_used, 2 + count);
    expect_counts_agree(*volume);
    volume.close_and_check();
}

/// Links, opens and last closes of the same few files.
TEST_P(ConcurrencyOfNames, linksAgainstUnlinksAndCloses) {
    const Seed seed;
    MemoryVolume volume(256 * mib, options());
    const Deadline deadline(some_time());
    Bodies bodies;
    for (u32 t = 0; t < executor; ++t) {
        bodies.push_back([&](Random& random) {
            while (!deadline.is_over()) {
                const std::string name(1, static_cast<char>('a' + random.below(4)));
                const std::string other(1, static_cast<char>('a' + random.below(4)));
                const auto made = volume->create(anybody, volume->root(), name,
                                                 {.hold = Hold::yes, .open = true});
                EXPECT_TRUE(made || made.code() == Errc::exists);
                const auto found = volume->lookup(anybody, volume->root(), other, Hold::yes);
                if (found && volume->open_file(found->handle) == Errc::ok) {
                    std::byte bytes[200] = {};
                    EXPECT_TRUE(volume->write(found->handle, random.below(9000), bytes));
                    const Errc linked =
                        volume->link(anybody, found->handle, volume->root(), name).code();
                    EXPECT_TRUE(linked == Errc::ok || linked == Errc::exists ||
                                linked == Errc::no_entry)
                        << static_cast<int>(linked);
                    const Errc gone = volume->unlink(anybody, volume->root(), other);
                    EXPECT_TRUE(gone == Errc::ok || gone == Errc::no_entry);
                    EXPECT_TRUE(volume->read(found->handle, 0, bytes));
                    EXPECT_EQ(volume->release(found->handle), Errc::ok);
                }
                if (found) volume->forget(found->handle, 1);
                if (!made) continue;
                EXPECT_EQ(volume->release(made->handle), Errc::ok);
                volume->forget(made->handle, 1);
            }
        });
    }
    run_executor(seed.value(), bodies);
    expect_counts_agree(*volume);
    for (const auto& [name, inode] : list_names(*volume, volume->root())) {
        EXPECT_EQ(volume->unlink(anybody, volume->root(), name), Errc::ok);
    }
    EXPECT_EQ(volume->statistics().inodes_used, 2u);
    volume.close_and_check();
}

/// Every block of a file is written as a whole with one value: no reader may see two values in a
/// block, or a byte that no thread wrote.
TEST_P(ConcurrencyOfNames, readsAgainstWritesAndTruncation) {
    const Seed seed;
    MemoryVolume volume(256 * mib, options());
    const auto file = volume->create(anybody, volume->root(), "f", {.mode = 0100644, .open = true});
    ASSERT_TRUE(file);
    const Handle handle = file->handle;
    const Deadline deadline(some_time());
    constexpr u64 blocks = 64;
    Bodies bodies;
    for (u32 t = 0; t < 3; ++t) {
        bodies.push_back([&](Random& random) {
            while (!deadline.is_over()) {
                const u64 count = 1 + random.below(4);
                const std::vector<std::byte> bytes(count * 4096,
                                                   static_cast<std::byte>(1 + random.below(200)));
                const auto done = volume->write(handle, random.below(blocks) * 4096, bytes);
                EXPECT_TRUE(done);
            }
        });
    }
    bodies.push_back([&](Random& random) {
        while (!deadline.is_over()) {
            AttributeChange change;
            change.which = AttributeChange::size;
            change.new_size = random.below(blocks) * 4096;
            EXPECT_TRUE(volume->set_attributes(anybody, handle, change));
            EXPECT_EQ(volume->allocate(handle, static_cast<Allocate>(random.below(5)),
                                       random.below(blocks) * 4096, 8192),
                      Errc::ok);
            EXPECT_EQ(random.one_in(8) ? volume->sync_file(handle) : Errc::ok, Errc::ok);
        }
    });
    while (bodies.size() < executor) {
        bodies.push_back([&](Random& random) {
            std::vector<std::byte> bytes(4096);
            while (!deadline.is_over()) {
                const auto got = volume->read(handle, random.below(blocks) * 4096, bytes);
                ASSERT_TRUE(got);
                const bool is_whole =
                    std::all_of(bytes.begin(), bytes.begin() + static_cast<i64>(*got),
                                [&](std::byte byte) { return byte == bytes[0]; });
                EXPECT_TRUE(is_whole);
                EXPECT_LE(static_cast<int>(bytes[0]), 200);
            }
        });
    }
    run_executor(seed.value(), bodies);
    EXPECT_EQ(volume->release(handle), Errc::ok);
    volume.close_and_check();
}

/// A deep and narrow tree, which a GPU lists as a whole, is removed while its owner removes a part
/// of it, which begins by name, because the owner's rights are looked at first.
TEST_P(ConcurrencyOfNames, removeTreeWithinATreeThatIsRemoved) {
    constexpr u32 depth = 40;
    const Caller owner{.user = 1000, .group = 1000};
    const Seed seed;
    MemoryVolume volume(256 * mib, options());
    const Handle home = make_directory(*volume, volume->root(), "home");
    const u64 inodes_before = volume->statistics().inodes_used;
    const Deadline deadline(some_time());
    for (u64 round = 0; !deadline.is_over() && !HasFailure(); ++round) {
        std::vector<Handle> chain{home};
        for (u32 i = 0; i < depth; ++i) {
            const auto made = volume->create(owner, chain.back(), "step", {.mode = 040755});
            ASSERT_TRUE(made);
            chain.push_back(made->handle);
            ASSERT_TRUE(volume->create(owner, chain.back(), "file", {}));
        }
        const auto remove = [&](const Caller& caller, Random& random, Handle in) {
            std::this_thread::sleep_for(std::chrono::microseconds(random.below(1000)));
            Removal removal;
            return volume->remove_tree(caller, in, "step", removal);
        };
        run_executor(seed.part(round),
                     {[&](Random& random) { EXPECT_EQ(remove(anybody, random, home), Errc::ok); },
                      [&](Random& random) {
                          const Errc code = remove(owner, random, chain[1 + random.below(20)]);
                          const std::set<Errc> fair = {Errc::ok, Errc::no_entry, Errc::stale};
                          EXPECT_TRUE(fair.contains(code)) << static_cast<int>(code);
                      }});
        EXPECT_EQ(volume->statistics().inodes_used, inodes_before);
    }
    expect_counts_agree(*volume);
    volume.close_and_check();
}

}  // namespace
}  // namespace warren::concurrency_names_test
