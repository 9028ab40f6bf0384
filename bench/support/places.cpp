// SPDX-License-Identifier: Apache-2.0
// Places are made with the programs an administrator would use: mkfs.ext4, mount, umount.
#include "bench/support/places.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "bench/support/report.hpp"

extern char** environ;

namespace warren::bench {

namespace {

/// Starts a program with its output going to `output`, which is closed here.
pid_t start_program(const std::vector<std::string>& words, int output) {
    std::vector<char*> pointers;
    for (const std::string& word : words)
        pointers.push_back(const_cast<char*>(word.c_str()));
    pointers.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    pid_t child = 0;
    const int failed =
        ::posix_spawnp(&child, pointers[0], &actions, nullptr, pointers.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    require(failed == 0, "cannot run " + words[0]);
    ::close(output);
    return child;
}

int exit_code_of(pid_t child) {
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

}  // namespace

int run_program(const std::vector<std::string>& words) {
    return exit_code_of(start_program(words, ::open("/dev/null", O_WRONLY | O_CLOEXEC)));
}

bool is_installed(const std::string& program) {
    return run_program({"sh", "-c", "command -v " + program}) == 0;
}

std::string output_of(const std::vector<std::string>& words) {
    std::array<int, 2> ends{};
    require(::pipe2(ends.data(), O_CLOEXEC) == 0, "cannot make a pipe");
    const pid_t child = start_program(words, ends[1]);
    std::string text;
    std::array<char, 4096> part{};
    for (ssize_t got; (got = ::read(ends[0], part.data(), part.size())) > 0;)
        text.append(part.data(), static_cast<std::size_t>(got));
    ::close(ends[0]);
    require(exit_code_of(child) == 0, "failed: " + words[0]);
    return text;
}

namespace {

[[noreturn]] void tell_of_failure(const std::vector<std::string>& words) {
    std::string line;
    for (const std::string& word : words)
        line += word + " ";
    die("failed: " + line);
}

double seconds_of(const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

}  // namespace

void run_or_die(const std::vector<std::string>& words) {
    if (run_program(words) != 0) tell_of_failure(words);
}

Took time_program(const std::vector<std::string>& words) {
    const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    const double start = now_seconds();
    const pid_t child = start_program(words, nowhere);
    int status = 0;
    rusage used{};
    ::wait4(child, &status, 0, &used);
    Took took;
    took.seconds = now_seconds() - start;
    took.cpu_seconds = seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
    took.system_seconds = seconds_of(used.ru_stime);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) tell_of_failure(words);
    return took;
}

Scratch::Scratch(const std::string& base) : path_(base + "/warren-bench-XXXXXX") {
    require(::mkdtemp(path_.data()) != nullptr, "cannot make a directory in " + base);
}

Scratch::~Scratch() {
    run_program({"rm", "-rf", path_});
}

LoopExt4::LoopExt4(const std::string& folder, u64 size_bytes, u64 inodes)
    : image_(folder + "/ext4.img"), path_(folder + "/ext4") {
    require(::geteuid() == 0, "ext4 on a loop device needs root");
    std::filesystem::create_directory(path_);
    std::ofstream(image_).close();
    std::filesystem::resize_file(image_, size_bytes);
    // Inode tables made in the background would write while others are measured.
    run_or_die({"mkfs.ext4", "-q", "-F", "-N", std::to_string(inodes), "-E",
                "lazy_itable_init=0,lazy_journal_init=0", image_});
    mount();
}

LoopExt4::~LoopExt4() {
    unmount();
}

void LoopExt4::mount(bool direct) {
    run_or_die({"mount", "-o", "loop", image_, path_});
    mounted_ = true;
    if (!direct) return;
    std::string device = output_of({"losetup", "--noheadings", "--output", "NAME", "-j", image_});
    device.resize(device.find_last_not_of(" \n") + 1);
    run_or_die({"losetup", "--direct-io=on", device});
}

void LoopExt4::unmount() {
    if (mounted_) run_program({"umount", path_});
    mounted_ = false;
}

void LoopExt4::sync() const {
    const int directory = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    require(directory >= 0 && ::syncfs(directory) == 0, "cannot sync ext4");
    ::close(directory);
}

OpenVolume::OpenVolume(const std::string& folder, u64 size_bytes, EngineChoice engine)
    : image_(folder + "/warren.img") {
    FormatOptions format;
    format.size_bytes = size_bytes;
    Failure failure = make_volume(image_, format);
    require(failure.code == Errc::ok, failure.message);
    volume_ = Volume::open(image_, {.engine = engine}, failure);
    require(volume_ != nullptr, failure.message);
}

OpenVolume::~OpenVolume() {
    require(volume_->close() == Errc::ok, "cannot close the volume");
}

void drop_caches(int what) {
    ::sync();
    std::ofstream("/proc/sys/vm/drop_caches") << what << "\n";
}

std::string text_option(int argument_count, char** arguments, const std::string& name,
                        const char* otherwise) {
    for (int i = 1; i + 1 < argument_count; ++i)
        if (arguments[i] == "--" + name) return arguments[i + 1];
    return otherwise;
}

u64 option(int argument_count, char** arguments, const std::string& name, u64 otherwise) {
    const std::string given = text_option(argument_count, arguments, name, "");
    return given.empty() ? otherwise : std::strtoull(given.c_str(), nullptr, 10);
}

void raise_open_file_limit() {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace warren::bench
