// SPDX-License-Identifier: Apache-2.0
// Names are relative to an open directory, so that no path above it is walked each time.
#include "bench/support/single_operations.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "bench/support/report.hpp"

namespace warren::bench {

namespace {

using SmallBlock = std::array<char, 4096>;

/// What small files hold: no zeros, which a file system could leave out.
SmallBlock filled_block() {
    SmallBlock block{};
    block.fill('s');
    return block;
}

SmallBlock small_block = filled_block();

class Folder {
 public:
    explicit Folder(const std::string& path)
        : descriptor_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
        require(descriptor_ >= 0, "cannot open " + path);
    }
    ~Folder() { ::close(descriptor_); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    /// Seconds of `call(directory, name)` for `count` names; it answers whether all went well.
    template <class Call>
    double each(u64 count, const char* stem, const Call& call) const {
        std::array<char, 40> name{};
        return time_of([&] {
            for (u64 i = 0; i < count; ++i) {
                std::snprintf(name.data(), name.size(), "%s%llu", stem,
                              static_cast<unsigned long long>(i));
                require(call(descriptor_, name.data()),
                        std::string(name.data()) + ": " + std::strerror(errno));
            }
        });
    }

 private:
    int descriptor_;
};

bool close_good(int file) {
    return file >= 0 && ::close(file) == 0;
}

double create_files(const std::string& folder, u64 count) {
    return Folder(folder).each(count, "file", [](int directory, const char* name) {
        return close_good(::openat(directory, name, O_CREAT | O_EXCL | O_WRONLY, 0644));
    });
}

double stat_files(const std::string& folder, u64 count) {
    return Folder(folder).each(count, "file", [](int directory, const char* name) {
        struct stat facts {};
        return ::fstatat(directory, name, &facts, AT_SYMLINK_NOFOLLOW) == 0;
    });
}

double open_files(const std::string& folder, u64 count) {
    return Folder(folder).each(count, "file", [](int directory, const char* name) {
        return close_good(::openat(directory, name, O_RDONLY));
    });
}

double write_files(const std::string& folder, u64 count) {
    return Folder(folder).each(count, "file", [](int directory, const char* name) {
        const int file = ::openat(directory, name, O_WRONLY);
        return file >= 0 && ::write(file, small_block.data(), small_block.size()) == 4096 &&
               ::close(file) == 0;
    });
}

double read_files(const std::string& folder, u64 count) {
    return Folder(folder).each(count, "file", [](int directory, const char* name) {
        const int file = ::openat(directory, name, O_RDONLY);
        return file >= 0 && ::read(file, small_block.data(), small_block.size()) == 4096 &&
               ::close(file) == 0;
    });
}

double list_files(const std::string& folder, u64 count) {
    return time_of([&] {
        DIR* stream = ::opendir(folder.c_str());
        require(stream != nullptr, "cannot read " + folder);
        u64 seen = 0;
        while (::readdir(stream) != nullptr)
            ++seen;
        ::closedir(stream);
        require(seen == count + 2, "names are missing in " + folder);
    });
}

double rename_files(const std::string& folder, u64 count) {
    return Folder(folder).each(count, "file", [](int directory, const char* name) {
        const std::string moved = std::string("moved") + (name + 4);
        return ::renameat(directory, name, directory, moved.c_str()) == 0;
    });
}

double unlink_files(const std::string& folder, u64 count) {
    return Folder(folder).each(count, "moved", [](int directory, const char* name) {
        return ::unlinkat(directory, name, 0) == 0;
    });
}

double make_directories(const std::string& folder, u64 count) {
    return Folder(folder).each(count, "directory", [](int directory, const char* name) {
        return ::mkdirat(directory, name, 0755) == 0;
    });
}

double remove_directories(const std::string& folder, u64 count) {
    return Folder(folder).each(count, "directory", [](int directory, const char* name) {
        return ::unlinkat(directory, name, AT_REMOVEDIR) == 0;
    });
}

}  // namespace

const std::vector<SingleOperation>& single_operations() {
    static const std::vector<SingleOperation> all = {
        {"create + close", create_files},
        {"stat after create", stat_files},
        {"stat, not cached", stat_files, true},
        {"stat, cached", stat_files},
        {"open + close", open_files},
        {"open + write 4 KiB + close", write_files},
        {"open + read 4 KiB + close", read_files},
        {"open + read 4 KiB + close, not cached", read_files, true},
        {"list the directory", list_files},
        {"list the directory, not cached", list_files, true},
        {"rename", rename_files},
        {"unlink", unlink_files},
        {"mkdir", make_directories},
        {"rmdir", remove_directories},
    };
    return all;
}

double write_stream(const std::string& path, u64 size_bytes) {
    std::vector<char> block(mib, 'w');
    return time_of([&] {
        const int file = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0644);
        require(file >= 0, "cannot make " + path);
        for (u64 done = 0; done < size_bytes; done += block.size()) {
            require(::write(file, block.data(), block.size()) == static_cast<ssize_t>(mib),
                    "cannot write " + path);
        }
        require(::close(file) == 0, "cannot close " + path);
    });
}

double read_stream(const std::string& path) {
    std::vector<char> block(mib);
    return time_of([&] {
        const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
        require(file >= 0, "cannot open " + path);
        ssize_t got = 1;
        while (got > 0)
            got = ::read(file, block.data(), block.size());
        require(got == 0, "cannot read " + path);
        ::close(file);
    });
}

double make_synced_files(const std::string& folder, u64 count) {
    return Folder(folder).each(count, "synced", [](int directory, const char* name) {
        const int file = ::openat(directory, name, O_CREAT | O_EXCL | O_WRONLY, 0644);
        return file >= 0 && ::write(file, small_block.data(), small_block.size()) == 4096 &&
               ::fsync(file) == 0 && ::close(file) == 0;
    });
}

}  // namespace warren::bench
