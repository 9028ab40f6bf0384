// SPDX-License-Identifier: Apache-2.0
// Clones of files and trees in the model.
#include "tests/support/model_file_system.hpp"

namespace warren {

/// Why the caller may not copy a tree: something cannot be read, or is a device.
std::set<Errc> ModelFileSystem::why_not_copied(const Caller& caller, u64 number) const {
    const ModelInode& inode = at(number);
    if (!may_make(caller, inode.mode, inode.device)) return {Errc::not_permitted};
    if (is_mode_of(inode.mode, regular_mode) && !allows(caller, number, 4)) return {Errc::access};
    if (!is_mode_of(inode.mode, directory_mode)) return {};
    std::set<Errc> reasons;
    if (!allows(caller, number, 5)) reasons.insert(Errc::access);
    for (const auto& [name, below] : inode.entries)
        reasons.merge(why_not_copied(caller, below));
    return reasons;
}

Errc ModelFileSystem::check_clone(const Caller& caller, Handle source, Handle directory,
                                  std::string_view name) const {
    if (find(source) == nullptr) return Errc::stale;
    const ModelInode* where = find(directory);
    if (where == nullptr) return Errc::stale;
    if (!is_mode_of(where->mode, directory_mode)) return Errc::not_directory;
    if (!allows(caller, directory.inode, 3)) return Errc::access;
    const bool is_tree = is_mode_of(at(source.inode).mode, directory_mode);
    if (is_tree && lies_at_or_below(directory.inode, source.inode)) return Errc::invalid;
    const Result<Found> found = look({.check = false}, directory, name);
    if (!found) return found.code();
    if (found->inode != 0) {
        const ModelInode& there = at(found->inode);
        if (!is_tree || !is_mode_of(there.mode, directory_mode)) return Errc::exists;
        if (found->inode == source.inode) return Errc::invalid;
        if (!there.entries.empty()) return Errc::not_empty;
        if (!acts_as_owner(caller, there.user)) return Errc::not_permitted;
    }
    const std::set<Errc> reasons = why_not_copied(caller, source.inode);
    return reasons.empty() ? Errc::ok : *reasons.begin();
}

/// Copies an inode, without a name, and everything below it.
u64 ModelFileSystem::copy_inode(const Caller& caller, u64 number, u64 parent,
                                std::map<u64, u64>& copies, ClonedTree& done) {
    const u64 copied = next_++;
    copies.emplace(number, copied);
    ModelInode copy = at(number);
    const bool is_directory = is_mode_of(copy.mode, directory_mode);
    copy.opens = 0;
    copy.is_unnamed = false;
    copy.links = is_directory ? 2 : 0;  // each name is counted below
    copy.parent = is_directory ? parent : 0;
    copy.times.changed = copy.times.born = now_;
    if (!is_privileged(caller)) {
        const bool keeps_group = is_in_group(caller, copy.group);
        if (copy.user != caller.user || !keeps_group) copy.mode &= ~u32{07000};
        copy.user = caller.user;
        if (!keeps_group) copy.group = caller.group;
        std::erase_if(copy.attributes, [](const auto& attribute) {
            return attribute.first.starts_with("trusted.") ||
                   attribute.first.starts_with("security.");
        });
    }
    for (auto& [name, below] : copy.entries) {
        const auto known = copies.find(below);
        below =
            known != copies.end() ? known->second : copy_inode(caller, below, copied, copies, done);
        const bool is_tree = is_mode_of(at(below).mode, directory_mode);
        if (is_tree) ++copy.links;
        if (!is_tree) ++at(below).links;
        ++(is_tree ? done.directories : done.files);
    }
    inodes_.emplace(copied, std::move(copy));
    return copied;
}

Errc ModelFileSystem::clone(const Caller& caller, Handle source, Handle directory,
                            std::string_view name, ClonedTree& done) {
    WARREN_TRY(check_clone(caller, source, directory, name));
    if (is_dead(directory.inode)) return Errc::no_entry;
    if (look({.check = false}, directory, name)->inode != 0)
        static_cast<void>(remove_directory({.check = false}, directory, name));
    std::map<u64, u64> copies;
    const u64 copied = copy_inode(caller, source.inode, directory.inode, copies, done);
    add_entry(directory.inode, name, copied);
    const bool is_tree = is_mode_of(at(copied).mode, directory_mode);
    if (is_tree) ++at(directory.inode).links;
    if (!is_tree) ++at(copied).links;
    ++(is_tree ? done.directories : done.files);
    return Errc::ok;
}

}  // namespace warren
