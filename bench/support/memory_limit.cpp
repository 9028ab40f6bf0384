// SPDX-License-Identifier: Apache-2.0
// A program moves itself into the group before it becomes what it is to be, so that nothing of it
// is charged elsewhere.
#include "bench/support/memory_limit.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "bench/support/report.hpp"

namespace warren::bench {

namespace {

namespace files = std::filesystem;

const files::path version_1 = "/sys/fs/cgroup/memory";
const files::path version_2 = "/sys/fs/cgroup";

bool has_version_1() {
    return files::exists(version_1 / "memory.limit_in_bytes");
}

bool has_version_2() {
    std::ifstream controllers(version_2 / "cgroup.subtree_control");
    for (std::string word; controllers >> word;) {
        if (word == "memory") return true;
    }
    return false;
}

}  // namespace

std::string MemoryLimit::why_not() {
    if (::geteuid() != 0) return "groups with a memory limit need root";
    if (has_version_1() || has_version_2()) return "";
    return "the memory controller of cgroups is not there";
}

MemoryLimit::MemoryLimit(const std::string& name, u64 bytes) {
    require(why_not().empty(), why_not());
    const bool is_first = has_version_1();
    const files::path base = is_first ? version_1 : version_2;
    path_ = (base / ("warren-bench-" + std::to_string(::getpid()) + "-" + name)).string();
    require(files::create_directory(path_), "cannot make " + path_);
    std::ofstream limit(path_ + (is_first ? "/memory.limit_in_bytes" : "/memory.max"));
    limit << bytes << std::flush;
    require(limit.good(), "cannot set the limit of " + path_);
}

MemoryLimit::~MemoryLimit() {
    // A process that has just ended leaves the group a moment later.
    for (int i = 0; i < 100 && ::rmdir(path_.c_str()) != 0; ++i)
        ::usleep(20'000);
}

std::vector<std::string> MemoryLimit::words() const {
    return {"sh", "-c", "echo $$ > '" + path_ + "/cgroup.procs' && exec \"$@\"", "sh"};
}

std::vector<std::string> MemoryLimit::with(const std::vector<std::string>& program) const {
    std::vector<std::string> all = words();
    all.insert(all.end(), program.begin(), program.end());
    return all;
}

}  // namespace warren::bench
