// SPDX-License-Identifier: Apache-2.0
// The same numbers give the same trees: names and sizes come from a generator with a fixed seed.
#include "bench/support/walk_trees.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/random.hpp"
#include "bench/support/report.hpp"

namespace warren::bench {

namespace {

using Words = std::vector<std::string>;

void make_file(const std::string& directory, u64 number, Random& random) {
    static const std::vector<char> contents(4001, 'x');
    const std::string path =
        directory + "/file_" + std::to_string(number) + "_" + std::to_string(random.below(100000));
    const int file = ::open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
    require(file >= 0, "cannot make " + path);
    const u64 size = random.below(4001);
    require(::write(file, contents.data(), size) == static_cast<ssize_t>(size), "cannot write");
    ::close(file);
}

void make_directory(const std::string& path) {
    require(::mkdir(path.c_str(), 0755) == 0, "cannot make " + path);
}

}  // namespace

void make_mixed_tree(const std::string& root, u64 files) {
    Random random(7);
    make_directory(root);
    make_directory(root + "/large");
    for (u64 number = 0; number < files / 6; ++number)
        make_file(root + "/large", number, random);
    Words directories;
    for (u32 chain = 0; chain < 8; ++chain) {
        std::string at = root + "/chain" + std::to_string(chain);
        for (u32 level = 0; level < 60; ++level, at += "/d" + std::to_string(level)) {
            make_directory(at);
            directories.push_back(at);
        }
    }
    Words mixed = {root};
    for (u32 number = 0; number < 2518; ++number) {
        mixed.push_back(mixed[random.below(mixed.size())] + "/dir_" + std::to_string(number));
        make_directory(mixed.back());
        directories.push_back(mixed.back());
    }
    u64 left = files - files / 6;
    for (size_t at = 0; at < directories.size(); ++at) {
        const u64 there = directories.size() - at;
        const u64 count = there == 1 ? left : std::min(left, random.below(2 * left / there + 1));
        for (u64 number = 0; number < count; ++number)
            make_file(directories[at], number, random);
        left -= count;
    }
}

void make_large_directory(const std::string& root, u64 files) {
    make_directory(root);
    for (u64 number = 0; number < files; ++number) {
        const std::string path = root + "/file_" + std::to_string(number);
        require(::mknod(path.c_str(), S_IFREG | 0644, 0) == 0, "cannot make " + path);
    }
}

void make_skewed_tree(const std::string& root, u64 directories, u64 files) {
    make_directory(root);
    std::string heavy = root;
    for (u64 number = 0; number < directories; ++number) {
        // Every other one goes on where the last such ended: a long arm with all that hangs on it.
        const std::string path =
            (number % 2 == 0 ? heavy : root) + "/dir_" + std::to_string(number);
        make_directory(path);
        if (number % 16 == 0) heavy = path;
        for (u64 file = 0; file < files; ++file) {
            const std::string name = path + "/file_" + std::to_string(file);
            require(::mknod(name.c_str(), S_IFREG | 0644, 0) == 0, "cannot make " + name);
        }
    }
}

}  // namespace warren::bench
