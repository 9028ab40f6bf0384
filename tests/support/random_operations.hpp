// SPDX-License-Identifier: Apache-2.0
// Runs random operations on a volume and on the model and compares every answer. All randomness
// comes from one seed; names are few, so that operations meet.
//
// Invariant: after each operation that found no difference, the volume holds what the model holds.
// Choices depend on the seed and the model alone, and on when room is made: two volumes with the
// same hash key and the same seed are asked the same.
#pragma once

#include <deque>
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

/// Which operations are run. All kinds are by default.
struct RandomPlan {
    bool bulk = true;         // remove_tree, rebuild, scan
    bool batches = true;      // move_many, create_many and others that are several changes
    bool opens = true;        // files stay open beyond one operation
    bool large_files = true;  // writes beyond 64 KiB, offsets beyond 1 MiB, reservations
    bool shares = true;       // ranges that several files share
    bool errors = true;       // names, handles and arguments that cannot be right
    bool listings = true;     // listings that go on between operations
    bool syncs = true;
    bool repeats = false;        // many writes have blocks that others have had
    bool large_batches = false;  // thousands of items in a batch now and then
    u64 entries_max = 4000;      // the tree is removed when it has more inodes
    /// Where all happens: an empty directory of user 0. Others may use the rest of the volume then.
    Handle root = {};
};

class RandomOperations {
 public:
    /// Requires: the volume is empty, or the plan's root is; it lives until the next set_volume().
    RandomOperations(Volume& volume, u64 seed, const RandomPlan& plan = {});

    /// One operation, and room for the next. False if an answer was wrong; then the test has failed
    /// and says how it came.
    bool step();
    /// The two halves of step(): an operation, and the removal of everything if it is time for it.
    bool act();
    bool wants_room() const;
    void make_room();
    /// As many steps, less if one goes wrong.
    bool run(u64 operations);
    /// Compares everything. False if the test has failed.
    bool compare(const CompareOptions& options = {});

    /// Ends the run and lets the test fail, with the last operations.
    void fail(const std::string& what);

    /// Goes on with the volume opened again.
    void set_volume(Volume& volume);
    /// Gives back all opens, references and listings.
    void let_all_go();

    const ModelFileSystem& model() const { return model_; }
    /// A number made of all answers so far, but of numbers and times that are a volume's own.
    u64 transcript() const { return transcript_; }
    bool has_failed() const { return failed_; }

 private:
    using Action = void (RandomOperations::*)();
    struct Weighted {
        u32 weight;
        Action action;
    };
    /// A listing that goes on while the directory changes.
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
    /// As expect_code(), for an item of a call for many; `in_file`: it names a file as directory.
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
    u64 look_interval_ = 1;  // operations between two looks at the room
    u64 transcript_ = 0;
    bool failed_ = false;
    i64 started_ = 0;
    u64 inodes_before_ = 0;  // that an empty volume counts
    std::deque<std::string> history_;
    std::unordered_map<u64, Handle> handles_;  // by number in the model, dead ones too
    std::vector<u64> numbers_;                 // all ever made
    std::vector<u64> directories_;             // likewise, directories only
    std::vector<u64> opens_;                   // one for each open that is not released
    std::map<u64, Held> held_;                 // by number in the model
    std::unordered_set<u64> held_inodes_;      // the volume's numbers of these
    std::vector<Listing> listings_;
};

}  // namespace warren
