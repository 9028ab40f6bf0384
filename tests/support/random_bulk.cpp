// SPDX-License-Identifier: Apache-2.0
// The random driver's operations on many names: listings, paths and bulk operations.
#include <fnmatch.h>
#include <gtest/gtest.h>

#include <mutex>
#include <tuple>

#include "tests/support/random_operations.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren {

void RandomOperations::do_start_listing() {
    if (listings_.size() >= 6) listings_.erase(listings_.begin());
    const u64 directory = pick_directory();
    const ModelInode* inode = model_.find(model(directory));
    Listing listing;
    listing.directory = directory;
    if (inode != nullptr) {
        for (const auto& [name, number] : inode->entries)
            listing.must_see.insert(name);
    }
    listings_.push_back(std::move(listing));
    do_go_on_listing();
}

void RandomOperations::do_go_on_listing() {
    if (listings_.empty()) return;
    const u64 index = random_.below(listings_.size());
    Listing& listing = listings_[index];
    const ModelInode* inode = model_.find(model(listing.directory));
    const u64 most = 1 + random_.below(chance(5) ? 500 : 20);
    u64 count = 0;
    std::string wrong;
    begin("list " + name_of(listing.directory) + " from " + std::to_string(listing.cookie));
    const Errc found = volume_->read_directory(
        real(listing.directory), listing.cookie, [&](const DirectoryEntry& entry) {
            const std::string name(entry.name);
            const auto known =
                inode == nullptr ? decltype(inode->entries.begin()){} : inode->entries.find(name);
            if (inode == nullptr || known == inode->entries.end()) {
                wrong = "shows a name that is not there: " + printable_name(name);
            } else if (handles_.at(known->second).inode != entry.inode) {
                wrong = "shows another inode for " + printable_name(name);
            } else if (model_.find(model(known->second))->mode >> 12 != entry.type) {
                wrong = "shows another type for " + printable_name(name);
            } else if (!listing.seen.insert(name).second) {
                wrong = "shows a name twice: " + printable_name(name);
            } else if (entry.cookie <= listing.cookie || entry.cookie < 3 ||
                       entry.cookie >> 63 != 0) {
                wrong = "hands out a bad cookie";
            }
            listing.must_see.erase(name);
            listing.cookie = entry.cookie;
            return wrong.empty() && ++count < most;
        });
    end();
    Errc wanted = Errc::ok;
    if (inode == nullptr) {
        wanted = Errc::stale;
    } else if (!is_mode_of(inode->mode, directory_mode)) {
        wanted = Errc::not_directory;
    }
    model_.blur_times(model(listing.directory));
    expect_code(found, wanted);
    if (!wrong.empty()) return fail(wrong);
    note(count);
    const bool is_over = found != Errc::ok || count < most;
    if (found == Errc::ok && is_over && !listing.must_see.empty()) {
        return fail("never shows " + printable_name(*listing.must_see.begin()));
    }
    if (is_over) listings_.erase(listings_.begin() + static_cast<i64>(index));
}

void RandomOperations::do_resolve() {
    const Caller& caller = pick_caller();
    std::string path = chance(2) ? "/" : "";
    u64 at = ModelFileSystem::root_number;
    for (u64 depth = random_.below(6); depth > 0; --depth) {
        const std::string name = pick_entry(at);
        path += name + (chance(4) ? "//" : "/");
        const ModelInode* inode = model_.find(model(at));
        const auto found = inode->entries.find(name);
        if (found != inode->entries.end()) at = found->second;
    }
    if (chance(6)) path += chance(2) ? ".." : "../.";
    begin("resolve " + printable_name(path) + " by " + std::to_string(caller.user));
    const auto found = resolve(*volume_, caller, path);
    end();
    expect_inode(found, model_.resolve(caller, path));
}

void RandomOperations::do_statistics() {
    begin("statistics");
    const Statistics statistics = volume_->statistics();
    end();
    const u64 wanted = inodes_before_ + model_.inodes().size() - 1;
    if (statistics.inodes_used != wanted) {
        fail("counts " + std::to_string(statistics.inodes_used) + " inodes, not " +
             std::to_string(wanted));
    }
    if (statistics.blocks_free > statistics.blocks ||
        statistics.blocks_available > statistics.blocks_free) {
        fail("counts more blocks than there are");
    }
}

void RandomOperations::do_sync() {
    begin("sync");
    const Errc found = volume_->sync();
    end();
    expect_code(found, Errc::ok);
}

void RandomOperations::do_remove_tree() {
    const Caller& caller = pick_caller();
    // Trees near the root are large, so they are chosen less often.
    const u64 directory = pick_directory();
    const std::string name = pick_entry(directory);
    begin("remove tree " + name_of(directory) + "/" + printable_name(name) + " by " +
          std::to_string(caller.user));
    Removal found_removal;
    const Errc found = volume_->remove_tree(caller, real(directory), name, found_removal);
    end();
    Removal wanted_removal;
    const std::set<Errc> wanted =
        model_.remove_tree(caller, model(directory), name, wanted_removal);
    // Any of several errors is right, and engines need not find the same one first.
    const Errc first = *wanted.begin();
    expect_code(wanted.contains(found) ? first : found, first);
    if (failed_) return;
    note(found_removal.files);
    if (found_removal.files != wanted_removal.files ||
        found_removal.directories != wanted_removal.directories) {
        fail("removes " + std::to_string(found_removal.files) + " files and " +
             std::to_string(found_removal.directories) + " directories, not " +
             std::to_string(wanted_removal.files) + " and " +
             std::to_string(wanted_removal.directories));
    }
    drop_dead_opens();
}

u64 RandomOperations::pick_batch_size(u64 most) {
    if (plan_.large_batches && chance(8)) most = 3000;
    return 1 + random_.below(most);
}

void RandomOperations::do_move_many() {
    const Caller& caller = pick_caller();
    struct Item {
        u64 from;
        u64 to;
        std::string name;
        std::string new_name;
        bool in_file = false;
    };
    std::vector<Item> items(pick_batch_size(chance(4) ? 200 : 20));
    const u64 shared = pick_directory();
    for (Item& item : items) {
        item.from = chance(2) ? shared : pick_directory();
        item.to = chance(2) ? shared : pick_directory();
        item.name = pick_entry(item.from);
        item.new_name = chance(3) ? pick_entry(item.to) : pick_name();
        item.in_file = is_file(item.from) || is_file(item.to);
    }
    std::vector<Move> moves;
    for (const Item& item : items) {
        moves.push_back({real(item.from), item.name, real(item.to), item.new_name});
    }
    std::vector<Errc> results(moves.size(), Errc::io);
    begin("move " + std::to_string(moves.size()) + " by " + std::to_string(caller.user));
    volume_->move_many(caller, moves, results);
    end();
    for (u64 i = 0; i < items.size() && !failed_; ++i) {
        const Item& item = items[i];
        history_.push_back("  item: " + name_of(item.from) + "/" + printable_name(item.name) +
                           " to " + name_of(item.to) + "/" + printable_name(item.new_name));
        const Errc wanted =
            model_.rename(caller, model(item.from), item.name, model(item.to), item.new_name);
        expect_item_code(results[i], wanted, item.in_file);
    }
}

void RandomOperations::do_create_many() {
    const Caller& caller = pick_caller();
    const u64 count = pick_batch_size(chance(3) ? 300 : 20);
    const u64 shared = pick_directory();
    std::vector<u64> directories(count);
    std::vector<std::string> names(count);
    std::vector<std::string> targets(count);
    std::vector<Creation> creations(count);
    for (u64 i = 0; i < count; ++i) {
        directories[i] = chance(10) ? pick_directory() : shared;
        names[i] = chance(4) ? pick_name() : "w" + std::to_string(random_.below(400 + count));
        creations[i].directory = real(directories[i]);
        creations[i].name = names[i];
        creations[i].options = pick_options(targets[i]);
        creations[i].options.target = targets[i];
    }
    std::vector<Result<Attributes>> results(count);
    begin("create " + std::to_string(count) + " by " + std::to_string(caller.user));
    volume_->create_many(caller, creations, results);
    end();
    for (u64 i = 0; i < count && !failed_; ++i) {
        history_.push_back("  item: " + name_of(directories[i]) + "/" + printable_name(names[i]) +
                           " mode " + std::to_string(creations[i].options.mode));
        const auto wanted =
            model_.create(caller, model(directories[i]), names[i], creations[i].options);
        // Later items may have changed a directory created earlier, so its attributes are compared
        // in part.
        expect_code(results[i].code(), wanted.code());
        if (failed_ || !wanted) continue;
        note_new(wanted->handle.inode, results[i]->handle);
        if (results[i]->mode != wanted->mode || results[i]->user != wanted->user ||
            results[i]->group != wanted->group || results[i]->size != wanted->size) {
            fail("makes an inode with other attributes");
        }
    }
}

/// Creates nested directories, deeper than those of the other operations.
void RandomOperations::do_make_chain() {
    const Caller& caller = pick_caller();
    u64 at = pick_directory();
    CreateOptions options;
    options.mode = directory_mode | 0777;
    for (u64 depth = random_.below(60); depth > 0 && !failed_; --depth) {
        begin("mkdir in a chain " + name_of(at) + "/a");
        const auto found = volume_->create(caller, real(at), "a", options);
        end();
        const auto wanted = model_.create(caller, model(at), "a", options);
        expect_inode(found, wanted, Hold::no, true);
        if (!wanted) return;
        at = wanted->handle.inode;
    }
}

void RandomOperations::do_rebuild() {
    const Caller& caller = pick_caller();
    const u64 number = pick_directory();
    const ModelInode* inode = model_.find(model(number));
    begin("rebuild " + name_of(number) + " by " + std::to_string(caller.user));
    Rebuilt rebuilt;
    const Errc found = volume_->rebuild(caller, real(number), rebuilt);
    end();
    model_.blur_times(model(number));
    Errc wanted = model_.check_access(caller, model(number), 2);
    if (inode != nullptr && !is_mode_of(inode->mode, directory_mode)) wanted = Errc::not_directory;
    expect_code(found, wanted);
    if (failed_ || found != Errc::ok) return;
    if (rebuilt.entries != inode->entries.size()) fail("counts other entries");
    if (rebuilt.blocks_after > rebuilt.blocks_before) fail("the directory has grown");
}

/// A filter, which may let everything pass.
ScanFilter RandomOperations::pick_filter() {
    static constexpr const char* patterns[] = {"*",         "w*",  "[a-e]", "?",
                                               "w[!1-3]*0", "\\a", "*9*9*"};
    ScanFilter filter;
    if (chance(2)) return filter;
    if (chance(2)) filter.pattern = patterns[random_.below(std::size(patterns))];
    if (chance(2)) filter.types = static_cast<u16>(random_.next());
    if (chance(3)) filter.depth_max = static_cast<u32>(random_.below(4));
    return filter;
}

namespace {

/// Whether scan() shows this file. Directories are always shown.
bool passes(const ScanFilter& filter, const std::string& name, const ModelInode& inode) {
    if (is_mode_of(inode.mode, directory_mode)) return true;
    const std::string pattern(filter.pattern);
    return (filter.types >> (inode.mode >> 12) & 1) != 0 &&
           (pattern.empty() || ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0);
}

}  // namespace

void RandomOperations::do_scan() {
    const Caller& caller = pick_caller();
    const u64 root = pick_directory();
    const ScanFilter filter = pick_filter();
    using Seen = std::tuple<u64, std::string, u32, u64>;  // directory, name, depth, inode
    std::multiset<Seen> found;
    std::multiset<Seen> wanted;
    std::mutex mutex;
    begin("scan " + name_of(root) + " for " + printable_name(filter.pattern) + " types " +
          std::to_string(filter.types) + " depth " + std::to_string(filter.depth_max) + " by " +
          std::to_string(caller.user));
    const Errc code = volume_->scan(
        caller, real(root),
        [&](const Scanned& one) {
            const std::lock_guard guard(mutex);
            found.emplace(one.directory.inode, std::string(one.name), one.depth,
                          one.attributes.handle.inode);
            return true;
        },
        filter);
    end();
    if (model_.find(model(root)) == nullptr) return expect_code(code, Errc::stale);
    Errc wanted_code = Errc::ok;
    std::vector<std::pair<u64, u32>> left = {{root, 0}};
    wanted.emplace(real(root).inode, "", 0, real(root).inode);
    while (!left.empty()) {
        const auto [number, depth] = left.back();
        left.pop_back();
        const ModelInode& directory = *model_.find(model(number));
        model_.blur_times(model(number));
        if (directory.entries.empty() || depth >= filter.depth_max) continue;
        if (model_.check_access(caller, model(number), 5) != Errc::ok) {
            wanted_code = Errc::access;
            continue;
        }
        for (const auto& [name, child] : directory.entries) {
            if (passes(filter, name, *model_.find(model(child)))) {
                wanted.emplace(real(number).inode, name, depth + 1, real(child).inode);
            }
            left.emplace_back(child, depth + 1);
        }
    }
    expect_code(code, wanted_code);
    if (failed_ || code != Errc::ok) return;
    if (found != wanted) {
        fail("visits " + std::to_string(found.size()) + " inodes, not " +
             std::to_string(wanted.size()) + ", or others");
    }
}

void RandomOperations::do_usage() {
    const Caller& caller = pick_caller();
    const u64 root = pick_directory();
    std::vector<DirectoryUsage> usage;
    begin("usage of " + name_of(root) + " by " + std::to_string(caller.user));
    const Errc code =
        volume_->usage(caller, real(root), {.depth_max = 0, .counts_links = true}, usage);
    end();
    if (model_.find(model(root)) == nullptr) return expect_code(code, Errc::stale);
    Errc wanted_code = Errc::ok;
    u64 entries = 1;
    std::vector<u64> left = {root};
    while (!left.empty()) {
        const u64 number = left.back();
        left.pop_back();
        const ModelInode& directory = *model_.find(model(number));
        model_.blur_times(model(number));
        if (directory.entries.empty()) continue;
        if (model_.check_access(caller, model(number), 5) != Errc::ok) wanted_code = Errc::access;
        entries += directory.entries.size();
        for (const auto& [name, child] : directory.entries)
            left.push_back(child);
    }
    expect_code(code, wanted_code);
    if (failed_ || code != Errc::ok) return;
    if (usage.size() != 1 || usage[0].entries != entries) {
        fail("counts " + std::to_string(usage.empty() ? 0 : usage[0].entries) + " entries, not " +
             std::to_string(entries));
    }
}

void RandomOperations::do_lookup_many() {
    const Caller& caller = pick_caller();
    const u64 count = pick_batch_size(chance(3) ? 300 : 20);
    const u64 shared = pick_directory();
    std::vector<u64> directories(count);
    std::vector<std::string> names(count);
    std::vector<Lookup> lookups(count);
    for (u64 i = 0; i < count; ++i) {
        directories[i] = chance(4) ? pick_directory() : shared;
        names[i] = pick_entry(directories[i]);
        lookups[i] = {real(directories[i]), names[i]};
    }
    std::vector<Result<Attributes>> results(count, Errc::io);
    begin("look up " + std::to_string(count) + " by " + std::to_string(caller.user));
    volume_->lookup_many(caller, lookups, results);
    end();
    for (u64 i = 0; i < count && !failed_; ++i) {
        history_.push_back("  item: " + name_of(directories[i]) + "/" + printable_name(names[i]));
        expect_inode(results[i], model_.lookup(caller, model(directories[i]), names[i]));
    }
}

void RandomOperations::do_remove_many() {
    const Caller& caller = pick_caller();
    const u64 count = pick_batch_size(chance(3) ? 200 : 20);
    const u64 shared = pick_directory();
    const bool of_files_mostly = chance(2);
    std::vector<u64> directories(count);
    std::vector<std::string> names(count);
    std::vector<Unlink> items(count);
    std::vector<bool> in_file(count);
    for (u64 i = 0; i < count; ++i) {
        directories[i] = chance(4) ? pick_directory() : shared;
        in_file[i] = is_file(directories[i]);
        names[i] = pick_entry(directories[i]);
        items[i] = {real(directories[i]), names[i], chance(of_files_mostly ? 30 : 3)};
    }
    std::vector<Errc> results(count, Errc::io);
    begin("remove " + std::to_string(count) + " names by " + std::to_string(caller.user));
    volume_->remove_many(caller, items, results);
    end();
    for (u64 i = 0; i < count && !failed_; ++i) {
        history_.push_back(std::string("  item: ") + (items[i].is_directory ? "rmdir " : "") +
                           name_of(directories[i]) + "/" + printable_name(names[i]));
        const Errc wanted = items[i].is_directory
                                ? model_.remove_directory(caller, model(directories[i]), names[i])
                                : model_.unlink(caller, model(directories[i]), names[i]);
        expect_item_code(results[i], wanted, in_file[i]);
    }
}

void RandomOperations::make_room(const std::function<void()>& after_each) {
    constexpr u64 root = ModelFileSystem::root_number;
    while (!failed_) {
        const auto& entries = model_.find(model_.root())->entries;
        if (entries.empty()) break;
        const std::string name = entries.begin()->first;
        begin("remove tree /" + printable_name(name) + " to make room");
        Removal removal;
        const Errc found = volume_->remove_tree(anybody, real(root), name, removal);
        end();
        expect_code(found, *model_.remove_tree(anybody, model_.root(), name, removal).begin());
        after_each();
    }
    drop_dead_opens();
    note_removals();
}

}  // namespace warren
