// SPDX-License-Identifier: Apache-2.0
// Walks with the queue at rank 0, in less memory than it needs: all entries are found; without a
// temporary file they are found too, with an error; and if the file is lost during the walk, the
// walk ends, reports that, and counts nothing twice.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "base/random.hpp"
#include "support/seed.hpp"
#include "walk/noted_walk.hpp"
#include "walk/rank.hpp"

namespace warren::walk::central_walk_test {

namespace {

constexpr std::array central_names = {"cp", "cp-keep-one", "cp-directories"};

Options central_options(const char* name, u64 queue_bytes) {
    Options options;
    options.scheduler = scheduler_named(name)->scheduler;
    options.queue_bytes = queue_bytes;
    options.threads = 1;
    return options;
}

/// Nested directories with files: no work batch holds much of the tree.
void fill(const Folder& folder, u32 directories, u32 files) {
    for (u32 index = 0; index < directories; ++index) {
        const std::string name = "d" + std::to_string(index);
        folder.make_directory(name);
        folder.make_directory(name + "/below");
        for (u32 file = 0; file < files; ++file)
            folder.make_file(name + (file % 2 == 0 ? "/below/f" : "/f") + std::to_string(file));
    }
}

/// The open descriptors of this process for files with this word in their names.
std::vector<int> open_files(std::string_view word) {
    std::vector<int> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        char target[512] = {};
        if (::readlink(entry.path().c_str(), target, sizeof target - 1) < 0) continue;
        if (std::string_view(target).find(word) == std::string_view::npos) continue;
        found.push_back(std::stoi(entry.path().filename().string()));
    }
    return found;
}

/// Sets $TMPDIR during its lifetime.
class TemporaryFolder {
 public:
    explicit TemporaryFolder(const std::string& path) {
        const char* const before = std::getenv("TMPDIR");
        if (before != nullptr) before_ = before;
        ::setenv("TMPDIR", path.c_str(), 1);
    }
    ~TemporaryFolder() {
        if (before_) {
            ::setenv("TMPDIR", before_->c_str(), 1);
        } else {
            ::unsetenv("TMPDIR");
        }
    }

 private:
    std::optional<std::string> before_;
};

}  // namespace

TEST(CentralWalk, WithoutAFileNothingIsMissingAndItIsSaid) {
    const Folder folder;
    const Folder elsewhere;
    fill(folder, 20, 10);
    const Expected expected = expect_of(folder.path());
    const std::string missing = elsewhere / "not there";
    const TemporaryFolder temporary(missing);
    for (const char* name : central_names) {
        SCOPED_TRACE(name);
        ThreadNetwork network({0, 0, 1}, 1, 50);
        Seen seen;
        walk_with_ranks(folder.path(), central_options(name, 0), network, seen);
        ASSERT_EQ(seen.failures.size(), 1u);
        EXPECT_EQ(seen.failures[0].path, missing);
        EXPECT_STREQ(seen.failures[0].action, "keep the queue of rank 0 in");
        EXPECT_EQ(seen.failures[0].error, ENOENT);
        EXPECT_EQ(seen.totals.failures, 1u);
        seen.failures.clear();
        expect_same(seen, expected);
    }
}

// The file is truncated to nothing once so many entries have been seen, and again whenever it has
// grown; in some rounds the walk is stopped a little later.
TEST(CentralWalk, AFileThatIsLostIsSaidAndTheWalkEnds) {
    const Seed seed;
    const Folder folder;
    const Folder temporary_folder;
    fill(folder, 12, 10);
    const Expected expected = expect_of(folder.path());
    const TemporaryFolder temporary(temporary_folder.path());
    u32 lost = 0;
    for (u64 after = 1; after <= expected.entries.size(); after += 3) {
        Random random(seed.part(after));
        const char* const name = central_names[random.below(central_names.size())];
        SCOPED_TRACE(std::string(name) + ", after " + std::to_string(after));
        const bool stops = random.one_in(4);
        ThreadNetwork network({0, 0, 1}, random.next(), random.below(100));
        Seen seen;
        Callbacks callbacks = noting(seen);
        const auto visit = callbacks.visit;
        std::atomic<u64> visits{0};
        callbacks.visit = [&](const Entry& entry) {
            const u64 number = ++visits;
            if (number >= after) {
                for (const int file : open_files(temporary_folder.path() + "/warren-"))
                    EXPECT_EQ(::ftruncate(file, 0), 0);
            }
            visit(entry);
            return stops && number == after + 5 ? Next::stop : Next::go_on;
        };
        walk_with_ranks(folder.path(), central_options(name, random.below(600)), network, seen,
                        callbacks);
        std::sort(seen.entries.begin(), seen.entries.end());
        EXPECT_TRUE(std::adjacent_find(seen.entries.begin(), seen.entries.end()) ==
                    seen.entries.end());
        EXPECT_TRUE(std::includes(expected.entries.begin(), expected.entries.end(),
                                  seen.entries.begin(), seen.entries.end()));
        EXPECT_EQ(seen.totals.entries, seen.entries.size());
        EXPECT_EQ(seen.totals.failures, seen.failures.size());
        EXPECT_EQ(seen.fault, "");
        for (const Failure& failure : seen.failures) {
            EXPECT_EQ(failure.path, temporary_folder.path());
            EXPECT_STREQ(failure.action, "read again the queue of rank 0 in");
        }
        if (seen.totals.stopped) continue;
        lost += seen.failures.empty() ? 0 : 1;
        EXPECT_EQ(seen.sum.entries, seen.entries.size());
        if (seen.failures.empty()) expect_same(seen, expected);
        if (HasFailure()) return;
    }
    EXPECT_GT(lost, 3u);
}

// A directory whose entries are all at rank 0 stays unfinished for long. Without a limit each of
// 600 such directories would hold a descriptor, and so would those on the path to it.
TEST(CentralWalk, UnfinishedDirectoriesDoNotAllStayOpen) {
    const Folder folder;
    fill(folder, 600, 4);
    const Expected expected = expect_of(folder.path());
    for (const char* name : central_names) {
        SCOPED_TRACE(name);
        ThreadNetwork network({0, 0, 1}, 1, 0);
        Options options = central_options(name, 4 * kib);
        options.open_limit = 16;
        Seen seen;
        Callbacks callbacks = noting(seen);
        const auto visit = callbacks.visit;
        std::atomic<size_t> most{0};
        std::atomic<u64> visits{0};
        callbacks.visit = [&](const Entry& entry) {
            if (++visits % 20 == 0) most = std::max(most.load(), open_files(folder.path()).size());
            return visit(entry);
        };
        walk_with_ranks(folder.path(), options, network, seen, callbacks);
        expect_same(seen, expected);
        EXPECT_LE(most.load(), 3 * (16u + 4u));
    }
}

}  // namespace warren::walk::central_walk_test
