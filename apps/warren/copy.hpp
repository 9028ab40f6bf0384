// SPDX-License-Identifier: Apache-2.0
// Copies files and trees between directories of the host and of volumes, on several threads.
//
// Invariant: a directory gets its final mode and times after everything in it is done. Hard links
// within the source become hard links to one new inode. There is no recursion, so trees may have
// any depth; a queued task keeps open only the directories above it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/warren/directory.hpp"
#include "apps/warren/progress.hpp"
#include "apps/warren/reflink.hpp"

namespace warren::cli {

struct CopyOptions {
    bool recursive = false;
    bool preserve = false;     // mode, owner, times, extended attributes
    bool keep_links = false;   // hard links stay hard links
    bool follow_links = true;  // copy the target of a symbolic link rather than the link
    bool no_clobber = false;
    bool update = false;  // copy only files that are newer than the target
    bool force = false;
    bool verbose = false;
    Reflink reflink = Reflink::automatic;
    u32 threads = 1;
};

/// One operand: what to copy, and the name of the copy.
struct CopyOperand {
    std::shared_ptr<Directory> source;
    std::string source_prefix;  // precedes names in messages
    std::string source_name;
    std::shared_ptr<Directory> target;
    std::string target_prefix;
    std::string target_name;
};

class Copier {
 public:
    Copier(const CopyOptions& options, Progress& progress)
        : options_(options), progress_(progress) {}

    void add(const CopyOperand& operand);
    /// Runs all copies that were added; false if anything could not be copied (errors were
    /// printed).
    bool run();

 private:
    /// A directory being copied or, without a parent, the directory that an operand is relative to.
    struct Node {
        std::shared_ptr<Node> parent;
        std::shared_ptr<Directory> source;
        std::shared_ptr<Directory> target;
        std::string source_name;  // in the parent; without one: precedes names in messages
        std::string target_name;
        Facts facts;         // of the source
        Facts first_target;  // of the operand's own target directory
        bool created = false;
        std::atomic<u32> pending{1};  // this directory and its unfinished entries
    };
    struct Task {
        std::shared_ptr<Node> parent;
        std::string name;
        std::string target_name;  // empty: same as source_name
        const std::string& new_name() const { return target_name.empty() ? name : target_name; }
    };
    /// What already exists at the target.
    struct Existing {
        bool found = false;
        Facts facts;
        /// Whether it takes bytes as a stream, like a device or a pipe.
        bool is_stream() const {
            return found && !facts.is_regular() && !facts.is_directory() && !facts.is_link();
        }
    };
    struct LinkTarget {
        bool ready = false;
        std::string path;
    };
    struct Ends {
        Directory& source;
        const std::string& source_name;
        Directory& target;
        const std::string& target_name;
        std::function<std::string()> path;  // of the target, for messages
    };
    using Buffer = std::vector<std::byte>;

    static std::string path_of(const Node& node, const std::string& name,
                               std::string Node::*member);
    static std::string source_path(const Task& task);
    static std::string target_path(const Task& task);

    void work();
    void process(const Task& task, Buffer& buffer);
    void complete(std::shared_ptr<Node> node);
    void copy_directory(const Task& task, const Facts& facts, const Existing& existing);
    void push_children(const std::shared_ptr<Node>& node, std::vector<Name>& names);
    void copy_other(const Task& task, const Facts& facts, Existing existing, Buffer& buffer);
    bool copy_regular(const Task& task, const Facts& facts, const Existing& existing,
                      Buffer& buffer);
    bool copy_special(const Task& task, const Facts& facts);
    void compare_source(const Task& task, const Facts& facts, const Existing& existing);
    void make_older(const Task& task, const Facts& facts, const Existing& existing);
    bool open_target(const Task& task, const Facts& facts, const Existing& existing,
                     std::unique_ptr<OpenFile>& file);
    bool copy_data(const Task& task, const Facts& facts, OpenFile& from, OpenFile& to,
                   Buffer& buffer);
    void fail_to_share(const Task& task, Errc code);
    /// Copies [begin, end), or up to the end of the source if that comes first.
    bool copy_range(const Task& task, OpenFile& from, OpenFile& to, u64 begin, u64 end,
                    Buffer& buffer, u64& written_end);
    /// If the source's inode was copied before, makes `task` a hard link to that copy and returns
    /// true.
    bool link_to_earlier(const Task& task, const Facts& facts);
    void settle_link(const Task& task, const Facts& facts, bool copied);
    bool preserve(const Ends& ends, const Facts& facts);
    bool preserve_attributes(const Ends& ends);
    void fail(std::initializer_list<std::string_view> parts);

    CopyOptions options_;
    Progress& progress_;
    std::mutex mutex_;  // guards tasks_, busy_
    std::condition_variable wake_;
    std::vector<Task> tasks_;
    u32 busy_ = 0;
    std::mutex link_mutex_;  // guards links_
    std::condition_variable link_wake_;
    std::map<std::pair<u64, u64>, LinkTarget> links_;  // key: file system and inode of the source
    std::atomic<bool> failed_{false};
};

}  // namespace warren::cli
