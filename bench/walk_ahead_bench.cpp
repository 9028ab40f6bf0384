// SPDX-License-Identifier: Apache-2.0
// When does it pay to ask for statuses ahead, by io_uring? `warren walk --stat` with --ask-ahead
// never, auto and always, beside find and the same with 64 threads: on a file system whose every
// look-up takes as long as over a network (a FUSE mount of this program; needs fusermount3 or
// root), and on tmpfs with everything cached, where it does not.
//
//   walk_ahead_bench [--runs N] [--files N] [--delay-us N] [--cached-files N]
//   5, 8000, 200 and 100000
#define FUSE_USE_VERSION 31
#include <fuse.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "bench/support/places.hpp"
#include "bench/support/report.hpp"
#include "bench/support/rows.hpp"
#include "bench/support/walk_trees.hpp"

using namespace warren;
using namespace warren::bench;

namespace {

constexpr u64 files_each = 1000;  // in a directory
u64 directories = 0;
u64 delay_us = 0;

int slow_attributes(const char* path, struct stat* status, fuse_file_info* /*file*/) {
    ::usleep(static_cast<useconds_t>(delay_us));
    *status = {};
    const bool is_file = std::strrchr(path, '/') != path;
    status->st_mode = is_file ? S_IFREG | 0644 : S_IFDIR | 0755;
    status->st_nlink = is_file ? 1 : 2;
    status->st_size = is_file ? 1000 : 0;
    return 0;
}

int slow_names(const char* path, void* target, fuse_fill_dir_t fill, off_t /*offset*/,
               fuse_file_info* /*file*/, fuse_readdir_flags /*flags*/) {
    const bool is_root = path[1] == '\0';
    struct stat status {};
    status.st_mode = is_root ? S_IFDIR : S_IFREG;
    for (u64 number = 0; number < (is_root ? directories : files_each); ++number) {
        const std::string name = (is_root ? "d" : "f") + std::to_string(number);
        fill(target, name.c_str(), &status, 0, static_cast<fuse_fill_dir_flags>(0));
    }
    return 0;
}

void* begin_slow(fuse_conn_info* connection, fuse_config* config) {
    connection->want &= ~static_cast<unsigned>(FUSE_CAP_READDIRPLUS);
    config->entry_timeout = 0;
    config->attr_timeout = 1;
    config->use_ino = 0;
    return nullptr;
}

/// The file system that answers slowly, during its lifetime.
class SlowMount {
 public:
    explicit SlowMount(std::string path) : path_(std::move(path)) {
        child_ = ::fork();
        require(child_ >= 0, "no process for the mount");
        if (child_ == 0) ::_exit(serve());
        for (u32 attempt = 0; ::access((path_ + "/d0").c_str(), F_OK) != 0; ++attempt) {
            require(attempt < 500, "the slow file system cannot be mounted");
            ::usleep(10'000);
        }
    }
    ~SlowMount() {
        ::kill(child_, SIGTERM);
        ::waitpid(child_, nullptr, 0);
    }
    SlowMount(const SlowMount&) = delete;
    SlowMount& operator=(const SlowMount&) = delete;

 private:
    int serve() {
        fuse_operations operations{};
        operations.getattr = slow_attributes;
        operations.readdir = slow_names;
        operations.init = begin_slow;
        std::string words[] = {"slow", "-f", "-o", "max_threads=200", path_};
        char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(),
                             words[4].data()};
        return ::fuse_main(5, arguments, &operations, nullptr);
    }

    std::string path_;
    pid_t child_ = -1;
};

std::vector<std::string> walk(const std::string& root, const char* ahead, const char* threads) {
    const char* given = ::getenv("WARREN");
    return {given == nullptr ? "build/bin/warren" : given,
            "walk",
            "--stat",
            "--type",
            "f",
            "--threads",
            threads,
            "--ask-ahead",
            ahead,
            root};
}

void measure(const std::string& scenario, const std::string& root, u64 runs, u64 files,
             Report& report) {
    const std::pair<std::string, std::vector<std::string>> subjects[] = {
        {"find -printf path and size", {"find", root, "-type", "f", "-printf", "%p %s\\n"}},
        {"never, 2 threads", walk(root, "never", "2")},
        {"auto, 2 threads", walk(root, "auto", "2")},
        {"always, 2 threads", walk(root, "always", "2")},
        {"never, 64 threads", walk(root, "never", "64")},
    };
    report.set_reference(scenario, subjects[0].first);
    for (const auto& [label, words] : subjects)
        run_or_die(words);
    for (u64 run = 0; run < runs; ++run) {
        for (const auto& [label, words] : subjects)
            report.add(scenario, label, time_of([&] { run_or_die(words); }),
                       static_cast<double>(files));
    }
}

}  // namespace

int main(int count, char** arguments) {
    const u64 runs = option(count, arguments, "runs", 5);
    const u64 files = option(count, arguments, "files", 8000);
    const u64 cached = option(count, arguments, "cached-files", 100000);
    delay_us = option(count, arguments, "delay-us", 200);
    directories = std::max<u64>(1, files / files_each);
    Report report("walk_ahead_bench", count, arguments);
    const Scratch scratch("/dev/shm");
    {
        const SlowMount mount(scratch.path());
        const std::string scenario = "a status takes " + with_commas(delay_us) + " us";
        measure(scenario, scratch.path(), runs, directories * files_each, report);
    }
    const std::string cached_root = scratch.path() + "/tree";
    make_mixed_tree(cached_root, cached);
    measure("tmpfs, cached", cached_root, runs, cached, report);
    return report.finish();
}
