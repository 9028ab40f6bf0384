// SPDX-License-Identifier: Apache-2.0
// Both daemons put themselves into the background once the mount answers.
#include "bench/support/mounts.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "bench/support/places.hpp"
#include "bench/support/report.hpp"

namespace warren::bench {

namespace {

constexpr const char* example = "/usr/share/doc/libfuse3-dev/examples/passthrough_ll.c";

}  // namespace

std::string warren_program() {
    if (const char* named = std::getenv("WARREN")) return named;
    const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
    return (self.parent_path().parent_path() / "bin" / "warren").string();
}

WarrenMount::WarrenMount(const std::string& folder, u64 size_bytes)
    : image_(folder + "/mounted.img"), path_(folder + "/warren") {
    std::filesystem::create_directory(path_);
    FormatOptions format;
    format.size_bytes = size_bytes;
    const Failure failure = make_volume(image_, format);
    require(failure.code == Errc::ok, failure.message);
}

void WarrenMount::fill(const std::function<void(Volume&)>& work) const {
    Failure failure;
    const std::unique_ptr<Volume> volume = Volume::open(image_, {}, failure);
    require(volume != nullptr, failure.message);
    work(*volume);
    require(volume->close() == Errc::ok, "cannot close the volume");
}

void WarrenMount::mount(const std::string& engine) {
    mount_with(engine.empty() ? "" : "engine=" + engine);
}

void WarrenMount::mount_with(const std::string& options, const std::vector<std::string>& before) {
    std::vector<std::string> words = before;
    words.insert(words.end(), {warren_program(), "mount"});
    if (!options.empty()) words.insert(words.end(), {"-o", options});
    words.insert(words.end(), {image_, path_});
    run_or_die(words);
    mounted_ = true;
}

void WarrenMount::unmount() {
    if (mounted_) run_program({warren_program(), "umount", path_});
    mounted_ = false;
}

WarrenMount::~WarrenMount() {
    unmount();
}

void prepare_names(Names names, const std::string& path) {
    drop_caches(2);
    // What the kernel forgets it tells the daemon afterwards.
    ::usleep(300'000);
    if (names == Names::cached) run_or_die({"find", path, "-size", "+1"});
}

std::string suffix_of(Names names) {
    return names == Names::cached ? "" : ", not cached";
}

Passthrough::Passthrough(const std::string& folder, const std::string& source, bool checked)
    : path_(folder + (checked ? "/checked" : "/passthrough")) {
    std::filesystem::create_directory(path_);
    const std::string program = path_ + "_ll";
    require(std::filesystem::exists(example), std::string(example) + " is not there");
    run_or_die({"sh", "-c",
                std::string("cc -O2 -o ") + program + " " + example +
                    " $(pkg-config fuse3 --cflags --libs)"});
    const std::string options = "source=" + source + ",cache=always,writeback,clone_fd";
    run_or_die({program, "-o", options + (checked ? ",default_permissions" : ""), path_});
}

Passthrough::~Passthrough() {
    run_program({"fusermount3", "-u", path_});
}

}  // namespace warren::bench
