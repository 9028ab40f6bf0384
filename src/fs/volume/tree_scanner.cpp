// SPDX-License-Identifier: Apache-2.0
// One directory is one task. An entry that vanishes while the scan runs is skipped.
#include "fs/volume/tree_scanner.hpp"

#include <algorithm>
#include <memory>

#include "base/out_of_memory.hpp"
#include "fs/volume/part_tree.hpp"

namespace warren {

using ops::Verb;

namespace {

Result<Attributes> attributes_in(const ops::Reply& reply) {
    return reply.code == Errc::ok ? Result<Attributes>(reply.attributes)
                                  : Result<Attributes>(reply.code);
}

bool is_directory(const Attributes& attributes) {
    return (attributes.mode & format::type_mask) == format::type_directory;
}

/// What a directory's task may find because somebody removed something meanwhile.
bool has_vanished(Errc code) {
    return code == Errc::stale || code == Errc::no_entry;
}

}  // namespace

Errc TreeScanner::scan(const ScanCall& call) {
    const Visitor visitor{core::may_read | core::may_execute,
                          call.filter,
                          call.visit,
                          {},
                          {},
                          core::TreeCheck::as_rm};
    const Directory root{call.root, 0};
    root_ = call.root.handle.inode;
    return walk(call.caller, {&root, 1}, visitor);
}

Errc TreeScanner::scan_on(const core::Credentials& caller, const ops::FileFilter& files,
                          const std::function<bool(const Scanned&)>& visit, const ScanSteps& steps,
                          std::vector<ScanPosition>& left) {
    // The latest ones, as the crew takes its tasks: so few are left at any time. And not all, or a
    // step would be spent with putting tasks off that it has no room for.
    constexpr std::size_t most = 1024;
    const Visitor visitor{core::may_read | core::may_execute,
                          files,
                          visit,
                          {},
                          steps.is_full,
                          core::TreeCheck::as_rm};
    const std::size_t begin = left.size() - std::min(left.size(), most);
    std::vector<Directory> first;
    for (const ScanPosition& position : std::span(left).subspan(begin)) {
        Directory directory{{}, position.depth, position.from};
        directory.attributes.handle = position.directory;
        if (position.depth == 0) root_ = position.directory.inode;
        first.push_back(directory);
    }
    WARREN_TRY(walk(caller, first, visitor));
    left.resize(begin);
    left.insert(left.end(), left_.begin(), left_.end());
    return Errc::ok;
}

Errc TreeScanner::check_removable(const core::Credentials& caller, Handle root,
                                  core::TreeCheck check) {
    const Result<Attributes> attributes = volume_.ask<Verb::get_attributes>(command_on(root));
    if (!attributes) return attributes.code();
    Visitor visitor;
    visitor.permission = core::may_read | core::may_write | core::may_execute;
    visitor.entry = [](const Scanned&) { return true; };
    visitor.check = [&](const Attributes& directory, const Attributes& entry) {
        const bool is_bound = core::must_own_entries(caller, directory.mode, directory.user) &&
                              !caller.owns(entry.user);
        return is_bound ? Errc::not_permitted : Errc::ok;
    };
    visitor.tree_check = check;
    const Directory first{*attributes, 0};
    root_ = root.inode;
    return walk(caller, {&first, 1}, visitor);
}

Errc TreeScanner::walk(const core::Credentials& caller, std::span<const Directory> first,
                       const Visitor& visitor) {
    const auto visit = [&](Crew::Worker& worker, const Task& task) {
        const std::unique_ptr<Directory> directory(static_cast<Directory*>(task.context));
        if (error_ != Errc::ok) return;
        const Errc code = or_no_memory([&] { return list(worker, caller, *directory, visitor); });
        if (code == Errc::ok || has_vanished(code)) return;
        Errc none = Errc::ok;
        error_.compare_exchange_strong(none, code);
    };
    std::vector<std::unique_ptr<Directory>> owned;
    std::vector<Task> tasks;
    for (const Directory& directory : first) {
        owned.push_back(std::make_unique<Directory>(directory));
        tasks.push_back({0, 0, owned.back().get()});
    }
    WARREN_TRY(or_no_memory([&] {
        volume_.crew().run(std::move(tasks), visit);
        return Errc::ok;
    }));
    for (std::unique_ptr<Directory>& directory : owned)
        static_cast<void>(directory.release());  // its task had it
    return error_;
}

Errc TreeScanner::list(Crew::Worker& worker, const core::Credentials& caller,
                       const Directory& directory, const Visitor& visitor) {
    const Handle handle = directory.attributes.handle;
    const auto leaf = std::make_unique<format::DirectoryLeaf>();
    ops::Command read = command_on(handle);
    read.buffer = leaf.get();
    read.buffer_bytes = sizeof *leaf;
    ops::Command check = command_on(handle);
    check.caller = caller;
    check.mode = visitor.permission;
    const bool checks_whole = visitor.tree_check == core::TreeCheck::whole;
    const Attributes& own = directory.attributes;
    if (checks_whole && core::must_own_entries(caller, own.mode, own.user)) {
        return Errc::not_permitted;
    }
    bool may_list = false;
    for (u64 key = directory.from; key != core::key_end;) {
        // The first names of all are listed in any case: the position before them is that of a scan
        // that has not begun.
        const bool may_wait = visitor.is_full && (key != 0 || directory.depth != 0);
        if (may_wait && visitor.is_full()) {
            const std::lock_guard lock(mutex_);
            left_.push_back({handle, directory.depth, key});
            return Errc::ok;
        }
        read.from = key;
        const Result<u64> next = volume_.ask<Verb::read_leaf>(read);
        if (!next) return next.code();
        if ((leaf->count > 0 || checks_whole) && !may_list) {
            // An empty directory asks for no permission: there is nothing to see or to remove.
            WARREN_TRY(volume_.ask<Verb::check_access>(check));
            may_list = true;
        }
        WARREN_TRY(list_leaf(worker, directory, *leaf, key, visitor));
        key = *next;
    }
    return Errc::ok;
}

/// Asks for the attributes of what all these names mean at once.
std::vector<ops::Reply> TreeScanner::ask_for(const std::vector<EntryView>& names) {
    std::vector<ops::Command> commands(names.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
        commands[i].verb = Verb::attributes_of;
        commands[i].from = names[i].inode;
    }
    std::vector<ops::Reply> replies(commands.size());
    volume_.execute_many(commands, replies);
    return replies;
}

Errc TreeScanner::list_leaf(Crew::Worker& worker, const Directory& directory,
                            const format::DirectoryLeaf& leaf, u64 from, const Visitor& visitor) {
    std::vector<EntryView> names;
    names.reserve(format::leaf_entries_max);
    WARREN_TRY(for_each_entry(leaf, from, [&](const EntryView& entry) {
        const auto length = static_cast<u32>(entry.name.size());
        const bool is_wanted = entry.type == format::entry_type(format::type_directory) ||
                               visitor.files.wants_name(entry.name.data(), length, entry.type);
        if (is_wanted) names.push_back(entry);
    }));
    // An engine with memory of its own is asked once for all entries.
    const bool is_host = volume_.works_on_host();
    const std::vector<ops::Reply> asked = is_host ? std::vector<ops::Reply>() : ask_for(names);
    for (std::size_t i = 0; i < names.size(); ++i) {
        const Result<Attributes> attributes =
            is_host ? volume_.ask<Verb::attributes_of>(
                          [&](ops::Command& command) { command.from = names[i].inode; })
                    : attributes_in(asked[i]);
        if (!attributes) {
            if (has_vanished(attributes.code())) continue;
            return attributes.code();
        }
        WARREN_TRY(visit_name(worker, directory, names[i], *attributes, visitor));
    }
    return Errc::ok;
}

/// A name has led to a directory that lies elsewhere by its own word, or to the root of the scan.
/// Errc::corrupt if it still does; else it was moved, and is met where it is. A scan that went on
/// there might go in a circle for ever.
Errc TreeScanner::explain_stray(const Directory& directory, const EntryView& named, Handle met) {
    const Handle in = directory.attributes.handle;
    const Result<Attributes> now = volume_.ask<Verb::lookup>([&](ops::Command& command) {
        set_subject(command, in);
        set_name(command, named.name);
        command.caller.check = false;
    });
    if (!now) return has_vanished(now.code()) ? Errc::ok : now.code();
    const bool is_here = now->parent == in.inode && now->handle.inode != root_;
    return now->handle == met && !is_here ? Errc::corrupt : Errc::ok;
}

Errc TreeScanner::visit_name(Crew::Worker& worker, const Directory& directory,
                             const EntryView& named, const Attributes& attributes,
                             const Visitor& visitor) {
    const bool descends = is_directory(attributes);
    const bool is_stray =
        attributes.parent != directory.attributes.handle.inode || attributes.handle.inode == root_;
    if (descends && is_stray) return explain_stray(directory, named, attributes.handle);
    if (visitor.check) WARREN_TRY(visitor.check(directory.attributes, attributes));
    if (!descends && !visitor.files.wants_file(attributes.size, attributes.modified)) {
        return Errc::ok;
    }
    Scanned found;
    found.directory = directory.attributes.handle;
    found.name = named.name;
    found.depth = directory.depth + 1;
    found.attributes = attributes;
    if (!visitor.entry(found) || !descends || found.depth >= visitor.files.depth_max) {
        return Errc::ok;
    }
    auto below = std::make_unique<Directory>(Directory{attributes, found.depth});
    worker.push({0, 0, below.get()});
    below.release();
    return Errc::ok;
}

Result<std::vector<u64>> TreeScanner::ranges(Handle directory) {
    if (!volume_.works_on_host()) return std::vector<u64>{0};
    return volume_.run([&](CpuOperation& op) -> Result<std::vector<u64>> {
        const Result<core::InodeRef> inode = core::find_directory(op, directory);
        if (!inode) return inode.code();
        return or_no_memory([&]() -> Result<std::vector<u64>> { return part_tree(op, *inode); });
    });
}

}  // namespace warren
