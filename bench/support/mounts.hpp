// SPDX-License-Identifier: Apache-2.0
// What is mounted for the measurements through the kernel: a Warren volume by its own daemon, and
// libfuse's passthrough over a directory as the peer that does the least.
//
// Invariant: a mount is gone, and its daemon has ended, when its object goes.
#pragma once

#include <functional>
#include <string>

#include "warren/volume.hpp"

namespace warren::bench {

/// The program under test: the environment's WARREN, else bin/warren beside the bench folder.
std::string warren_program();

/// A Warren volume in a file of `folder`, mounted by `warren mount`.
class WarrenMount {
 public:
    /// Makes the volume; mount() must follow.
    WarrenMount(const std::string& folder, u64 size_bytes);
    /// Lets `work` create in the volume what is measured later, before it is mounted.
    void fill(const std::function<void(Volume&)>& work) const;
    ~WarrenMount();
    WarrenMount(const WarrenMount&) = delete;
    WarrenMount& operator=(const WarrenMount&) = delete;
    /// `engine`: what runs the operations; empty: the program's choice.
    void mount(const std::string& engine = {});
    /// With these options of `warren mount -o`; `before` are words to start the program with.
    void mount_with(const std::string& options, const std::vector<std::string>& before = {});
    void unmount();
    const std::string& path() const { return path_; }
    const std::string& image() const { return image_; }

 private:
    std::string image_;
    std::string path_;
    bool mounted_ = false;
};

/// Whether the kernel knows the names and inodes below a path when a measurement begins.
enum class Names { cached, not_cached };

/// Brings the kernel into that state: walks over all of `path`, or drops all caches.
void prepare_names(Names names, const std::string& path);

/// The suffix of a subject's name: nothing, or ", not cached".
std::string suffix_of(Names names);

/// libfuse's example passthrough_ll over a directory, compiled from the copy that Debian's
/// libfuse3-dev brings, with its fastest options: everything cached, writeback, a descriptor of
/// /dev/fuse for each thread. `checked`: the kernel checks permissions, as it does for Warren and
/// must where several users meet; every change of a directory then costs one more request.
class Passthrough {
 public:
    Passthrough(const std::string& folder, const std::string& source, bool checked);
    ~Passthrough();
    Passthrough(const Passthrough&) = delete;
    Passthrough& operator=(const Passthrough&) = delete;
    const std::string& path() const { return path_; }

 private:
    std::string path_;
};

}  // namespace warren::bench
