// SPDX-License-Identifier: Apache-2.0
// Runs random operations on a volume and on the model and compares every result. All random choices
// derive from one seed; names are few, so that operations often meet the same one.
//
// Invariant: after each operation without a difference, the volume equals the model. The choices
// depend only on the seed, the model, and on when the tree is removed to make room: two volumes
// with the same hash key and the same seed get the same operations.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/random.hpp"
#include "tests/support/compare_trees.hpp"
#include "tests/support/model_file_system.hpp"
#include "warren/volume.hpp"

namespace warren {

/// The kinds of operations to run, by default all.
struct RandomPlan {
    bool bulk = true;         // remove_tree, rebuild, scan
    bool batches = true;      // move_many, create_many and others with several changes
    bool opens = true;        // files stay open for several operations
    bool large_files = true;  // writes beyond 64 KiB, offsets beyond 1 MiB, reservations
    bool shares = true;       // block ranges shared by several files
    bool errors = true;       // invalid names, handles and arguments
    bool listings = true;     // listings that continue between operations
    bool syncs = true;
    bool repeats = false;        // many writes repeat blocks of other writes
    bool large_batches = false;  // sometimes thousands of items in a batch
    u64 entries_max = 4000;      // with more inodes, the tree is removed
    /// The directory to work in: empty, owned by user 0. Other threads may use the rest of the
    /// volume.
    Handle root = {};
};

class RandomOperations {
 public:
    /// Requires: the volume, or the plan's root, is empty; it exists until the next set_volume().
    RandomOperations(Volume& volume, u64 seed, const RandomPlan& plan = {});

    /// Runs one operation, and makes room for the next. Returns false after a wrong result; the
    /// test has then failed with a report.
    bool step();
    /// The two parts of step(): an operation, and the removal of the whole tree when it is due.
    bool act();
    bool wants_room() const;
    /// Removes all trees, one operation each.
    void make_room(const std::function<void()>& after_each = [] {});
    /// Runs that many steps, fewer after a failure.
    bool run(u64 operations);
    /// Compares volume and model completely. Returns false if the test has failed.
    bool compare(const CompareOptions& options = {});

    /// Ends the run and fails the test, listing the last operations.
    void fail(const std::string& what);

    /// Continues with the volume reopened.
    void set_volume(Volume& volume);
    /// Releases all opens, references and listings.
    void let_all_go();

    const ModelFileSystem& model() const { return model_; }
    /// A hash of all results so far, except for numbers and times specific to one volume.
    u64 transcript() const { return transcript_; }
    bool has_failed() const { return failed_; }

 private:
    using Action = void (RandomOperations::*)();
    struct Weighted {
        u32 weight;
        Action action;
    };
    /// A listing that continues while the directory changes.
    struct Listing {
        u64 directory = 0;
        u64 cookie = 0;
        std::set<std::string> seen;
        std::set<std::string> must_see;
    };
    struct Held {
        Handle handle;
        u64 count = 0;
    };

    // Choices.
    const Caller& pick_caller();
    u64 pick_inode();
    u64 pick_directory();
    u64 pick_open_file();
    std::string pick_name();
    std::string pick_entry(u64 directory);
    u32 pick_permissions();
    u64 pick_offset();
    u64 pick_length();
    std::vector<std::byte> pick_bytes(u64 offset);
    std::string pick_target();
    std::string pick_acl();
    std::string pick_attribute_name();
    AttributeChange pick_change();
    CreateOptions pick_options(std::string& target);
    ScanFilter pick_filter();

    // Bookkeeping.
    void begin(const std::string& text);
    void end();
    void note(u64 answer) { transcript_ = (transcript_ ^ answer) * 0x100000001b3u; }
    void expect_code(Errc found, Errc wanted);
    /// Like expect_code(), for an item of a bulk call; `in_file`: the item's directory is a file.
    void expect_item_code(Errc found, Errc wanted, bool in_file);
    bool is_file(u64 number) const;
    void expect_inode(const Result<Attributes>& found, const Result<Attributes>& wanted,
                      Hold hold = Hold::no, bool is_new = false);
    Handle real(u64 number) const;
    static Handle model(u64 number) { return ModelFileSystem::handle_of(number); }
    std::string name_of(u64 number) const;
    void note_new(u64 number, Handle handle);
    void note_hold(u64 number, Handle handle);
    void drop_held();
    u64 pick_batch_size(u64 most);
    void note_removals();
    void drop_dead_opens();
    bool open_for(u64 number, bool& must_release);
    void close_after(u64 number, bool must_release);
    bool chance(u64 odds) { return random_.one_in(odds); }
    bool is_alone() const { return plan_.root == Handle{}; }

    // Operations, one each.
    void do_lookup();
    void do_create();
    void do_create_unnamed();
    void do_link();
    void do_unlink();
    void do_remove_directory();
    void do_rename();
    void do_read_link();
    void do_resolve();
    void do_attributes();
    void do_set_attributes();
    void do_resize();
    void do_check_access();
    void do_open();
    void do_release();
    void do_forget();
    void do_read();
    void do_write();
    void do_allocate();
    void do_share();
    void do_dedupe();
    void do_clone();
    void note_copies(u64 directory);
    u64 entries_below(u64 number) const;
    bool copy_bytes(u64 source, u64 offset, u64 target, u64 target_offset, u64 length);
    void do_seek();
    void do_get_attribute();
    void do_set_attribute();
    void do_remove_attribute();
    void do_start_listing();
    void do_go_on_listing();
    void do_statistics();
    void do_sync();
    void do_remove_tree();
    void do_move_many();
    void do_create_many();
    void do_make_chain();
    void do_rebuild();
    void do_scan();
    void do_usage();
    void do_lookup_many();
    void do_remove_many();

    std::vector<Weighted> actions_;
    u64 total_weight_ = 0;
    Volume* volume_;
    ModelFileSystem model_;
    Random random_;
    const RandomPlan plan_;
    u64 steps_ = 0;
    u64 look_interval_ = 1;  // operations between two checks of the free space
    u64 transcript_ = 0;
    bool failed_ = false;
    i64 started_ = 0;
    u64 inodes_before_ = 0;  // inode count of an empty volume
    std::deque<std::string> history_;
    std::unordered_map<u64, Handle> handles_;  // by number in the model, including removed ones
    std::vector<u64> numbers_;                 // all that ever existed
    std::vector<u64> directories_;             // all directories that ever existed
    std::vector<u64> opens_;                   // one for each open that is not released
    std::map<u64, Held> held_;                 // by number in the model
    std::unordered_set<u64> held_inodes_;      // the volume's inode numbers of these
    std::vector<Listing> listings_;
};

}  // namespace warren
