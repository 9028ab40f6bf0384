// SPDX-License-Identifier: Apache-2.0
// Only calls of the C library: the walk is under test.
#include "tests/support/folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>

namespace warren::walk {

namespace {

void require(bool good, const std::string& what) {
    if (!good) throw std::system_error(errno, std::generic_category(), what);
}

void remove_below(int above, const char* name) {
    if (::unlinkat(above, name, 0) == 0) return;
    if (::fchmodat(above, name, 0700, 0) != 0) return;
    const int own = ::openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (own < 0) return;
    DIR* stream = ::fdopendir(own);
    std::vector<std::string> names;
    while (const dirent* entry = ::readdir(stream))
        names.emplace_back(entry->d_name);
    for (const std::string& each : names) {
        if (each != "." && each != "..") remove_below(own, each.c_str());
    }
    ::closedir(stream);
    ::unlinkat(above, name, AT_REMOVEDIR);
}

char letter_of(u32 mode) {
    static constexpr std::string_view letters = "?pc?d?b?f?l?s???";
    return letters[(mode & S_IFMT) >> 12];
}

void list_below(const std::string& path, std::vector<Listed>& all) {
    struct stat status {};
    require(::lstat(path.c_str(), &status) == 0, path);
    all.push_back({path, letter_of(status.st_mode), static_cast<u64>(status.st_size)});
    if (!S_ISDIR(status.st_mode)) return;
    DIR* stream = ::opendir(path.c_str());
    require(stream != nullptr, path);
    std::vector<std::string> names;
    while (const dirent* entry = ::readdir(stream))
        names.emplace_back(entry->d_name);
    ::closedir(stream);
    for (const std::string& name : names) {
        if (name != "." && name != "..") list_below(path + "/" + name, all);
    }
}

std::string random_name(Random& random, u32 number) {
    std::string name = std::to_string(number);
    const u64 more = random.one_in(20) ? 240 : random.below(12);
    for (u64 index = 0; index < more; ++index) {
        const char byte = static_cast<char>(1 + random.below(255));
        name += byte == '/' ? '\n' : byte;
    }
    return name;
}

}  // namespace

Folder::Folder() {
    const char* given = std::getenv("TMPDIR");
    const char* memory = ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    path_ = std::string(given == nullptr ? memory : given) + "/warren-walk-XXXXXX";
    require(::mkdtemp(path_.data()) != nullptr, path_);
}

Folder::~Folder() {
    // A chain of directories deeper than the stack allows for a recursive removal.
    const std::string command = "rm -rf '" + path_ + "'";
    if (std::system(command.c_str()) != 0) remove_below(AT_FDCWD, path_.c_str());
}

void Folder::make_directory(const std::string& name) const {
    require(::mkdir((*this / name).c_str(), 0755) == 0, name);
}

void Folder::make_file(const std::string& name, u64 size_bytes) const {
    const int file = ::open((*this / name).c_str(), O_CREAT | O_EXCL | O_WRONLY, 0644);
    require(file >= 0, name);
    require(::ftruncate(file, static_cast<off_t>(size_bytes)) == 0, name);
    ::close(file);
}

void Folder::make_link(const std::string& target, const std::string& name) const {
    require(::symlink(target.c_str(), (*this / name).c_str()) == 0, name);
}

void Folder::make_chain(const std::string& name, const std::string& step, u32 depth) const {
    make_directory(name);
    int at = ::open((*this / name).c_str(), O_RDONLY | O_DIRECTORY);
    for (u32 level = 0; level < depth; ++level) {
        require(::mkdirat(at, step.c_str(), 0755) == 0, step);
        const int next = ::openat(at, step.c_str(), O_RDONLY | O_DIRECTORY);
        ::close(at);
        at = next;
    }
    ::close(at);
}

void Folder::fill(Random& random, u32 entries) const {
    std::vector<std::string> directories = {"."};
    std::vector<std::string> files;
    for (u32 number = 0; number < entries; ++number) {
        const std::string& above = directories[random.below(directories.size())];
        const std::string name = above + "/" + random_name(random, number);
        const u64 kind = random.below(20);
        if (kind < 4) {
            make_directory(name);
            directories.push_back(name);
        } else if (kind < 6) {
            make_link(random.one_in(2) ? "." : "../nowhere", name);
        } else if (kind == 6) {
            require(::mkfifo((*this / name).c_str(), 0600) == 0, name);
        } else if (kind < 9 && !files.empty()) {
            const std::string& other = files[random.below(files.size())];
            require(::link((*this / other).c_str(), (*this / name).c_str()) == 0, name);
        } else {
            make_file(name, random.below(100000));
            files.push_back(name);
        }
    }
}

std::vector<Listed> list_tree(const std::string& root) {
    std::vector<Listed> all;
    list_below(root, all);
    std::sort(all.begin(), all.end());
    return all;
}

}  // namespace warren::walk
