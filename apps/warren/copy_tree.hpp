// SPDX-License-Identifier: Apache-2.0
// Copies trees of the host on all cores, and makes one tree equal another (cp and sync). A file is
// written under a temporary name and renamed when it is whole, with its owner, attributes and
// times; a directory gets its own when all below it is done.
//
// Invariant: nothing is remembered of the tree but what a directory's result holds, so any thread,
// or process, can do any part. Which names are one file is remembered by the target's file system:
// the first copy of a file with several names gets a further name in a folder for links, which goes
// at the end. Below the target no symbolic link is followed.
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

/// Where a copy has holes: where the source has some, wherever zeros are, nowhere.
enum class Sparse : u8 { automatic, always, never };

struct TreeCopyRules {
    bool recursive = false;
    Keeps keeps;
    bool default_modes = false;  // what is new has that of any new file
    bool keep_links = false;     // hard links stay hard links
    bool no_clobber = false;
    bool update = false;  // only what is newer than the target
    bool force = false;   // replace what this user may not write
    bool verbose = false;
    bool verify = false;
    Reflink reflink = Reflink::automatic;
    Sparse sparse = Sparse::automatic;
    // sync
    bool mirror = false;    // the target becomes equal: equal files are left, kinds may change
    bool contents = false;  // equal means equal bytes, not size and time
    bool delete_others = false;
    bool dry_run = false;
    bool sums_up = false;
};

/// What is counted of them.
enum CopyCount : size_t {
    copied_files,
    copied_bytes,
    made_directories,
    made_links,   // further names of files that were copied before
    made_others,  // symbolic links, devices, pipes
    removed_names
};

/// What the copies of one command share.
struct CopyRun {
    CopyRun(const TreeCopyRules& rules_given, const WalkSetup& setup_given);

    TreeCopyRules rules;
    WalkSetup setup;
    FailureList failures;
    ChangeLimit limit;
    LineBuffers lines;
    Tally tally{"files", "bytes", "directories", "links", "others", "removed"};
    std::string mark;  // begins all temporary names of this run
    Reflinks reflinks;

    /// Whether the copy is to end now, with nothing to be taken up again: what is not whole goes.
    bool is_cut() const { return setup.options.checkpoint.empty() && interrupted(); }
    bool is_resumed() const { return setup.options.resume; }
};

class TreeCopy {
 public:
    /// Copies `source` to the name `target`; names of files with several lie in `links_folder`
    /// meanwhile, a directory that exists when it is needed.
    TreeCopy(CopyRun& run, std::string source, std::string target, std::string links_folder);

    /// False if it was interrupted and can be taken up again.
    bool copy();

 private:
    /// What a directory knows of itself; of sums over what is below it there is none.
    struct State {
        u64 parts;  // large files in it that wait for their last part
        u64 is_met;
        u64 is_new;
        Kept kept;
    };
    /// What stands at the target.
    struct Existing {
        bool found = false;
        struct stat status {};
        bool is_directory() const { return found && S_ISDIR(status.st_mode); }
        bool is_regular() const { return found && S_ISREG(status.st_mode); }
    };
    /// One name that is copied.
    struct Job {
        Place from;
        Place to;
        Kept kept;
        u64 size = 0;
        u64 device = 0;
        u64 inode = 0;
        u64 special_device = 0;
        bool shared = false;  // has names elsewhere that are to stay names of one file
        bool has_holes = false;
        Existing existing;
        std::string below;      // path behind the root of either tree
        std::string temporary;  // name beside the target
        Place at() const { return {to.directory, temporary.c_str()}; }
    };

    static void merge(void* into, const void* from);
    std::string source_path(std::string_view below) const;
    std::string target_path(std::string_view below) const;
    void fail(const Fault& fault, std::string_view below);
    void fail(bool at_target, const char* action, i32 error, std::string_view below);
    void tell(u32 worker, std::string_view below);
    void count(const Job& job);
    Job job_of(const Place& from, const struct statx& status, std::string_view below) const;
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
    bool copy_regular(const walk::Entry& entry, const Job& job);
    bool copy_special(const Job& job);
    bool fill(const walk::Entry& entry, const Job& job, int from, Descriptor& to, bool& waits);
    Fault share(const Job& job, int from, const Place& to, bool& done);
    InKernel in_kernel() const;
    Fault check(int from, int to, u64 begin, u64 end);
    bool copy_with_threads(const Job& job);
    void copy_task(const walk::Task& task);
    Fault copy_one_part(const Place& from, const Place& to, u64 begin, u64 end);
    void finish_parts(int source, std::string_view below);
    void clear_parts(std::string_view below);
    Written written(bool has_holes) const;
    u32 made_mode(const Job& job) const;
    Fault set_attributes(const Job& job, const Place& from, const Place& at, bool& writes_into);
    bool finish_file(const Job& job);
    bool put_in_place(const Job& job);
    bool write_into(const Job& job);
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
    std::mutex links_mutex_;  // links_directory_
    Descriptor links_directory_;
};

/// Of the folder for links of a run with this mark.
std::string links_folder_name(const std::string& mark);

/// Removes the folder for links below `folder`, when all copies of the run that use it are done.
void remove_link_folder(const CopyRun& run, const std::string& folder);

}  // namespace warren::cli
