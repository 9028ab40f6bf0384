// SPDX-License-Identifier: Apache-2.0
// Means of many operations; the names that are looked up are spread over the directory's blocks.
#include "apps/warren/measure.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

#include "apps/warren/location.hpp"
#include "apps/warren/units.hpp"
#include "base/last_error.hpp"
#include "base/random.hpp"
#include "base/temporary_file.hpp"

namespace warren::cli {

namespace {

constexpr u64 volume_size = 256 * mib;
constexpr u64 measured_files = 10000;
constexpr u64 lookups_max = 100000;
constexpr u64 commands_max = 10000;
constexpr double time_max_ns = 3e8;  // for look-ups, and again for commands
constexpr u64 commits = 20;
constexpr u64 round_trips = 1000;

class Stopwatch {
 public:
    double nanoseconds() const {
        const auto passed = std::chrono::steady_clock::now() - start_;
        return static_cast<double>(
            std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count());
    }

 private:
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::string file_name(u64 number) {
    return "file-" + std::to_string(number);
}

Errc measure_commits(Volume& volume, const Caller& caller, Handle directory, Measured& measured) {
    double total = 0;
    for (u64 round = 0; round < commits; ++round) {
        const std::string name = "commit-" + std::to_string(round);
        const Result<Attributes> made = volume.create(caller, directory, name, {});
        if (!made) return made.code();
        const Stopwatch watch;
        WARREN_TRY(volume.sync());
        total += watch.nanoseconds();
    }
    measured.commit_ns = total / commits;
    return Errc::ok;
}

Errc measure_lookups(Volume& volume, const Caller& caller, Handle directory, Measured& measured) {
    Random random(1);
    const Stopwatch looking;
    u64 lookups = 0;
    while (lookups < lookups_max && looking.nanoseconds() < time_max_ns) {
        for (u64 i = 0; i < 100; ++i, ++lookups) {
            WARREN_LET(found,
                       volume.lookup(caller, directory, file_name(random.below(measured_files))));
        }
    }
    measured.lookup_ns = looking.nanoseconds() / static_cast<double>(lookups);
    return Errc::ok;
}

Errc measure_commands(Volume& volume, Handle directory, Measured& measured) {
    std::vector<double> times;
    const Stopwatch all;
    while (times.size() < commands_max && all.nanoseconds() < time_max_ns) {
        const Stopwatch one;
        WARREN_LET(found, volume.attributes(directory));
        times.push_back(one.nanoseconds());
    }
    std::sort(times.begin(), times.end());
    measured.command_ns = times[times.size() / 2];
    measured.slow_command_ns = times[times.size() * 99 / 100];
    return Errc::ok;
}

Errc measure_operations(Volume& volume, Measured& measured) {
    const Caller caller = command_caller();
    CreateOptions directory_options;
    directory_options.mode = 0040755;
    WARREN_LET(directory, volume.create(caller, volume.root(), "tree", directory_options));
    measured.files = measured_files;
    const Stopwatch creating;
    for (u64 number = 0; number < measured_files; ++number) {
        const Result<Attributes> made =
            volume.create(caller, directory->handle, file_name(number), {});
        if (!made) return made.code();
    }
    measured.create_ns = creating.nanoseconds() / measured_files;

    WARREN_TRY(measure_lookups(volume, caller, directory->handle, measured));
    WARREN_TRY(measure_commands(volume, directory->handle, measured));
    WARREN_TRY(volume.sync());
    WARREN_TRY(measure_commits(volume, caller, volume.root(), measured));
    Removal removal;
    const Stopwatch removing;
    WARREN_TRY(volume.remove_tree(caller, volume.root(), "tree", removal));
    measured.remove_ns = removing.nanoseconds() / measured_files;
    return Errc::ok;
}

}  // namespace

Failure measure_volume(const std::string& directory, EngineChoice engine, Measured& measured) {
    TemporaryFile file;
    if (const Errc code = file.make(directory); code != Errc::ok) {
        return {code, "no file can be made in " + directory};
    }
    const std::string path = file.path();
    FormatOptions format;
    format.size_bytes = volume_size;
    format.force = true;
    Failure failure = make_volume(path, format);
    std::unique_ptr<Volume> volume;
    if (failure.code == Errc::ok) {
        const Stopwatch opening;
        volume = Volume::open(path, {.engine = engine}, failure);
        measured.open_ns = opening.nanoseconds();
    }
    // The volume works on the open file: without a name, nothing remains if this process is killed.
    file.forget_name();
    if (!volume) return failure;
    const Errc code = measure_operations(*volume, measured);
    const Errc closed = volume->close();
    failure.code = code != Errc::ok ? code : closed;
    if (failure.code != Errc::ok) failure.message = "the measurement failed in " + path;
    return failure;
}

Errc measure_mount(const std::string& path, fuse::ControlConnection& connection,
                   MountMeasured& measured) {
    const int directory = ::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return last_error();
    // Names that were never looked up, so that the kernel cannot have them cached.
    const std::string stem = ".warren-doctor-" + std::to_string(::getpid()) + "-";
    const Stopwatch looking;
    struct stat found {};
    for (u64 round = 0; round < round_trips; ++round) {
        const std::string name = stem + std::to_string(round);
        ::fstatat(directory, name.c_str(), &found, AT_SYMLINK_NOFOLLOW);
    }
    measured.lookup_ns = looking.nanoseconds() / round_trips;
    ::close(directory);
    const Stopwatch asking;
    fuse::MountInfo info;
    for (u64 round = 0; round < round_trips; ++round)
        WARREN_TRY(connection.info(info));
    measured.command_ns = asking.nanoseconds() / round_trips;
    return Errc::ok;
}

std::string long_time(double nanoseconds) {
    static constexpr const char* units[] = {"ns", "us", "ms", "s"};
    size_t unit = 0;
    while (nanoseconds >= 999.5 && unit < 3) {
        nanoseconds /= 1000;
        ++unit;
    }
    char text[48];
    std::snprintf(text, sizeof text, "%.3g %s", nanoseconds, units[unit]);
    return text;
}

std::string rate_text(double nanoseconds) {
    const double rate = nanoseconds > 0 ? 1e9 / nanoseconds : 0;
    return long_time(nanoseconds) + " each, " + grouped(static_cast<u64>(rate)) + " a second";
}

}  // namespace warren::cli
