// SPDX-License-Identifier: Apache-2.0
// Directories are walked by descriptor: a tree of 1,000 levels has paths longer than the kernel
// takes.
#include "bench/support/trees.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "bench/support/report.hpp"

namespace warren::bench {

namespace {

std::string numbered(const char* stem, u32 number) {
    return stem + std::to_string(number);
}

}  // namespace

Tree single_file(const std::string& name) {
    return {{0, name, false}};
}

Tree deep_tree(const std::string& name, u32 count) {
    Tree tree;
    for (u32 i = 0; i < count; ++i)
        tree.push_back({i, i == 0 ? name : "down", true});
    return tree;
}

Tree flat_tree(const std::string& name, u32 parents, u32 entries, bool entries_are_directories) {
    Tree tree = {{0, name, true}};
    for (u32 p = 0; p < parents; ++p) {
        tree.push_back({1, numbered("directory", p), true});
        for (u32 e = 0; e < entries; ++e)
            tree.push_back({2, numbered("entry", e), entries_are_directories});
    }
    return tree;
}

Tree wide_tree(const std::string& name, u32 count) {
    Tree tree = {{0, name, true}};
    for (u32 i = 0; i < count; ++i)
        tree.push_back({1, numbered("directory", i), true});
    return tree;
}

void make_on_host(const std::string& folder, const Tree& tree) {
    std::vector<int> open_levels = {::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    require(open_levels[0] >= 0, "cannot open " + folder);
    for (std::size_t i = 0; i < tree.size(); ++i) {
        const Node& node = tree[i];
        while (open_levels.size() > node.depth + 1) {
            ::close(open_levels.back());
            open_levels.pop_back();
        }
        const int parent = open_levels.back();
        const char* name = node.name.c_str();
        const int made = node.is_directory ? ::mkdirat(parent, name, 0755)
                                           : ::mknodat(parent, name, S_IFREG | 0644, 0);
        require(made == 0, "cannot make " + node.name + ": " + std::strerror(errno));
        if (i + 1 < tree.size() && tree[i + 1].depth > node.depth) {
            open_levels.push_back(::openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
            require(open_levels.back() >= 0, "cannot open " + node.name);
        }
    }
    for (const int level : open_levels)
        ::close(level);
}

void make_in_volume(Volume& volume, Handle folder, const Tree& tree) {
    std::vector<Handle> parents = {folder};
    std::vector<Creation> batch;
    std::vector<Result<Attributes>> results;
    // Neighbours of one depth become one batch; what holds others must be there before them.
    for (std::size_t begin = 0; begin < tree.size();) {
        const u32 depth = tree[begin].depth;
        std::size_t end = begin;
        batch.clear();
        parents.resize(depth + 1);
        while (end < tree.size() && tree[end].depth == depth) {
            const u32 mode = tree[end].is_directory ? S_IFDIR | 0755 : S_IFREG | 0644;
            batch.push_back({parents.back(), tree[end].name, {.mode = mode}});
            ++end;
        }
        results.assign(batch.size(), Errc::io);
        volume.create_many({}, batch, results);
        for (const Result<Attributes>& result : results)
            require(bool(result), "cannot make the tree in the volume");
        if (end < tree.size() && tree[end].depth > depth)
            parents.push_back((*results.back()).handle);
        begin = end;
    }
}

namespace {

void remove_below(int directory) {
    DIR* stream = ::fdopendir(directory);
    require(stream != nullptr, "cannot read a directory");
    while (const dirent* entry = ::readdir(stream)) {
        const char* name = entry->d_name;
        if (std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0) continue;
        const bool is_directory = entry->d_type == DT_DIR;
        if (is_directory) {
            remove_below(::openat(directory, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        }
        require(::unlinkat(directory, name, is_directory ? AT_REMOVEDIR : 0) == 0,
                std::string("cannot remove ") + name);
    }
    ::closedir(stream);
}

}  // namespace

void remove_by_loop(const std::string& folder, const std::string& name) {
    const std::string path = folder + "/" + name;
    if (::unlink(path.c_str()) == 0) return;
    remove_below(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    require(::rmdir(path.c_str()) == 0, "cannot remove " + path);
}

}  // namespace warren::bench
