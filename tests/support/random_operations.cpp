// SPDX-License-Identifier: Apache-2.0
// The random driver: its choices and bookkeeping, and the operations on names.
#include "tests/support/random_operations.hpp"

#include <gtest/gtest.h>

#include <array>

#include "base/file_clock.hpp"

namespace warren {
namespace {

constexpr std::size_t history_max = 40;
constexpr u32 first_groups[] = {100, 200};
constexpr u32 second_groups[] = {200};

/// Several users, among them user 0, and a caller without permission checks.
const std::array<Caller, 6> callers = {{
    {.user = 0, .group = 0, .umask = 022},
    {.user = 0, .group = 0, .umask = 0},
    {.user = 1000, .group = 100, .groups = first_groups, .umask = 02},
    {.user = 1001, .group = 200, .groups = second_groups, .umask = 0},
    {.user = 1002, .group = 300, .umask = 077},
    {.user = 1000, .group = 100, .groups = first_groups, .umask = 0, .check = false},
}};

std::string number(Errc code) {
    return std::to_string(static_cast<int>(code));
}

}  // namespace

RandomOperations::RandomOperations(Volume& volume, u64 seed, const RandomPlan& plan)
    : volume_(&volume), random_(seed), plan_(plan) {
    using Self = RandomOperations;
    actions_ = {
        {60, &Self::do_lookup},
        {120, &Self::do_create},
        {50, &Self::do_unlink},
        {25, &Self::do_remove_directory},
        {60, &Self::do_rename},
        {25, &Self::do_link},
        {10, &Self::do_read_link},
        {30, &Self::do_attributes},
        {40, &Self::do_set_attributes},
        {20, &Self::do_resize},
        {20, &Self::do_check_access},
        {60, &Self::do_write},
        {30, &Self::do_read},
        {15, &Self::do_seek},
        {15, &Self::do_get_attribute},
        {30, &Self::do_set_attribute},
        {10, &Self::do_remove_attribute},
    };
    const auto add = [&](bool wanted, std::vector<Weighted> more) {
        if (wanted) actions_.insert(actions_.end(), more.begin(), more.end());
    };
    add(is_alone(), {{10, &Self::do_statistics}, {15, &Self::do_resolve}});
    add(plan.opens, {{25, &Self::do_open},
                     {25, &Self::do_release},
                     {8, &Self::do_create_unnamed},
                     {8, &Self::do_forget}});
    add(plan.large_files, {{25, &Self::do_allocate}});
    add(plan.shares, {{25, &Self::do_share}, {25, &Self::do_dedupe}, {10, &Self::do_clone}});
    add(plan.listings, {{15, &Self::do_start_listing}, {60, &Self::do_go_on_listing}});
    add(plan.syncs, {{4, &Self::do_sync}});
    add(plan.bulk, {{5, &Self::do_remove_tree},
                    {5, &Self::do_rebuild},
                    {3, &Self::do_scan},
                    {2, &Self::do_usage}});
    add(plan.batches, {{6, &Self::do_move_many},
                       {5, &Self::do_create_many},
                       {3, &Self::do_lookup_many},
                       {4, &Self::do_remove_many},
                       {1, &Self::do_make_chain}});
    for (const Weighted& one : actions_)
        total_weight_ += one.weight;
    const u64 root = ModelFileSystem::root_number;
    note_new(root, is_alone() ? volume.root() : plan.root);
    const Statistics statistics = volume.statistics();
    inodes_before_ = statistics.inodes_used;
    // A large volume has room for several operations in the quarter that must stay free.
    if (statistics.blocks * 4096 >= 256 * mib) look_interval_ = 8;
    // All callers may work in the root, which is owned by none of them.
    AttributeChange open_to_all;
    open_to_all.which = AttributeChange::mode;
    open_to_all.new_mode = 0777;
    begin("chmod 0777 /");
    const auto found = volume.set_attributes(callers[0], real(root), open_to_all);
    end();
    expect_inode(found, model_.set_attributes(callers[0], model(root), open_to_all));
}

bool RandomOperations::run(u64 operations) {
    for (u64 i = 0; i < operations && step(); ++i) {
    }
    return !failed_;
}

bool RandomOperations::step() {
    if (act() && wants_room()) make_room();
    return !failed_;
}

bool RandomOperations::wants_room() const {
    if (model_.inodes().size() > plan_.entries_max) return true;
    if (steps_ % look_interval_ != 0) return false;
    const Statistics statistics = volume_->statistics();
    return statistics.blocks_available < statistics.blocks / 4;
}

bool RandomOperations::act() {
    if (failed_) return false;
    u64 choice = random_.below(total_weight_);
    std::size_t index = 0;
    while (choice >= actions_[index].weight)
        choice -= actions_[index++].weight;
    (this->*actions_[index].action)();
    ++steps_;
    note_removals();
    return !failed_;
}

bool RandomOperations::compare(const CompareOptions& options) {
    if (failed_) return false;
    const std::string different =
        compare_trees(*volume_, model_, options, real(ModelFileSystem::root_number));
    if (different.empty()) return true;
    begin("comparing the whole tree");
    fail(different);
    return false;
}

void RandomOperations::set_volume(Volume& volume) {
    volume_ = &volume;
    model_.release_all();
    opens_.clear();
    drop_held();
    listings_.clear();
    if (!failed_ && is_alone() && real(ModelFileSystem::root_number) != volume.root()) {
        fail("the root has another handle");
    }
}

void RandomOperations::let_all_go() {
    listings_.clear();
    while (!opens_.empty() && !failed_)
        do_release();
    for (const auto& [number, held] : held_)
        volume_->forget(held.handle, held.count);
    drop_held();
}

const Caller& RandomOperations::pick_caller() {
    return chance(2) ? callers[random_.below(2)] : callers[random_.below(callers.size())];
}

u64 RandomOperations::pick_inode() {
    if (plan_.errors && chance(30)) return numbers_[random_.below(numbers_.size())];
    const auto& inodes = model_.inodes();
    const auto found = inodes.lower_bound(random_.below(numbers_.back() + 1));
    return found == inodes.end() ? ModelFileSystem::root_number : found->first;
}

u64 RandomOperations::pick_directory() {
    if (plan_.errors && chance(40)) return pick_inode();
    for (;;) {
        const u64 at = random_.below(directories_.size());
        if (model_.find(model(directories_[at])) != nullptr) return directories_[at];
        if (plan_.errors && chance(20)) return directories_[at];
        directories_[at] = directories_.back();  // the root stays, since it is never removed
        directories_.pop_back();
    }
}

u64 RandomOperations::pick_open_file() {
    for (int tries = 0; !opens_.empty() && tries < 4; ++tries) {
        const u64 open = opens_[random_.below(opens_.size())];
        const ModelInode* inode = model_.find(model(open));
        if (inode != nullptr && is_mode_of(inode->mode, regular_mode)) return open;
    }
    for (int tries = 0; tries < 20; ++tries) {
        const u64 any = pick_inode();
        const ModelInode* inode = model_.find(model(any));
        if (inode != nullptr && is_mode_of(inode->mode, regular_mode)) return any;
    }
    return pick_inode();
}

std::string RandomOperations::pick_name() {
    if (plan_.errors && chance(50)) {
        const std::string bad[] = {"",
                                   ".",
                                   "..",
                                   "a/b",
                                   std::string("a\0b", 3),
                                   std::string(256, 'x'),
                                   std::string(5000, 'y')};
        return bad[random_.below(std::size(bad))];
    }
    if (chance(30)) return std::string(255, static_cast<char>('k' + random_.below(3)));
    if (chance(30)) return std::string("\x01\xff\n \\", 1 + random_.below(5));
    if (chance(12)) return "w" + std::to_string(random_.below(400));
    return std::string(1, static_cast<char>('a' + random_.below(10)));
}

std::string RandomOperations::pick_entry(u64 directory) {
    const ModelInode* inode = model_.find(model(directory));
    if (inode == nullptr || inode->entries.empty() || chance(4)) return pick_name();
    auto found = inode->entries.lower_bound(pick_name());
    return found == inode->entries.end() ? inode->entries.begin()->first : found->first;
}

u32 RandomOperations::pick_permissions() {
    constexpr u32 modes[] = {0777, 0777, 0755, 0755, 01777, 02775, 0700, 0644, 06755, 0070, 0};
    return chance(5) ? static_cast<u32>(random_.below(010000)) : modes[random_.below(11)];
}

CreateOptions RandomOperations::pick_options(std::string& target) {
    CreateOptions options;
    const u32 permissions = pick_permissions();
    options.mode = regular_mode | permissions;
    const u64 kind = random_.below(20);
    if (kind < 8) options.mode = directory_mode | permissions;
    if (kind == 8) options.mode = 0010000 | permissions;  // a pipe
    if (kind == 9) options.mode = 0140000 | permissions;  // a socket
    if (kind == 10) {
        options.mode = (chance(2) ? 0020000 : 0060000) | permissions;
        options.device = chance(3) ? 0 : static_cast<u32>(random_.next());
    }
    if (kind == 11 || kind == 12) {
        options.mode = symlink_mode | 0777;
        target = pick_target();
        options.target = target;
    }
    return options;
}

std::string RandomOperations::pick_target() {
    u64 length = 1 + random_.below(30);
    if (chance(4)) length = 118 + random_.below(14);  // near the limit for contents in an inode
    if (chance(8)) length = 1 + random_.below(4095);
    if (chance(16)) length = 4095;
    if (plan_.errors && chance(20)) length = 4096;
    std::string target;
    while (target.size() < length)
        target += static_cast<char>(1 + random_.below(255));
    return target;
}

void RandomOperations::begin(const std::string& text) {
    history_.push_back(std::to_string(steps_) + ": " + text);
    if (history_.size() > history_max) history_.pop_front();
    started_ = now_nanoseconds();
}

void RandomOperations::end() {
    model_.set_clock(started_, now_nanoseconds());
}

void RandomOperations::fail(const std::string& what) {
    if (failed_) return;
    failed_ = true;
    std::string text;
    for (const std::string& line : history_)
        text += "  " + line + "\n";
    ADD_FAILURE() << what << "\nafter these operations:\n" << text;
}

void RandomOperations::expect_code(Errc found, Errc wanted) {
    history_.back() += " -> " + number(wanted);
    note(static_cast<u64>(found));
    if (found != wanted) fail("answers " + number(found) + " instead of " + number(wanted));
}

void RandomOperations::expect_item_code(Errc found, Errc wanted, bool in_file) {
    const auto is_refusal = [](Errc code) {
        return code == Errc::not_directory || code == Errc::stale;
    };
    // If another item of the call removed the file, either error is right: see
    // Volume::remove_many().
    expect_code(in_file && is_refusal(found) && is_refusal(wanted) ? wanted : found, wanted);
}

bool RandomOperations::is_file(u64 number) const {
    const ModelInode* inode = model_.find(model(number));
    return inode != nullptr && !is_mode_of(inode->mode, directory_mode);
}

void RandomOperations::expect_inode(const Result<Attributes>& found,
                                    const Result<Attributes>& wanted, Hold hold, bool is_new) {
    expect_code(found.code(), wanted.code());
    if (failed_ || !found) return;
    const u64 number = wanted->handle.inode;
    history_.back() += " " + name_of(number);
    if (is_new) note_new(number, found->handle);
    if (real(number) != found->handle) return fail("answers another inode");
    if (hold == Hold::yes) note_hold(number, found->handle);
    note(found->mode);
    note(found->links);
    const ModelInode& inode = *model_.find(wanted->handle);
    const std::string different = compare_attributes(*found, inode, true);
    if (!different.empty()) fail(different);
}

Handle RandomOperations::real(u64 number) const {
    return handles_.at(number);
}

std::string RandomOperations::name_of(u64 number) const {
    const ModelInode* inode = model_.find(model(number));
    if (inode == nullptr) return "(gone " + std::to_string(number) + ")";
    const char* kind = is_mode_of(inode->mode, directory_mode) ? "d" : "f";
    return kind + std::to_string(number);
}

void RandomOperations::note_new(u64 number, Handle handle) {
    handles_[number] = handle;
    numbers_.push_back(number);
    const ModelInode* inode = model_.find(model(number));
    if (is_mode_of(inode->mode, directory_mode)) directories_.push_back(number);
    if (held_inodes_.contains(handle.inode)) fail("the number of a new inode is still held");
}

void RandomOperations::note_hold(u64 number, Handle handle) {
    Held& held = held_[number];
    held.handle = handle;
    ++held.count;
    held_inodes_.insert(handle.inode);
}

void RandomOperations::drop_held() {
    held_.clear();
    held_inodes_.clear();
}

/// Updates which names listings need not show any more, and may show again.
void RandomOperations::note_removals() {
    for (const auto& [directory, name] : model_.take_removals()) {
        for (Listing& listing : listings_) {
            if (listing.directory != directory) continue;
            listing.must_see.erase(name);
            listing.seen.erase(name);
        }
    }
}

/// The removal of a whole tree includes open directories: releases their opens.
void RandomOperations::drop_dead_opens() {
    std::vector<u64> alive;
    for (const u64 open : opens_) {
        if (model_.find(model(open)) != nullptr) {
            alive.push_back(open);
            continue;
        }
        const Errc released = volume_->release(real(open));
        if (released != Errc::ok && released != Errc::stale) {
            fail("closing a removed directory answers " + number(released));
        }
    }
    opens_ = std::move(alive);
}

void RandomOperations::do_lookup() {
    const Caller& caller = pick_caller();
    const u64 directory = pick_directory();
    const std::string name = pick_entry(directory);
    const Hold hold = plan_.opens && chance(10) ? Hold::yes : Hold::no;
    begin("lookup " + name_of(directory) + "/" + printable_name(name) + " by " +
          std::to_string(caller.user));
    const auto found = volume_->lookup(caller, real(directory), name, hold);
    end();
    expect_inode(found, model_.lookup(caller, model(directory), name), hold);
}

void RandomOperations::do_create() {
    const Caller& caller = pick_caller();
    const u64 directory = pick_directory();
    const std::string name = pick_name();
    std::string target;
    CreateOptions options = pick_options(target);
    if (plan_.opens && chance(8)) options.hold = Hold::yes;
    options.open = plan_.opens && opens_.size() < 20 && chance(8);
    begin("create " + name_of(directory) + "/" + printable_name(name) + " mode " +
          std::to_string(options.mode) + " target " + std::to_string(target.size()) + " by " +
          std::to_string(caller.user));
    const auto found = volume_->create(caller, real(directory), name, options);
    end();
    const auto wanted = model_.create(caller, model(directory), name, options);
    expect_inode(found, wanted, options.hold, true);
    if (wanted && options.open) opens_.push_back(wanted->handle.inode);
}

void RandomOperations::do_create_unnamed() {
    if (opens_.size() >= 20) return;
    const Caller& caller = pick_caller();
    const u64 directory = pick_directory();
    CreateOptions options;
    options.mode = regular_mode | pick_permissions();
    begin("create unnamed in " + name_of(directory));
    const auto found = volume_->create_unnamed(caller, real(directory), options);
    end();
    const auto wanted = model_.create_unnamed(caller, model(directory), options);
    expect_inode(found, wanted, Hold::no, true);
    if (wanted) opens_.push_back(wanted->handle.inode);
}

void RandomOperations::do_link() {
    const Caller& caller = pick_caller();
    const u64 file =
        chance(5) && !opens_.empty() ? opens_[random_.below(opens_.size())] : pick_inode();
    const u64 directory = pick_directory();
    const std::string name = pick_name();
    begin("link " + name_of(file) + " to " + name_of(directory) + "/" + printable_name(name));
    const auto found = volume_->link(caller, real(file), real(directory), name);
    end();
    expect_inode(found, model_.link(caller, model(file), model(directory), name));
}

void RandomOperations::do_unlink() {
    const Caller& caller = pick_caller();
    const u64 directory = pick_directory();
    const std::string name = pick_entry(directory);
    begin("unlink " + name_of(directory) + "/" + printable_name(name) + " by " +
          std::to_string(caller.user));
    const Errc found = volume_->unlink(caller, real(directory), name);
    end();
    expect_code(found, model_.unlink(caller, model(directory), name));
}

void RandomOperations::do_remove_directory() {
    const Caller& caller = pick_caller();
    const u64 directory = pick_directory();
    const std::string name = pick_entry(directory);
    begin("rmdir " + name_of(directory) + "/" + printable_name(name) + " by " +
          std::to_string(caller.user));
    const Errc found = volume_->remove_directory(caller, real(directory), name);
    end();
    expect_code(found, model_.remove_directory(caller, model(directory), name));
}

void RandomOperations::do_rename() {
    const Caller& caller = pick_caller();
    const u64 from = pick_directory();
    const std::string name = pick_entry(from);
    const u64 to = chance(3) ? from : pick_directory();
    const std::string new_name = chance(2) ? pick_name() : pick_entry(to);
    const Rename how = chance(4)
                           ? static_cast<Rename>(random_.below(static_cast<u64>(rename_last) + 1))
                           : Rename::replace;
    begin("rename " + name_of(from) + "/" + printable_name(name) + " to " + name_of(to) + "/" +
          printable_name(new_name) + " how " + std::to_string(static_cast<int>(how)) + " by " +
          std::to_string(caller.user));
    const Errc found = volume_->rename(caller, real(from), name, real(to), new_name, how);
    end();
    expect_code(found, model_.rename(caller, model(from), name, model(to), new_name, how));
    const auto left = model_.lookup(callers[0], model(from), name);
    if (found != Errc::ok || !left || handles_.contains(left->handle.inode)) return;
    expect_inode(volume_->lookup(callers[0], real(from), name), left, Hold::no, true);
}

}  // namespace warren
