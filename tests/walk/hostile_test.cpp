// SPDX-License-Identifier: Apache-2.0
// Trees that change during the walk or are made to mislead it: cycles of links, directories that
// are replaced by links or by others, files that vanish, files with many names.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <set>
#include <thread>

#include "support/seed.hpp"
#include "tests/support/folder.hpp"
#include "warren/walk.hpp"

namespace warren::walk::hostile_test {

namespace {

struct Seen {
    std::multiset<std::string> paths;  // without the folder's
    std::vector<Failure> failures;
    std::mutex mutex;
};

Callbacks noting(const Folder& folder, Seen& seen) {
    Callbacks callbacks;
    callbacks.visit = [&](const Entry& entry) {
        std::lock_guard lock(seen.mutex);
        seen.paths.insert(std::string(entry.path().substr(folder.path().size())));
        return Next::go_on;
    };
    callbacks.fail = [&](const Failure& failure) {
        std::lock_guard lock(seen.mutex);
        seen.failures.push_back(failure);
    };
    return callbacks;
}

}  // namespace

TEST(HostileTree, LinksInCirclesAreFollowedOnce) {
    const Folder folder;
    folder.make_directory("a");
    folder.make_directory("a/b");
    folder.make_file("a/b/f");
    folder.make_link("../..", "a/b/up");
    folder.make_link(".", "a/self");
    folder.make_link("b", "a/beside");
    folder.make_link("nowhere", "a/dangling");
    folder.make_link("itself", "itself");
    Seen seen;
    Options options;
    options.follow = Follow::all;
    options.threads = 2;
    const std::string root = folder.path();
    walk(std::span(&root, 1), options, noting(folder, seen));
    EXPECT_EQ(seen.paths, (std::multiset<std::string>{"", "/a", "/a/b", "/a/b/f", "/a/beside",
                                                      "/a/beside/f", "/a/dangling", "/itself"}));
    std::multiset<std::string> loops;
    for (const Failure& failure : seen.failures) {
        EXPECT_STREQ(failure.action, "loop");
        EXPECT_EQ(failure.error, ELOOP);
        loops.insert(failure.path.substr(folder.path().size()));
    }
    EXPECT_EQ(loops, (std::multiset<std::string>{"/a/self", "/a/b/up", "/a/beside/up"}));
}

// No directory above the root belongs to the walk, but the root does.
TEST(HostileTree, ALinkAroundTheRoot) {
    const Folder folder;
    folder.make_directory("root");
    folder.make_link("..", "root/around");
    folder.make_file("root/f");
    Seen seen;
    Options options;
    options.follow = Follow::all;
    const std::string root = folder / "root";
    walk(std::span(&root, 1), options, noting(folder, seen));
    EXPECT_EQ(seen.paths, (std::multiset<std::string>{"/root", "/root/around", "/root/f"}));
    ASSERT_EQ(seen.failures.size(), 1u);
    EXPECT_EQ(seen.failures[0].path, folder / "root/around/root");
    EXPECT_STREQ(seen.failures[0].action, "loop");
}

TEST(HostileTree, ADirectoryThatBecameALinkIsNotEntered) {
    const Folder folder;
    folder.make_directory("outside");
    folder.make_file("outside/secret");
    folder.make_directory("tree");
    folder.make_directory("tree/d");
    folder.make_file("tree/d/f");
    Seen seen;
    Callbacks callbacks = noting(folder, seen);
    const auto note = callbacks.visit;
    callbacks.visit = [&](const Entry& entry) {
        if (entry.name_view() == "d") {
            EXPECT_EQ(rename((folder / "tree/d").c_str(), (folder / "gone").c_str()), 0);
            folder.make_link("../outside", "tree/d");
        }
        return note(entry);
    };
    const std::string root = folder / "tree";
    walk(std::span(&root, 1), {}, callbacks);
    EXPECT_EQ(seen.paths, (std::multiset<std::string>{"/tree", "/tree/d"}));
    ASSERT_EQ(seen.failures.size(), 1u);
    EXPECT_STREQ(seen.failures[0].action, "open");
    EXPECT_TRUE(seen.failures[0].error == ELOOP || seen.failures[0].error == ENOTDIR);
}

// A directory that was closed for lack of descriptors is reopened by its path, at which a different
// directory has been put in the meantime.
TEST(HostileTree, ADirectoryThatWasSwappedIsNotReopened) {
    const Folder folder;
    folder.make_directory("outside");
    folder.make_directory("outside/c");
    folder.make_directory("outside/c/side");
    folder.make_file("outside/c/side/secret");
    folder.make_directory("tree");
    folder.make_directory("tree/c");
    folder.make_directory("tree/c/side");
    folder.make_file("tree/c/side/f");
    folder.make_chain("tree/c/deep", "step", 40);
    std::atomic<bool> swapped{false};
    Seen seen;
    Callbacks callbacks = noting(folder, seen);
    const auto note = callbacks.visit;
    callbacks.visit = [&](const Entry& entry) {
        if (entry.depth() == 20 && !swapped.exchange(true)) {
            EXPECT_EQ(rename((folder / "tree/c").c_str(), (folder / "aside").c_str()), 0);
            EXPECT_EQ(rename((folder / "outside/c").c_str(), (folder / "tree/c").c_str()), 0);
        }
        return note(entry);
    };
    Options options;
    options.threads = 1;
    options.open_limit = 2;
    const std::string root = folder / "tree";
    walk(std::span(&root, 1), options, callbacks);
    EXPECT_TRUE(swapped.load());
    EXPECT_EQ(seen.paths.count("/tree/c/side/secret"), 0u);
    // The chain or the file came first, in the order of the listing. In the first case the file
    // cannot be reached any more.
    if (seen.paths.count("/tree/c/side/f") == 0) {
        ASSERT_EQ(seen.failures.size(), 1u);
        EXPECT_EQ(seen.failures[0].path, folder / "tree/c/side");
        EXPECT_EQ(seen.failures[0].error, ENOENT);
    }
}

TEST(HostileTree, VanishedFilesAreReported) {
    const Folder folder;
    folder.make_directory("d");
    folder.make_file("d/f");
    folder.make_file("g");
    Seen seen;
    Callbacks callbacks = noting(folder, seen);
    const auto note = callbacks.visit;
    callbacks.visit = [&](const Entry& entry) {
        if (entry.depth() == 0) return note(entry);
        if (entry.name_view() == "d") {
            unlink((folder / "d/f").c_str());
            rmdir((folder / "d").c_str());
        } else {
            unlink((folder / "g").c_str());
            EXPECT_EQ(entry.status(STATX_SIZE), nullptr);
            EXPECT_EQ(entry.status(STATX_SIZE), nullptr);  // reported once
        }
        return note(entry);
    };
    const std::string root = folder.path();
    const Totals totals = walk(std::span(&root, 1), {}, callbacks);
    EXPECT_EQ(totals.failures, 2u);
    ASSERT_EQ(seen.failures.size(), 2u);
    for (const Failure& failure : seen.failures)
        EXPECT_EQ(failure.error, ENOENT) << failure.action;
}

// The walk goes on while other threads rename, remove and create entries: no crash, no hang, and no
// entry from outside of the tree.
TEST(HostileTree, ATreeInMotion) {
    const Seed seed;
    const Folder folder;
    folder.make_directory("outside");
    folder.make_file("outside/secret");
    folder.make_directory("tree");
    std::atomic<bool> over{false};
    std::thread mover([&] {
        Random random(seed.value());
        // Moved entries keep their depth, so the tree stays small.
        const auto place = [&](u64 levels) {
            std::string path = folder / "tree";
            for (; levels > 0; --levels)
                path += "/" + std::to_string(random.below(4));
            return path;
        };
        while (!over.load()) {
            const u64 levels = 1 + random.below(3);
            const std::string path = place(levels);
            const std::string other = place(levels);
            static_cast<void>(::mkdir(path.c_str(), 0755));
            if (random.one_in(3)) static_cast<void>(::rename(path.c_str(), other.c_str()));
            if (random.one_in(5)) {
                // It fails where an entry has that name, and the walk must handle both cases.
                [[maybe_unused]] const int answer =
                    ::symlink((folder / "outside").c_str(), other.c_str());
            }
            if (random.one_in(3)) static_cast<void>(::rmdir(path.c_str()));
            if (random.one_in(9)) static_cast<void>(::unlink(other.c_str()));
        }
    });
    const std::string root = folder / "tree";
    for (u32 round = 0; round < 150; ++round) {
        Seen seen;
        Options options;
        options.threads = 3;
        options.open_limit = round % 2 == 0 ? 2 : 0;
        walk(std::span(&root, 1), options, noting(folder, seen));
        for (const std::string& path : seen.paths) {
            ASSERT_EQ(path.find("secret"), std::string::npos) << path;
        }
    }
    over = true;
    mover.join();
}

TEST(HostileTree, OneFileSystem) {
    const Folder folder;
    folder.make_directory("mounted");
    folder.make_directory("own");
    if (mount("none", (folder / "mounted").c_str(), "tmpfs", 0, "size=1m") != 0) {
        GTEST_SKIP() << "may not mount";
    }
    folder.make_file("mounted/other");
    folder.make_file("own/f");
    Seen seen;
    Options options;
    options.one_file_system = true;
    const std::string root = folder.path();
    walk(std::span(&root, 1), options, noting(folder, seen));
    umount((folder / "mounted").c_str());
    EXPECT_EQ(seen.paths, (std::multiset<std::string>{"", "/mounted", "/own", "/own/f"}));
    EXPECT_TRUE(seen.failures.empty());
}

TEST(LinkSet, TellsTheFirstNameAndForgets) {
    LinkSet links;
    EXPECT_TRUE(links.is_first(1, 5, 1));
    EXPECT_TRUE(links.is_first(1, 5, 1));
    EXPECT_EQ(links.size(), 0u);
    EXPECT_TRUE(links.is_first(1, 6, 3));
    EXPECT_TRUE(links.is_first(2, 6, 3));
    EXPECT_FALSE(links.is_first(1, 6, 3));
    EXPECT_EQ(links.size(), 2u);
    EXPECT_FALSE(links.is_first(1, 6, 3));
    EXPECT_EQ(links.size(), 1u);
    EXPECT_TRUE(links.is_new(3, 3));
    EXPECT_FALSE(links.is_new(3, 3));
}

TEST(LinkSet, FromManyThreads) {
    LinkSet links;
    std::atomic<u64> firsts{0};
    std::vector<std::thread> threads;
    for (u32 thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&] {
            for (u64 inode = 0; inode < 5000; ++inode)
                firsts += links.is_first(1, inode, 4) ? 1 : 0;
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_EQ(firsts.load(), 5000u);
    EXPECT_EQ(links.size(), 0u);
}

}  // namespace warren::walk::hostile_test
