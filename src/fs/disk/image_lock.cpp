// SPDX-License-Identifier: Apache-2.0
// /proc/locks names the process that took a lock. That process may have exited and left the lock to
// a child, so the descriptors of all processes are searched first, as far as this user may read
// them.
//
// No kind of lock keeps another user who may open the file from locking it: flock(2) needs no
// permission at all, and a read lock of fcntl(2), which excludes a writer's, only permission to
// read. So images are made with access for their owner alone.
#include "fs/disk/image_lock.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>

#include "base/descriptor.hpp"
#include "base/quote.hpp"
#include "warren/types.hpp"

namespace warren {
namespace {

constexpr int device_lock_tries = 20;
constexpr int file_lock_tries = 10;
constexpr long lock_wait_nanoseconds = 50'000'000;

using DirectoryStream = std::unique_ptr<DIR, int (*)(DIR*)>;

bool is_number(const char* name) {
    return *name >= '0' && *name <= '9';
}

/// Whether a descriptor of the process refers to the file `wanted` and holds an flock(2) on it.
bool holds_lock(const std::string& process, const struct stat& wanted) {
    const DirectoryStream descriptors(::opendir((process + "/fd").c_str()), ::closedir);
    while (const dirent* entry = descriptors ? ::readdir(descriptors.get()) : nullptr) {
        struct stat status {};
        if (!is_number(entry->d_name) ||
            ::fstatat(::dirfd(descriptors.get()), entry->d_name, &status, 0) != 0 ||
            status.st_dev != wanted.st_dev || status.st_ino != wanted.st_ino) {
            continue;
        }
        std::ifstream facts(process + "/fdinfo/" + entry->d_name);
        for (std::string line; std::getline(facts, line);) {
            if (line.starts_with("lock:") && line.find("FLOCK") != line.npos) return true;
        }
    }
    return false;
}

/// The /proc folder of the process that took the lock according to /proc/locks; empty if it has
/// exited.
std::string taker_of(const struct stat& wanted) {
    std::ifstream locks("/proc/locks");
    for (std::string line; std::getline(locks, line);) {
        std::istringstream words(line);
        std::string number, kind, advisory, type, process, file;
        words >> number >> kind >> advisory >> type >> process >> file;
        char expected[64];
        std::snprintf(expected, sizeof expected, "%02x:%02x:%llu", major(wanted.st_dev),
                      minor(wanted.st_dev), static_cast<unsigned long long>(wanted.st_ino));
        const std::string found = "/proc/" + process;
        if (kind == "FLOCK" && file == expected && ::access(found.c_str(), F_OK) == 0) return found;
    }
    return "";
}

std::string describe(const std::string& process) {
    std::ifstream file(process + "/comm");
    std::string command;
    std::getline(file, command);
    return "process " + process.substr(process.rfind('/') + 1) + " (" + masked(command) + ")";
}

}  // namespace

bool lock_image(int descriptor, bool is_exclusive, bool is_device) {
    const int operation = (is_exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB;
    for (int tries = is_device ? device_lock_tries : file_lock_tries;;) {
        if (::flock(descriptor, operation) == 0) return true;
        if (errno == EINTR) continue;
        if (--tries == 0) return false;
        const timespec wait{0, lock_wait_nanoseconds};
        ::nanosleep(&wait, nullptr);
    }
}

std::string lock_holder(int descriptor) {
    struct stat wanted {};
    if (::fstat(descriptor, &wanted) != 0) return "another process";
    std::string first;
    u32 more = 0;
    const DirectoryStream processes(::opendir("/proc"), ::closedir);
    while (const dirent* entry = processes ? ::readdir(processes.get()) : nullptr) {
        const std::string process = std::string("/proc/") + entry->d_name;
        if (!is_number(entry->d_name) || !holds_lock(process, wanted)) continue;
        first.empty() ? static_cast<void>(first = process) : static_cast<void>(++more);
    }
    if (first.empty()) first = taker_of(wanted);
    if (first.empty()) return "another process";
    return describe(first) + (more == 0 ? "" : " and " + std::to_string(more) + " more");
}

std::string device_claim(const std::string& path) {
    struct stat device {};
    if (::stat(path.c_str(), &device) != 0) return "";
    const std::string number =
        std::to_string(major(device.st_rdev)) + ":" + std::to_string(minor(device.st_rdev));
    std::ifstream mounts("/proc/self/mountinfo");
    for (std::string line; std::getline(mounts, line);) {
        std::istringstream words(line);
        std::string mount, above, file_system, root, point;
        words >> mount >> above >> file_system >> root >> point;
        if (file_system == number) return "mounted on " + masked(point);
    }
    const std::string folder = "/sys/dev/block/" + number + "/holders";
    const DirectoryStream holders(::opendir(folder.c_str()), ::closedir);
    while (const dirent* entry = holders ? ::readdir(holders.get()) : nullptr) {
        if (entry->d_name[0] != '.') return std::string("a part of ") + entry->d_name;
    }
    const Descriptor opened(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    return "by " + lock_holder(opened.get());
}

}  // namespace warren
