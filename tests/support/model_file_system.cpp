// SPDX-License-Identifier: Apache-2.0
// Names and inodes of the model. Each function follows the text of a manual page: the checks in
// order, then the change.
#include "tests/support/model_file_system.hpp"

namespace warren {
namespace {

constexpr u32 setgid = 02000;
constexpr u32 sticky = 01000;
constexpr u32 link_target_max = 4095;

Errc check_name(std::string_view name) {
    if (name.size() > 255) return Errc::name_too_long;
    if (name.empty()) return Errc::no_entry;
    if (name == "." || name == "..") return Errc::invalid;
    const bool is_good = name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
    return is_good ? Errc::ok : Errc::invalid;
}

}  // namespace

ModelFileSystem::ModelFileSystem(u32 root_mode) {
    ModelInode& inode = inodes_[root_number];
    inode.mode = directory_mode | root_mode;
    inode.links = 2;
    inode.parent = root_number;
    constexpr ModelTime any{INT64_MIN, INT64_MAX};
    inode.times = {any, any, any, any};
}

const ModelInode* ModelFileSystem::find(Handle handle) const {
    const auto found = inodes_.find(handle.inode);
    return found == inodes_.end() ? nullptr : &found->second;
}

void ModelFileSystem::blur_times(Handle handle) {
    const auto found = inodes_.find(handle.inode);
    if (found == inodes_.end()) return;
    ModelTimes& times = found->second.times;
    for (ModelTime* time : {&times.accessed, &times.modified, &times.changed}) {
        time->earliest = std::min(time->earliest, now_.earliest);
        time->latest = std::max(time->latest, now_.latest);
    }
}

bool ModelFileSystem::allows(const Caller& caller, u64 number, u32 wanted) const {
    const ModelInode& inode = at(number);
    return is_allowed(caller, inode.mode, inode.user, inode.group, inode.attributes, wanted);
}

bool ModelFileSystem::is_kept_by_sticky(const Caller& caller, const Found& found) const {
    const ModelInode& directory = at(found.directory);
    return (directory.mode & sticky) != 0 && !acts_as_owner(caller, directory.user) &&
           caller.user != at(found.inode).user;
}

/// The first steps of every call with a name. The name need not exist.
Result<ModelFileSystem::Found> ModelFileSystem::look(const Caller& caller, Handle directory,
                                                     std::string_view name) const {
    const ModelInode* where = find(directory);
    if (where == nullptr) return Errc::stale;
    if (!is_mode_of(where->mode, directory_mode)) return Errc::not_directory;
    if (!allows(caller, directory.inode, 1)) return Errc::access;
    WARREN_TRY(check_name(name));
    const auto found = where->entries.find(name);
    return Found{directory.inode, found == where->entries.end() ? 0 : found->second};
}

Attributes ModelFileSystem::describe(u64 number) const {
    const ModelInode& inode = at(number);
    Attributes out;
    out.handle = handle_of(number);
    out.mode = inode.mode;
    out.links = inode.links;
    out.user = inode.user;
    out.group = inode.group;
    out.device = inode.device;
    out.size = inode.size;
    out.parent = inode.parent;
    return out;
}

Result<Attributes> ModelFileSystem::lookup(const Caller& caller, Handle directory,
                                           std::string_view name) const {
    const Result<Found> found = look(caller, directory, name);
    if (!found) return found.code();
    if (found->inode == 0) return Errc::no_entry;
    return describe(found->inode);
}

void ModelFileSystem::touch_directory(u64 directory) {
    at(directory).times.modified = now_;
    at(directory).times.changed = now_;
}

void ModelFileSystem::add_entry(u64 directory, std::string_view name, u64 inode) {
    at(directory).entries.insert_or_assign(std::string(name), inode);
    touch_directory(directory);
}

void ModelFileSystem::drop_entry(u64 directory, std::string_view name) {
    auto& entries = at(directory).entries;
    entries.erase(entries.find(name));
    removals_.emplace_back(directory, std::string(name));
    touch_directory(directory);
}

void ModelFileSystem::erase_if_unused(u64 number) {
    const ModelInode& inode = at(number);
    if (inode.links == 0 && inode.opens == 0) inodes_.erase(number);
}

/// Removes one name of an inode; a directory has only one.
void ModelFileSystem::drop_name_of(u64 number) {
    ModelInode& inode = at(number);
    inode.links = is_mode_of(inode.mode, directory_mode) ? 0 : inode.links - 1;
    inode.times.changed = now_;
    erase_if_unused(number);
}

u64 ModelFileSystem::make_inode(const Caller& caller, u64 parent, const CreateOptions& options) {
    const u64 number = next_++;
    const ModelInode& above = at(parent);
    ModelInode fresh;
    fresh.user = caller.user;
    fresh.group = (above.mode & setgid) != 0 ? above.group : caller.group;
    fresh.mode = options.mode;
    const bool is_directory = is_mode_of(options.mode, directory_mode);
    if (is_directory && (above.mode & setgid) != 0) fresh.mode |= setgid;
    if (!is_directory && !is_privileged(caller) && !is_in_group(caller, fresh.group)) {
        fresh.mode &= ~setgid;
    }
    const bool is_symlink = is_mode_of(options.mode, symlink_mode);
    const auto inherited = above.attributes.find(default_acl);
    if (!is_symlink && inherited == above.attributes.end()) fresh.mode &= ~(caller.umask & 0777);
    if (!is_symlink && inherited != above.attributes.end()) {
        ModelAcl acl;
        static_cast<void>(ModelAcl::parse(inherited->second, acl));
        fresh.mode &= ~u32{0777} | acl.mode();
        if (is_directory) fresh.attributes.emplace(default_acl, inherited->second);
        acl.set_mode(fresh.mode);
        if (!acl.is_plain()) fresh.attributes.emplace(access_acl, acl.value());
    }
    fresh.device = options.device;
    fresh.links = is_directory ? 2 : 1;
    fresh.parent = is_directory ? parent : 0;
    fresh.target = options.target;
    fresh.size = options.target.size();
    fresh.opens = options.open ? 1 : 0;
    fresh.times = {now_, now_, now_, now_};
    inodes_.emplace(number, std::move(fresh));
    return number;
}

Result<Attributes> ModelFileSystem::create(const Caller& caller, Handle directory,
                                           std::string_view name, const CreateOptions& options) {
    if (options.target.size() > link_target_max) return Errc::name_too_long;
    const Result<Found> found = look(caller, directory, name);
    if (!found) return found.code();
    if (found->inode != 0) return Errc::exists;
    if (!allows(caller, directory.inode, 2)) return Errc::access;
    if (is_dead(directory.inode)) return Errc::no_entry;
    if (!may_make(caller, options.mode, options.device)) return Errc::not_permitted;
    const u64 number = make_inode(caller, directory.inode, options);
    add_entry(directory.inode, name, number);
    if (is_mode_of(options.mode, directory_mode)) ++at(directory.inode).links;
    return describe(number);
}

Result<Attributes> ModelFileSystem::create_unnamed(const Caller& caller, Handle directory,
                                                   const CreateOptions& options) {
    const ModelInode* where = find(directory);
    if (where == nullptr) return Errc::stale;
    if (!is_mode_of(where->mode, directory_mode)) return Errc::not_directory;
    if (!allows(caller, directory.inode, 3)) return Errc::access;
    if (!may_make(caller, options.mode, options.device)) return Errc::not_permitted;
    const u64 number = make_inode(caller, directory.inode, options);
    at(number).links = 0;
    at(number).opens = 1;
    at(number).is_unnamed = true;
    return describe(number);
}

Result<Attributes> ModelFileSystem::link(const Caller& caller, Handle file, Handle directory,
                                         std::string_view name) {
    const ModelInode* inode = find(file);
    if (inode == nullptr) return Errc::stale;
    const Result<Found> found = look(caller, directory, name);
    if (!found) return found.code();
    if (found->inode != 0) return Errc::exists;
    if (is_mode_of(inode->mode, directory_mode)) return Errc::not_permitted;
    if (inode->links == 0 && !inode->is_unnamed) return Errc::no_entry;
    if (!allows(caller, directory.inode, 2)) return Errc::access;
    if (is_dead(directory.inode)) return Errc::no_entry;
    ModelInode& linked = at(file.inode);
    ++linked.links;
    linked.is_unnamed = false;
    linked.times.changed = now_;
    add_entry(directory.inode, name, file.inode);
    return describe(file.inode);
}

Errc ModelFileSystem::remove(const Caller& caller, Handle directory, std::string_view name,
                             bool is_rmdir) {
    const Result<Found> found = look(caller, directory, name);
    if (!found) return found.code();
    if (found->inode == 0) return Errc::no_entry;
    if (!allows(caller, directory.inode, 2)) return Errc::access;
    if (is_kept_by_sticky(caller, *found)) return Errc::not_permitted;
    const ModelInode& inode = at(found->inode);
    const bool is_directory = is_mode_of(inode.mode, directory_mode);
    if (is_rmdir && !is_directory) return Errc::not_directory;
    if (!is_rmdir && is_directory) return Errc::is_directory;
    if (!inode.entries.empty()) return Errc::not_empty;
    drop_entry(directory.inode, name);
    if (is_directory) --at(directory.inode).links;
    drop_name_of(found->inode);
    return Errc::ok;
}

Errc ModelFileSystem::unlink(const Caller& caller, Handle directory, std::string_view name) {
    return remove(caller, directory, name, false);
}

Errc ModelFileSystem::remove_directory(const Caller& caller, Handle directory,
                                       std::string_view name) {
    return remove(caller, directory, name, true);
}

bool ModelFileSystem::lies_at_or_below(u64 directory, u64 above) const {
    for (u64 number = directory;;) {
        if (number == above) return true;
        const auto found = inodes_.find(number);
        if (number == root_number || found == inodes_.end()) return false;
        number = found->second.parent;
    }
}

Errc ModelFileSystem::check_rename(const Caller& caller, const Found& from, const Found& to,
                                   Rename how) const {
    if (from.inode == 0) return Errc::no_entry;
    const bool may_replace = how != Rename::no_replace && how != Rename::whiteout_no_replace;
    if (!may_replace && to.inode != 0) return Errc::exists;
    if (how == Rename::exchange && to.inode == 0) return Errc::no_entry;
    if (!allows(caller, from.directory, 2) || !allows(caller, to.directory, 2)) {
        return Errc::access;
    }
    if (is_kept_by_sticky(caller, from)) return Errc::not_permitted;
    if (to.inode != 0 && is_kept_by_sticky(caller, to)) return Errc::not_permitted;
    if (from.inode == to.inode) return Errc::ok;
    const bool moves = is_mode_of(at(from.inode).mode, directory_mode);
    const bool meets = to.inode != 0 && is_mode_of(at(to.inode).mode, directory_mode);
    if (how != Rename::exchange && to.inode != 0) {
        if (moves && !meets) return Errc::not_directory;
        if (!moves && meets) return Errc::is_directory;
    }
    if (from.directory != to.directory) {
        const bool comes_back = meets && how == Rename::exchange;
        // Moving a directory changes its "..".
        if (moves && !allows(caller, from.inode, 2)) return Errc::access;
        if (comes_back && !allows(caller, to.inode, 2)) return Errc::access;
        // A removed directory is not connected to the root, so it cannot be below anything.
        if (moves && is_dead(to.directory)) return Errc::no_entry;
        if (moves && lies_at_or_below(to.directory, from.inode)) return Errc::invalid;
        if (comes_back && lies_at_or_below(from.directory, to.inode)) return Errc::invalid;
    }
    if (how == Rename::exchange) return Errc::ok;
    if (to.inode != 0 && !at(to.inode).entries.empty()) return Errc::not_empty;
    return to.inode == 0 && is_dead(to.directory) ? Errc::no_entry : Errc::ok;
}

/// Updates an inode that has got a name in another directory.
void ModelFileSystem::arrive(u64 inode, u64 from, u64 to) {
    at(inode).times.changed = now_;
    if (!is_mode_of(at(inode).mode, directory_mode) || from == to) return;
    at(inode).parent = to;
    --at(from).links;
    ++at(to).links;
}

void ModelFileSystem::exchange(const Found& from, std::string_view name, const Found& to,
                               std::string_view new_name) {
    add_entry(from.directory, name, to.inode);
    add_entry(to.directory, new_name, from.inode);
    arrive(from.inode, from.directory, to.directory);
    arrive(to.inode, to.directory, from.directory);
}

Errc ModelFileSystem::rename(const Caller& caller, Handle from, std::string_view name, Handle to,
                             std::string_view new_name, Rename how) {
    const Result<Found> source = look(caller, from, name);
    if (!source) return source.code();
    const Result<Found> target = look(caller, to, new_name);
    if (!target) return target.code();
    WARREN_TRY(check_rename(caller, *source, *target, how));
    if (source->inode == target->inode) return Errc::ok;
    if (how == Rename::exchange) {
        exchange(*source, name, *target, new_name);
        return Errc::ok;
    }
    if (how == Rename::whiteout || how == Rename::whiteout_no_replace) {
        add_entry(from.inode, name, make_inode(caller, from.inode, {.mode = 0020000}));
    } else {
        drop_entry(from.inode, name);
    }
    add_entry(to.inode, new_name, source->inode);
    arrive(source->inode, from.inode, to.inode);
    if (target->inode != 0) {
        if (is_mode_of(at(target->inode).mode, directory_mode)) --at(to.inode).links;
        drop_name_of(target->inode);
    }
    return Errc::ok;
}

Result<std::string> ModelFileSystem::read_link(Handle link) const {
    const ModelInode* inode = find(link);
    if (inode == nullptr) return Errc::stale;
    if (!is_mode_of(inode->mode, symlink_mode)) return Errc::invalid;
    return inode->target;
}

Result<Attributes> ModelFileSystem::resolve(const Caller& caller, std::string_view path) const {
    Result<Attributes> here = describe(root_number);
    while (here) {
        const std::size_t start = path.find_first_not_of('/');
        if (start == std::string_view::npos) break;
        path.remove_prefix(start);
        const std::string_view name = path.substr(0, path.find('/'));
        path.remove_prefix(name.size());
        if (name != "." && name != "..") {
            here = lookup(caller, here->handle, name);
            continue;
        }
        const u64 number = here->handle.inode;
        if (!is_mode_of(here->mode, directory_mode)) return Errc::not_directory;
        if (!allows(caller, number, 1)) return Errc::access;
        if (name == "..") here = describe(at(number).parent);
    }
    return here;
}

/// The errors that `rm -r` would meet below a directory, any of which may be returned.
std::set<Errc> ModelFileSystem::why_not_removable(const Caller& caller, u64 root) const {
    std::set<Errc> reasons;
    std::vector<u64> left = {root};
    while (!left.empty()) {
        const u64 number = left.back();
        left.pop_back();
        const ModelInode& directory = at(number);
        if (!directory.entries.empty() && !allows(caller, number, 7)) reasons.insert(Errc::access);
        for (const auto& [name, child] : directory.entries) {
            if (is_kept_by_sticky(caller, {number, child})) reasons.insert(Errc::not_permitted);
            if (is_mode_of(at(child).mode, directory_mode)) left.push_back(child);
        }
    }
    return reasons;
}

void ModelFileSystem::erase_tree(u64 root, Removal& removal) {
    std::vector<u64> left = {root};
    while (!left.empty()) {
        const u64 number = left.back();
        left.pop_back();
        ++removal.directories;
        for (const auto& [name, child] : at(number).entries) {
            if (is_mode_of(at(child).mode, directory_mode)) {
                left.push_back(child);
            } else {
                ++removal.files;
                drop_name_of(child);
            }
        }
        inodes_.erase(number);
    }
}

std::set<Errc> ModelFileSystem::remove_tree(const Caller& caller, Handle directory,
                                            std::string_view name, Removal& removal) {
    const Result<Found> found = look(caller, directory, name);
    if (!found) return {found.code()};
    if (found->inode == 0) return {Errc::no_entry};
    if (!is_mode_of(at(found->inode).mode, directory_mode)) {
        const Errc removed = remove(caller, directory, name, false);
        if (removed == Errc::ok) ++removal.files;
        return {removed};
    }
    std::set<Errc> reasons = why_not_removable(caller, found->inode);
    if (!allows(caller, directory.inode, 2)) reasons.insert(Errc::access);
    if (is_kept_by_sticky(caller, *found)) reasons.insert(Errc::not_permitted);
    if (!reasons.empty()) return reasons;
    drop_entry(directory.inode, name);
    --at(directory.inode).links;
    erase_tree(found->inode, removal);
    return {Errc::ok};
}

}  // namespace warren
