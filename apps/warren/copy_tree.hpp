// SPDX-License-Identifier: Apache-2.0
// Copies trees of the host on all cores, and makes one tree equal to another (cp and sync). A file
// is written under a temporary name, gets its owner, attributes and times, and is renamed when it
// is complete; a directory gets its own attributes when everything below it is done.
//
// Invariant: no state of the tree is kept besides the results of directories, so any thread or
// process can do any part. Hard links are tracked in the target's file system: the first copy of a
// file with several names gets an additional name in a folder for links, which is removed at the
// end. Below the target no symbolic link is followed. A copy gets the times that its source had
// before the copying; a source that has changed by its end is reported.
#pragma once

#include <atomic>
#include <optional>
#include <string>
#include <vector>

#include "apps/warren/file_attributes.hpp"
#include "apps/warren/host_checkpoint.hpp"
#include "apps/warren/interrupt.hpp"
#include "apps/warren/other_tree.hpp"
#include "apps/warren/reflink.hpp"
#include "apps/warren/tally.hpp"

namespace warren::cli {

/// Where a copy gets holes: where the source has some, wherever there are zeros, nowhere.
enum class Sparse : u8 { automatic, always, never };

struct TreeCopyRules {
    bool recursive = false;
    Keeps keeps;
    bool default_modes = false;  // new files and directories get default modes
    bool keep_links = false;     // hard links stay hard links
    bool no_clobber = false;
    bool update = false;  // copy only files that are newer than the target
    bool force = false;   // replace targets that this user may not write
    bool verbose = false;
    bool verify = false;
    Reflink reflink = Reflink::automatic;
    Sparse sparse = Sparse::automatic;
    // sync
    bool mirror = false;    // make the target equal: skip equal files, replace other types
    bool contents = false;  // compare bytes, not size and time
    bool delete_others = false;
    bool dry_run = false;
    bool sums_up = false;
};

inline bool is_sparse(const struct statx& status) {
    return status.stx_blocks * 512 < status.stx_size;
}

/// The counters that the command reports.
enum CopyCount : size_t {
    copied_files,
    copied_bytes,
    made_directories,
    made_links,   // additional names of files that were copied before
    made_others,  // symbolic links, devices, pipes, ...
    removed_names
};

/// What a regular file was when its copying began.
struct Original {
    Kept kept;
    u64 size = 0;
    u64 device = 0;
    u64 inode = 0;
    timespec changed{};
};

/// State shared by all copies of one command.
struct CopyRun {
    CopyRun(const TreeCopyRules& rules_given, const WalkSetup& setup_given);

    TreeCopyRules rules;
    WalkSetup setup;
    FailureList failures;
    ChangeLimit limit;
    LineBuffers lines;
    Tally tally{"files", "bytes", "directories", "links", "others", "removed"};
    std::string mark;  // prefix of all temporary names of this run
    Reflinks reflinks;

    /// Whether to stop now without a checkpoint to resume from; incomplete files are then removed.
    bool is_cut() const { return setup.options.checkpoint.empty() && interrupted(); }
    bool is_resumed() const { return setup.options.resume; }
};

class TreeCopy {
 public:
    /// Copies `source` to the name `target`. Files with several names have a name in `links_folder`
    /// in the meantime, a directory that exists before it is used.
    TreeCopy(CopyRun& run, std::string source, std::string target, std::string links_folder);

    /// Returns false if it was interrupted and can be resumed.
    bool copy();

 private:
    /// The result of one directory; nothing in it is summed up over the tree.
    struct State {
        u64 parts;  // large files in it that are copied in parts, less those that failed
        u64 lost;   // parts that could not be copied while their temporary file stays
        u64 is_met;
        u64 is_new;
        Kept kept;
        u64 device;  // of the directory when it was visited
        u64 inode;
        u64 is_mounted_on_use;
    };
    /// What already exists at the target.
    struct Existing {
        bool found = false;
        struct stat status {};
        bool is_directory() const { return found && S_ISDIR(status.st_mode); }
        bool is_regular() const { return found && S_ISREG(status.st_mode); }
    };
    /// One name to copy.
    struct Job : Original {
        Place from;
        Place to;
        u64 special_device = 0;
        bool shared = false;  // has other names, which are to stay names of the same file
        bool has_holes = false;
        bool is_mounted_on_use = false;  // on which the kernel mounts when it is opened, as of NFS
        bool has_changed = false;        // the source, since its copying began
        Existing existing;
        std::string below;      // path relative to the root, the same in both trees
        std::string temporary;  // temporary name, in the target's directory
        Place at() const { return {to.directory, temporary.c_str()}; }
    };

    static void merge(void* into, const void* from);
    static bool is_as_visited(int source, const State& state);
    std::string source_path(std::string_view below) const;
    std::string target_path(std::string_view below) const;
    void fail(const Fault& fault, std::string_view below);
    void fail(bool at_target, const char* action, i32 error, std::string_view below);
    void tell(u32 worker, std::string_view below);
    void count(const Job& job);
    Job job_of(const Place& from, const struct statx& status, std::string_view below) const;
    Original original_of(const struct statx& status) const;
    Fault open_source(const Place& from, const Original& original, Descriptor& file,
                      struct statx& status) const;
    void compare_original(Job& job, int from);
    int open_flags() const;

    walk::Next visit(const walk::Entry& entry);
    walk::Next visit_directory(const walk::Entry& entry, Job& job);
    void visit_other(const walk::Entry& entry, Job& job);
    void finish_directory(const walk::Finished& directory);
    bool look(Job& job);
    bool make_way(Job& job);
    void delete_others(int source, std::string_view below);
    void delete_tree(const Place& place, const std::string& below);

    bool is_wanted(Job& job);
    bool is_equal(const Job& job);
    bool settle_equal(const Job& job);
    bool copy_regular(const walk::Entry& entry, Job& job);
    bool copy_special(const Job& job);
    bool fill(const walk::Entry& entry, const Job& job, int from, const Descriptor& to,
              bool& waits);
    bool fill_in_parts(const walk::Entry& entry, const Job& job, const Descriptor& to, bool& waits);
    Fault share(const Job& job, int from, const Place& to, bool& done);
    InKernel in_kernel() const;
    Fault check(int from, int to, u64 begin, u64 end);
    Fault copy_with_threads(const Job& job);
    void copy_task(const walk::Task& task);
    Fault copy_one_part(const Place& from, const Place& to, const Original& original, u64 begin,
                        u64 end);
    void finish_parts(int source, u64 parts, std::string_view below);
    void finish_large(const Place& from, const Place& to, const std::string& temporary,
                      const std::string& below);
    void clear_parts(std::string_view below);
    Written written(bool has_holes) const;
    Keeps keeps_of(const Job& job) const;
    u32 made_mode(const Job& job) const;
    Fault set_attributes(const Job& job, const Place& from, const Place& at, bool& writes_into);
    bool finish_file(const Job& job, int from, Descriptor to);
    bool put_in_place(const Job& job);
    bool write_into(const Job& job);
    void make_older(const Job& job);
    bool discard(const Job& job);

    std::string temporary_name(std::string_view name) const;
    void name_temporary(const walk::Entry& entry, Job& job) const;
    int links();
    std::string link_name(const Job& job) const;
    bool link_to_earlier(const Job& job);
    bool register_link(const Job& job, const char* name);

    CopyRun& run_;
    std::string source_;
    std::string links_folder_;
    OtherTree tree_;
    std::mutex links_mutex_;  // guards links_directory_, has_no_links_
    Descriptor links_directory_;
    bool has_no_links_ = false;  // the folder for links cannot be used
};

/// The name of the folder for links of a run with this mark.
std::string links_folder_name(const std::string& mark);

/// Removes the folder for links in `folder`, after all copies of the run that use it are done.
void remove_link_folder(CopyRun& run, const std::string& folder);

}  // namespace warren::cli
