// SPDX-License-Identifier: Apache-2.0
// All but the requests come from /proc, see proc(5). The times of threads there are exact, those of
// processes are put together from ticks.
#include "bench/support/daemon_counts.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "apps/fuse/control.hpp"
#include "bench/support/report.hpp"

namespace warren::bench {

namespace {

namespace files = std::filesystem;

/// The number behind `name` in a file of lines "name: number".
u64 number_of(const files::path& path, const std::string& name) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with(name + ":")) return std::stoull(line.substr(name.size() + 1));
    }
    die("no " + name + " in " + path.string());
}

/// The tenth field of /proc/PID/stat; the second one may hold anything, in parentheses.
u64 page_faults_of(const files::path& process) {
    std::string text;
    std::getline(std::ifstream(process / "stat"), text);
    std::istringstream fields(text.substr(text.rfind(')') + 1));
    std::string skipped;
    for (int field = 3; field < 10; ++field)
        fields >> skipped;
    u64 faults = 0;
    fields >> faults;
    return faults;
}

}  // namespace

DaemonCounts daemon_counts(const std::string& path) {
    auto connection = fuse::ControlConnection::for_path(path);
    require(connection.has_value(), "no daemon answers for " + path);
    fuse::MountInfo info;
    require(connection->info(info) == Errc::ok, "the daemon has gone");
    const files::path process = "/proc/" + std::to_string(info.process);
    DaemonCounts counts;
    counts.requests = info.requests;
    counts.read_bytes = number_of(process / "io", "read_bytes");
    counts.written_bytes = number_of(process / "io", "write_bytes");
    counts.page_faults = page_faults_of(process);
    for (const files::directory_entry& thread : files::directory_iterator(process / "task")) {
        const files::path status = thread.path() / "status";
        counts.switches += number_of(status, "voluntary_ctxt_switches") +
                           number_of(status, "nonvoluntary_ctxt_switches");
        double nanoseconds = 0;
        std::ifstream(thread.path() / "schedstat") >> nanoseconds;
        counts.cpu_seconds += nanoseconds * 1e-9;
    }
    return counts;
}

DaemonCounts counted_since(const DaemonCounts& before, const DaemonCounts& now) {
    return {now.requests - before.requests,           now.read_bytes - before.read_bytes,
            now.written_bytes - before.written_bytes, now.page_faults - before.page_faults,
            now.switches - before.switches,           now.cpu_seconds - before.cpu_seconds};
}

}  // namespace warren::bench
