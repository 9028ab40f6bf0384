// SPDX-License-Identifier: Apache-2.0
// Many threads on one volume. A tree that one thread uses alone must match its model; a tree that
// all use must keep the invariants that hold in any order: counts agree, nothing is lost, nothing
// is found twice, the check finds nothing wrong.
#include <gtest/gtest.h>

#include <mutex>
#include <set>

#include "tests/support/memory_volume.hpp"
#include "tests/support/random_operations.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/thread_executor.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::concurrency_test {
namespace {

using std::chrono::milliseconds;
using Bodies = std::vector<std::function<void(Random&)>>;

constexpr u32 executor = 8;

milliseconds some_time() {
    return milliseconds(1500 * test_load());
}

/// Error codes that a call may return when other threads change the same names.
bool is_fair(Errc code) {
    static const std::set<Errc> fair = {
        Errc::ok,           Errc::exists,        Errc::no_entry,     Errc::stale,
        Errc::not_empty,    Errc::not_directory, Errc::is_directory, Errc::invalid,
        Errc::no_data,      Errc::not_permitted, Errc::bad_handle,   Errc::no_such_address,
        Errc::not_supported};  // the mode of a symbolic link
    return fair.contains(code);
}

/// Works on a tree that all threads share; only the set of possible answers can be predicted.
class SharedTree {
 public:
    SharedTree(Volume& volume, Handle root) : volume_(volume), root_(root) {}

    void step(Random& random) {
        const Handle in = pick_directory(random);
        const std::string name = pick_name(random);
        const auto found = volume_.lookup(anybody, in, name);
        const Handle at = found ? found->handle : root_;
        switch (random.below(16)) {
            case 0:
            case 1:
                return expect(volume_.create(anybody, in, name, {.mode = 040777}));
            case 2:
            case 3:
                return expect(volume_.create(anybody, in, name, {}));
            case 4:
                return expect(volume_.create(anybody, in, name,
                                             {.mode = 0120777, .target = "somewhere else"}));
            case 5:
                return expect(volume_.unlink(anybody, in, name));
            case 6:
                return expect(volume_.remove_directory(anybody, in, name));
            case 7:
            case 8:
                return expect(volume_.rename(anybody, in, name, pick_directory(random),
                                             pick_name(random),
                                             static_cast<Rename>(random.below(3))));
            case 9:
                return expect(volume_.link(anybody, at, in, pick_name(random)));
            case 10:
                return step_contents(random, at);
            case 11:
                return step_listing(in);
            case 12:
                return step_attributes(random, at);
            default:
                return step_bulk(random, in, name);
        }
    }

 private:
    static void expect(Errc code) { EXPECT_TRUE(is_fair(code)) << static_cast<int>(code); }
    template <class T>
    static void expect(const Result<T>& result) {
        expect(result.code());
    }

    std::string pick_name(Random& random) const {
        return random.one_in(6) ? "w" + std::to_string(random.below(300))
                                : std::string(1, static_cast<char>('a' + random.below(6)));
    }

    Handle pick_directory(Random& random) {
        Handle at = root_;
        for (u64 depth = random.below(4); depth > 0; --depth) {
            const auto next = volume_.lookup(anybody, at, pick_name(random));
            if (!next || !is_mode_of(next->mode, directory_mode)) break;
            at = next->handle;
        }
        return at;
    }

    void step_contents(Random& random, Handle file) {
        if (volume_.open_file(file) != Errc::ok) return;
        std::vector<std::byte> bytes(1 + random.below(10'000), static_cast<std::byte>('s'));
        const u64 offset = random.below(30'000);
        expect(volume_.write(file, offset, bytes));
        expect(volume_.read(file, random.below(30'000), bytes));
        expect(volume_.allocate(file, static_cast<Allocate>(random.below(5)), offset, 5000));
        expect(volume_.seek(file, offset, Seek::hole));
        AttributeChange change;
        change.which = AttributeChange::size;
        change.new_size = random.below(30'000);
        if (random.one_in(2)) expect(volume_.set_attributes(anybody, file, change));
        expect(volume_.release(file));
    }

    void step_listing(Handle directory) {
        std::set<u64> cookies;
        expect(volume_.read_directory(directory, 0, [&](const DirectoryEntry& entry) {
            EXPECT_TRUE(cookies.insert(entry.cookie).second);
            return true;
        }));
    }

    void step_attributes(Random& random, Handle handle) {
        AttributeChange change;
        change.which = AttributeChange::mode;
        change.new_mode = 0700 + static_cast<u32>(random.below(64));
        expect(volume_.set_attributes(anybody, handle, change));
        const std::vector<std::byte> value(random.below(300), std::byte{'v'});
        expect(volume_.set_attribute(anybody, handle, "user.shared", value));
        std::byte got[400];
        expect(volume_.get_attribute(handle, "user.shared", got));
        if (random.one_in(2)) expect(volume_.remove_attribute(anybody, handle, "user.shared"));
        expect(volume_.attributes(handle, Hold::yes));
        volume_.forget(handle, 1);
    }

    void step_bulk(Random& random, Handle in, const std::string& name) {
        switch (random.below(8)) {
            case 0: {
                Removal removal;
                return expect(volume_.remove_tree(anybody, in, name, removal));
            }
            case 1: {
                Rebuilt rebuilt;
                return expect(volume_.rebuild(anybody, in, rebuilt));
            }
            case 2:
                return expect(volume_.scan(anybody, in, [](const Scanned&) { return true; }));
            case 3:
                return step_many(random, in);
            case 4:
                if (random.one_in(4)) expect(volume_.sync());
                return;
            case 5: {
                const auto made = volume_.create_unnamed(anybody, in, {});
                if (!made) return expect(made);
                expect(volume_.link(anybody, made->handle, in, name));
                return expect(volume_.release(made->handle));
            }
            default:
                expect(volume_.read_link(in));
                return expect(resolve(volume_, anybody, "/shared/" + name + "/../a"));
        }
    }

    void step_many(Random& random, Handle in) {
        std::vector<std::string> names;
        for (u64 i = 0; i < 20; ++i)
            names.push_back(pick_name(random));
        std::vector<Creation> creations;
        std::vector<Move> moves;
        const Handle to = pick_directory(random);
        for (u64 i = 0; i < names.size(); ++i) {
            creations.push_back({in, names[i], {}});
            moves.push_back({in, names[i], to, names[(i + 7) % names.size()]});
        }
        std::vector<Result<Attributes>> made(names.size());
        volume_.create_many(anybody, creations, made);
        for (const auto& one : made)
            expect(one);
        std::vector<Errc> moved(names.size(), Errc::io);
        volume_.move_many(anybody, moves, moved);
        for (const Errc one : moved)
            expect(one);
    }

    Volume& volume_;
    const Handle root_;
};

class Concurrency : public testing::TestWithParam<u64> {
 protected:
    OpenOptions options() const { return {.workers = 2, .meta_buffer_bytes = GetParam()}; }
};
constexpr u64 maps_for_executors[] = {0, 2 * mib};
INSTANTIATE_TEST_SUITE_P(BlockMaps, Concurrency, testing::ValuesIn(maps_for_executors));

/// Each thread has a tree of its own, compared answer by answer, and one that all share.
TEST_P(Concurrency, everyOperationAtOnceAgreesWithTheModels) {
    const Seed seed;
    MemoryVolume volume(1 * gib, options());
    SharedTree shared(*volume, make_directory(*volume, volume->root(), "shared"));
    std::vector<std::unique_ptr<RandomOperations>> drivers;
    for (u32 i = 0; i < executor; ++i) {
        RandomPlan plan;
        plan.entries_max = 300;
        plan.root = make_directory(*volume, volume->root(), "own" + std::to_string(i), 040755);
        drivers.push_back(std::make_unique<RandomOperations>(*volume, seed.part(i), plan));
    }
    const Deadline deadline(2 * some_time());
    Bodies bodies;
    for (u32 i = 0; i < executor; ++i) {
        bodies.push_back([&, i](Random& random) {
            while (!deadline.is_over() && drivers[i]->step())
                shared.step(random);
        });
    }
    run_executor(seed.value(), bodies);
    for (auto& driver : drivers) {
        driver->let_all_go();
        driver->compare();
    }
    expect_counts_agree(*volume);
    volume.close_and_check();
}

/// A name created in a directory stays in it; a directory that was removed accepts no name.
TEST_P(Concurrency, rmdirAgainstCreate) {
    const Seed seed;
    MemoryVolume volume(256 * mib, options());
    const Deadline deadline(some_time());
    std::atomic<u64> removed{0};
    std::atomic<u64> created{0};
    Bodies bodies;
    for (u32 i = 0; i < executor / 2; ++i) {
        bodies.push_back([&, i](Random&) {
            const std::string name = "f" + std::to_string(i);
            while (!deadline.is_over()) {
                const auto directory = volume->lookup(anybody, volume->root(), "d");
                if (!directory) continue;
                const auto made = volume->create(anybody, directory->handle, name, {});
                if (!made) {
                    EXPECT_TRUE(made.code() == Errc::no_entry || made.code() == Errc::stale)
                        << static_cast<int>(made.code());
                    continue;
                }
                ++created;
                EXPECT_TRUE(volume->attributes(directory->handle));
                EXPECT_TRUE(volume->lookup(anybody, directory->handle, name));
                EXPECT_EQ(volume->unlink(anybody, directory->handle, name), Errc::ok);
            }
        });
        bodies.push_back([&](Random&) {
            while (!deadline.is_over()) {
                const auto made = volume->create(anybody, volume->root(), "d", {.mode = 040777});
                EXPECT_TRUE(made || made.code() == Errc::exists);
                const Errc gone = volume->remove_directory(anybody, volume->root(), "d");
                if (gone == Errc::ok) ++removed;
                EXPECT_TRUE(gone == Errc::ok || gone == Errc::not_empty || gone == Errc::no_entry)
                    << static_cast<int>(gone);
            }
        });
    }
    run_executor(seed.value(), bodies);
    EXPECT_GT(removed, 0u);
    EXPECT_GT(created, 0u);
    expect_counts_agree(*volume);
    volume.close_and_check();
}

/// The thread that removes a directory and the thread that closes it last free it together, while
/// others create directories that reuse its inode number.
TEST_P(Concurrency, removeTreeAgainstTheLastClose) {
    const Seed seed;
    MemoryVolume volume(256 * mib, options());
    const Deadline deadline(some_time());
    for (u64 round = 0; !deadline.is_over() && !HasFailure(); ++round) {
        std::vector<Handle> doomed;
        for (u32 i = 0; i < executor; ++i) {
            const std::string name = "d" + std::to_string(i);
            doomed.push_back(make_directory(*volume, volume->root(), name));
            make_directory(*volume, doomed.back(), "inner");
            ASSERT_EQ(volume->open_file(doomed.back()), Errc::ok);
        }
        Bodies bodies;
        for (u32 i = 0; i < executor; ++i) {
            bodies.push_back([&, i](Random&) {
                Removal removal;
                EXPECT_EQ(
                    volume->remove_tree(anybody, volume->root(), "d" + std::to_string(i), removal),
                    Errc::ok);
                const std::string name = "kept" + std::to_string(i);
                const Handle kept = make_directory(*volume, volume->root(), name);
                EXPECT_TRUE(volume->create(anybody, kept, "file", {}));
                EXPECT_TRUE(volume->lookup(anybody, kept, "file"));
                EXPECT_EQ(volume->unlink(anybody, kept, "file"), Errc::ok);
                EXPECT_EQ(volume->remove_directory(anybody, volume->root(), name), Errc::ok);
            });
            bodies.push_back([&, i](Random&) { EXPECT_EQ(volume->release(doomed[i]), Errc::ok); });
        }
        run_executor(seed.part(round), bodies);
    }
    expect_counts_agree(*volume);
    volume.close_and_check();
}

/// A file and a directory are exchanged within a tree that is being removed, and across its border:
/// the removal does not mistake one for the other, and no lookup returns a name of the dying tree.
TEST_P(Concurrency, exchangeAgainstRemoveTree) {
    constexpr u64 pairs = 40;
    const Seed seed;
    MemoryVolume volume(256 * mib, options());
    const Handle safe = make_directory(*volume, volume->root(), "safe");
    for (u64 i = 0; i < pairs; ++i)
        ASSERT_TRUE(volume->create(anybody, safe, "s" + std::to_string(i), {}));
    const u64 inodes_before = volume->statistics().inodes_used;
    const Deadline deadline(some_time());
    for (u64 round = 0; !deadline.is_over() && !HasFailure(); ++round) {
        const Handle doomed = make_directory(*volume, volume->root(), "doomed");
        for (u64 i = 0; i < pairs; ++i) {
            ASSERT_TRUE(volume->create(anybody, doomed, "f" + std::to_string(i), {}));
            make_directory(*volume, doomed, "d" + std::to_string(i));
        }
        std::atomic<bool> is_gone{false};
        std::atomic<u64> exchanged{0};
        const auto exchange = [&](Random& random, Handle from, const char* letter) {
            while (!is_gone) {
                const std::string number = std::to_string(random.below(pairs));
                const Errc code = volume->rename(anybody, from, letter + number, doomed,
                                                 "d" + number, Rename::exchange);
                EXPECT_TRUE(code == Errc::ok || code == Errc::no_entry || code == Errc::stale)
                    << static_cast<int>(code);
                if (code == Errc::ok) ++exchanged;
            }
        };
        Bodies bodies;
        bodies.push_back([&](Random& random) { exchange(random, doomed, "f"); });
        bodies.push_back([&](Random& random) { exchange(random, safe, "s"); });
        bodies.push_back([&](Random&) {
            while (exchanged == 0 && !HasFailure())
                std::this_thread::yield();
            Removal removal;
            EXPECT_EQ(volume->remove_tree(anybody, volume->root(), "doomed", removal), Errc::ok);
            EXPECT_EQ(removal.files + removal.directories, 2 * pairs + 1);
            is_gone = true;
        });
        run_executor(seed.part(round), bodies);
        EXPECT_EQ(volume->statistics().inodes_used, inodes_before);
    }
    EXPECT_EQ(list_names(*volume, safe).size(), pairs);
    expect_counts_agree(*volume);
    volume.close_and_check();
}

/// Whatever could be moved out of a tree before its removal is whole; all else is gone.
TEST_P(Concurrency, renameAgainstRemoveTree) {
    const Seed seed;
    MemoryVolume volume(256 * mib, options());
    const Handle safe = make_directory(*volume, volume->root(), "safe");
    const Deadline deadline(some_time());
    const u64 inodes_before = volume->statistics().inodes_used;
    for (u64 round = 0; !deadline.is_over() && !HasFailure(); ++round) {
        const Handle doomed = make_directory(*volume, volume->root(), "doomed");
        std::vector<Handle> parts;
        for (u32 d = 0; d < 6; ++d) {
            parts.push_back(make_directory(*volume, doomed, "part" + std::to_string(d)));
            const Handle inner = make_directory(*volume, parts.back(), "inner");
            for (u32 f = 0; f < 40; ++f) {
                ASSERT_TRUE(volume->create(anybody, inner, "f" + std::to_string(f), {}));
            }
        }
        std::mutex mutex;
        std::set<std::string> saved;
        Bodies bodies = {[&](Random& random) {
            if (random.one_in(2)) std::this_thread::yield();
            Removal removal;
            EXPECT_EQ(volume->remove_tree(anybody, volume->root(), "doomed", removal), Errc::ok);
        }};
        for (u32 i = 1; i < executor; ++i) {
            bodies.push_back([&, i](Random& random) {
                for (u32 tries = 0; tries < 6; ++tries) {
                    const u64 d = random.below(parts.size());
                    const std::string to = std::to_string(i) + "." + std::to_string(tries);
                    const Errc moved = volume->rename(anybody, parts[d], "inner", safe, to);
                    EXPECT_TRUE(moved == Errc::ok || moved == Errc::no_entry ||
                                moved == Errc::stale)
                        << static_cast<int>(moved);
                    if (moved != Errc::ok) continue;
                    const std::lock_guard guard(mutex);
                    saved.insert(to);
                }
            });
        }
        run_executor(seed.part(round), bodies);
        EXPECT_EQ(volume->lookup(anybody, volume->root(), "doomed").code(), Errc::no_entry);
        const auto names = list_names(*volume, safe);
        EXPECT_EQ(names.size(), saved.size());
        EXPECT_EQ(volume->statistics().inodes_used, inodes_before + saved.size() * 41);
        for (const auto& [name, inode] : names) {
            EXPECT_TRUE(saved.contains(name)) << name;
            const auto found = volume->lookup(anybody, safe, name);
            ASSERT_TRUE(found);
            EXPECT_EQ(list_names(*volume, found->handle).size(), 40u);
            Removal removal;
            EXPECT_EQ(volume->remove_tree(anybody, safe, name, removal), Errc::ok);
            EXPECT_EQ(removal.files, 40u);
        }
    }
    EXPECT_EQ(volume->statistics().inodes_used, inodes_before);
    volume.close_and_check();
}

}  // namespace
}  // namespace warren::concurrency_test
