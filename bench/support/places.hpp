// SPDX-License-Identifier: Apache-2.0
// Where things are measured: a directory on tmpfs, an ext4 on a loop device, a Warren volume; and
// the programs that are measured there.
//
// Invariant: what a place made (files, mounts, loop devices) is gone with it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "warren/volume.hpp"

namespace warren::bench {

/// Runs a program to its end and discards its output; returns its exit code.
int run_program(const std::vector<std::string>& words);
/// Whether a program of that name is found in $PATH.
bool is_installed(const std::string& program);
/// Runs a program to its end; the program ends if it fails.
void run_or_die(const std::vector<std::string>& words);
/// How long a program took, and how long it had a core.
struct Took {
    double seconds = 0;
    double cpu_seconds = 0;     // exactly
    double system_seconds = 0;  // of that in the kernel; to a tick, 4 ms on most systems
};
/// Runs a program to its end and discards its output; exits this program if it fails.
Took time_program(const std::vector<std::string>& words);
/// The output of a program; exits this program if it fails.
std::string output_of(const std::vector<std::string>& words);

/// A new empty directory below `base`, removed with all in it at the end.
class Scratch {
 public:
    explicit Scratch(const std::string& base);
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    const std::string& path() const { return path_; }

 private:
    std::string path_;
};

/// ext4 with its default options on a loop device over a file in a directory. Needs root.
class LoopExt4 {
 public:
    LoopExt4(const std::string& folder, u64 size_bytes, u64 inodes);
    ~LoopExt4();
    LoopExt4(const LoopExt4&) = delete;
    LoopExt4& operator=(const LoopExt4&) = delete;
    const std::string& path() const { return path_; }
    const std::string& image() const { return image_; }
    /// `direct`: the loop device uses direct I/O.
    void mount(bool direct = false);
    void unmount();
    /// Everything durable.
    void sync() const;

 private:
    std::string image_;
    std::string path_;
    bool mounted_ = false;
};

/// A Warren volume in a file of a directory, open.
class OpenVolume {
 public:
    OpenVolume(const std::string& folder, u64 size_bytes,
               EngineChoice engine = EngineChoice::automatic);
    ~OpenVolume();
    OpenVolume(const OpenVolume&) = delete;
    OpenVolume& operator=(const OpenVolume&) = delete;
    Volume& operator*() const { return *volume_; }
    Volume* operator->() const { return volume_.get(); }
    const std::string& image() const { return image_; }

 private:
    std::string image_;
    std::unique_ptr<Volume> volume_;
};

/// Writes back dirty data and drops the kernel's cached names and inodes (2) or pages (1).
void drop_caches(int what);

/// "--name VALUE" among the arguments of the program, or `otherwise`.
u64 option(int argument_count, char** arguments, const std::string& name, u64 otherwise);
std::string text_option(int argument_count, char** arguments, const std::string& name,
                        const char* otherwise);

/// Lets the program open many files.
void raise_open_file_limit();

}  // namespace warren::bench
