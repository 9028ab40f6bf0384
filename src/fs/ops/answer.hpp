// SPDX-License-Identifier: Apache-2.0
// Maps each verb to a call of its operation: answer<verb>(op, command) returns the operation's
// result in its own type. This is for callers that know the verb at compile time; execute() is for
// callers that have only a command.
//
// Invariant: a command cannot do harm whatever its numbers are: they are checked, and the worst
// result is an error. Its pointers and their lengths are trusted, because the engine has set them.
#pragma once

#include <cstddef>

#include "fs/ops/allocate.hpp"
#include "fs/ops/attributes.hpp"
#include "fs/ops/change_structure.hpp"
#include "fs/ops/clone.hpp"
#include "fs/ops/command.hpp"
#include "fs/ops/count_shared.hpp"
#include "fs/ops/create.hpp"
#include "fs/ops/inode_frame.hpp"
#include "fs/ops/read_link.hpp"
#include "fs/ops/rebuild.hpp"
#include "fs/ops/reclaim.hpp"
#include "fs/ops/references.hpp"
#include "fs/ops/remove_tree.hpp"
#include "fs/ops/set_attributes.hpp"
#include "fs/ops/share.hpp"
#include "fs/ops/truncate.hpp"

namespace warren::ops {

/// Converts command.how to an enumeration that ends with `last`; false if it is out of range.
template <class Enum>
WARREN_HD inline bool how_of(const Command& command, Enum last, Enum& how) {
    how = static_cast<Enum>(command.how);
    return command.how <= static_cast<u8>(last);
}

// Arguments that operations take by reference are copied field by field, so that the compiler can
// keep them in registers instead of building a Command in memory.

WARREN_HD inline Credentials caller_of(const Command& command) {
    const Credentials& from = command.caller;
    return {from.user, from.group, from.groups, from.group_count, from.umask, from.check};
}

WARREN_HD inline AttributeChange change_of(const Command& command) {
    const AttributeChange& from = command.change;
    AttributeChange change;
    change.which = from.which;
    change.new_mode = from.new_mode;
    change.new_user = from.new_user;
    change.new_group = from.new_group;
    change.new_size = from.new_size;
    change.new_accessed = from.new_accessed;
    change.new_modified = from.new_modified;
    change.new_changed = from.new_changed;
    return change;
}

WARREN_HD inline CreateArguments create_arguments(const Command& command) {
    CreateArguments arguments;
    arguments.mode = command.mode;
    arguments.device = command.device;
    arguments.target = static_cast<const char*>(command.text);
    // The longest valid target is far shorter, so a length that is clamped here is still refused as
    // too long.
    arguments.target_length =
        command.text_bytes < 65536 ? static_cast<u32>(command.text_bytes) : 65536;
    arguments.references = command.references;
    arguments.now = command.now;
    return arguments;
}

template <Verb verb, class Team>
WARREN_HD inline auto answer_names(Operation<Team>& op, const Command& command) {
    if constexpr (verb == Verb::lookup) {
        return lookup(op, caller_of(command), command.handle, command.name, command.name_length,
                      command.references);
    } else if constexpr (verb == Verb::create) {
        return create(op, caller_of(command), command.handle, command.name, command.name_length,
                      create_arguments(command));
    } else if constexpr (verb == Verb::create_unnamed) {
        return create_unnamed(op, caller_of(command), command.handle, create_arguments(command));
    } else if constexpr (verb == Verb::link) {
        return link(op, caller_of(command), command.handle, command.target, command.name,
                    command.name_length, command.references, command.now);
    } else if constexpr (verb == Verb::unlink || verb == Verb::remove_directory) {
        return unlink(op, caller_of(command), command.handle, command.name, command.name_length,
                      verb == Verb::remove_directory, command.now);
    } else if constexpr (verb == Verb::rename) {
        Rename how;
        if (!how_of(command, rename_last, how)) return Result<Removed>(Errc::invalid);
        return rename(op, caller_of(command), command.handle, command.name, command.name_length,
                      command.target, command.new_name, command.new_name_length, how, command.now,
                      command.walk);
    } else if constexpr (verb == Verb::read_leaf) {
        if (command.buffer_bytes < sizeof(DirectoryLeaf)) return Result<u64>(Errc::invalid);
        auto& leaf = *static_cast<DirectoryLeaf*>(command.buffer);
        return read_leaf(op, command.handle, command.from, leaf);
    } else {
        static_assert(verb == Verb::read_link);
        return read_link(op, command.handle, static_cast<char*>(command.buffer),
                         command.buffer_bytes);
    }
}

template <Verb verb, class Team>
WARREN_HD inline auto answer_inodes(Operation<Team>& op, const Command& command) {
    if constexpr (verb == Verb::get_attributes) {
        return get_attributes(op, command.handle, command.references);
    } else if constexpr (verb == Verb::set_attributes) {
        const bool resizes = (command.change.which & AttributeChange::size) != 0;
        if (resizes) return Result<Attributes>(Errc::invalid);
        return set_attributes(op, caller_of(command), command.handle, change_of(command),
                              command.now);
    } else if constexpr (verb == Verb::handle_of) {
        return handle_of(op, command.from);
    } else if constexpr (verb == Verb::attributes_of) {
        const Result<InodeRef> inode = find_inode(op, command.from);
        return inode ? attributes_of(op, *inode) : Result<Attributes>(inode.code());
    } else if constexpr (verb == Verb::check_access) {
        return check_access(op, caller_of(command), command.handle, command.mode);
    } else if constexpr (verb == Verb::open_file) {
        return open_file(op, command.handle);
    } else if constexpr (verb == Verb::release_file) {
        return release_file(op, command.handle);
    } else if constexpr (verb == Verb::forget) {
        return forget(op, command.handle, command.references);
    } else if constexpr (verb == Verb::get_attribute) {
        return get_attribute(op, caller_of(command), command.handle, command.name,
                             command.name_length, static_cast<std::byte*>(command.buffer),
                             command.buffer_bytes);
    } else if constexpr (verb == Verb::list_attributes) {
        return list_attributes(op, caller_of(command), command.handle,
                               static_cast<char*>(command.buffer), command.buffer_bytes);
    } else {
        static_assert(verb == Verb::set_attribute || verb == Verb::remove_attribute);
        constexpr bool adds = verb == Verb::set_attribute;
        AttributeSet how = AttributeSet::replace;
        if (adds && !how_of(command, AttributeSet::replace, how)) return Errc::invalid;
        const auto* value = static_cast<const std::byte*>(adds ? command.text : nullptr);
        return change_attribute(op, caller_of(command), command.handle, command.name,
                                command.name_length, adds, value, adds ? command.text_bytes : 0,
                                how, command.now);
    }
}

/// `writer` moves the data between plan and apply, for the verbs whose comment in Verb names a
/// piece. Each of them calls it at most once in an attempt.
template <Verb verb, class Team, class Writer>
WARREN_HD inline auto answer_contents(Operation<Team>& op, const Command& command,
                                      const Writer& writer) {
    if constexpr (verb == Verb::map) {
        return map(op, command.handle, command.from);
    } else if constexpr (verb == Verb::tail_to_zero) {
        return tail_to_zero(op, command.handle, command.from);
    } else if constexpr (verb == Verb::store_inline) {
        return store_inline(op, command.handle, command.from,
                            static_cast<const std::byte*>(command.text), command.text_bytes,
                            command.now);
    } else if constexpr (verb == Verb::fill) {
        return fill(op, command.handle, command.from, command.length, command.now, writer);
    } else if constexpr (verb == Verb::truncate) {
        return truncate(op, command.handle, command.from, command.now, writer);
    } else if constexpr (verb == Verb::allocate) {
        Allocate how;
        const bool is_known = how_of(command, Allocate::zero_range_keep_size, how);
        if (!is_known) return Result<u64>(Errc::invalid);
        return allocate(op, command.handle, how, command.from, command.length, command.now, writer);
    } else if constexpr (verb == Verb::seek) {
        Seek how;
        if (!how_of(command, Seek::hole, how)) return Result<Sought>(Errc::invalid);
        return seek(op, command.handle, command.from, how);
    } else if constexpr (verb == Verb::unshare) {
        return unshare(op, command.handle, command.from, command.length, writer);
    } else if constexpr (verb == Verb::share) {
        return share(op,
                     {command.handle, command.target, command.from, command.to, command.length,
                      command.references, command.now},
                     writer);
    } else {
        static_assert(verb == Verb::count_shared);
        return count_shared(op, command.handle, command.from);
    }
}

/// Claims a free frame for inodes; 0 if an inode frame may have room. The claim lasts until
/// start_inode_frame or unclaim_frame; only one caller at a time may do this.
template <class Team>
WARREN_HD Result<u64> claim_inode_frame(Operation<Team>& op) {
    const Store& store = op.store;
    const bool has_room =
        once(op.team, [&] { return find_space(store, FrameKind::inodes, 0) != store.frame_count; });
    if (has_room) return u64{0};
    return once(op.team, [&] { return claim_frame(store, FrameKind::inodes); });
}

/// A step of packing a directory's tree, for a caller with write permission. A directory that is
/// being deleted is not packed: bulk reclaim may have left nodes that begin with higher keys than
/// the pairs that lead to them.
template <class Team>
WARREN_HD Result<Packed> pack(Operation<Team>& op, const Command& command) {
    Pack how;
    if (!how_of(command, Pack::root, how)) return Errc::invalid;
    WARREN_LET(directory, find_directory(op, command.handle));
    WARREN_TRY(check_permission(op, *directory, caller_of(command), may_write));
    const u64 names = load(op.team, directory->at->entries);
    WARREN_TRY(op.confirm(directory->seen));
    if ((names & format::entries_dying) != 0) return Packed{key_end, true};
    if (how == Pack::leaves) return pack_leaves(op, *directory, command.from);
    if (how == Pack::nodes) {
        if (command.mode == 0 || command.mode >= tree_height_max) return Errc::invalid;
        return pack_nodes(op, *directory, command.mode, command.from);
    }
    const Result<bool> lowered = lower_root(op, *directory);
    return lowered ? Result<Packed>(Packed{0, !*lowered}) : Result<Packed>(lowered.code());
}

template <Verb verb, class Team>
WARREN_HD inline auto answer_parts(Operation<Team>& op, const Command& command) {
    if constexpr (verb == Verb::reclaim_step) {
        return reclaim_step(op, command.handle, command.now, command.how != 0);
    } else if constexpr (verb == Verb::count_names) {
        return count_names(op, command.handle);
    } else if constexpr (verb == Verb::change_structure) {
        const bool is_known =
            command.retry_reason == Errc::need_split || command.retry_reason == Errc::need_prune;
        if (!is_known) return Errc::invalid;
        return change_structure(op, command.retry_reason, command.from, command.length);
    } else if constexpr (verb == Verb::claim_inode_frame) {
        return claim_inode_frame(op);
    } else if constexpr (verb == Verb::start_inode_frame) {
        if (command.from >= op.store.frame_count) return Errc::invalid;
        return start_inode_frame(op, command.from);
    } else if constexpr (verb == Verb::unclaim_frame) {
        if (command.from >= op.store.frame_count) return Errc::invalid;
        once(op.team, [&] { unclaim_frame(op.store, command.from); });
        return Errc::ok;
    } else if constexpr (verb == Verb::look_at_tree) {
        return look_at_tree(op, caller_of(command), command.handle, command.name,
                            command.name_length);
    } else if constexpr (verb == Verb::detach_tree) {
        const TreeBeforeCheck checked{command.target, command.from};
        return detach_tree(op, caller_of(command), command.handle, command.name,
                           command.name_length, command.now, command.how != 0 ? &checked : nullptr);
    } else if constexpr (verb == Verb::start_dying) {
        return start_dying(op, command.handle);
    } else if constexpr (verb == Verb::clone) {
        return clone(op, caller_of(command), command.handle, command.target, command.name,
                     command.name_length, create_arguments(command));
    } else {
        static_assert(verb == Verb::pack);
        return pack(op, command);
    }
}

/// One attempt of `verb` with the arguments of `command`, whose own verb is ignored. Returns an
/// Errc or a Result. Verbs that write data need a `writer`.
template <Verb verb, class Team, class Writer = std::nullptr_t>
WARREN_HD inline auto answer(Operation<Team>& op, const Command& command,
                             [[maybe_unused]] const Writer& writer = nullptr) {
    op.may_use_reserve = command.may_use_reserve;
    if constexpr (name_verbs.contain(verb)) {
        return answer_names<verb>(op, command);
    } else if constexpr (inode_verbs.contain(verb)) {
        return answer_inodes<verb>(op, command);
    } else if constexpr (content_verbs.contain(verb)) {
        return answer_contents<verb>(op, command, writer);
    } else {
        return answer_parts<verb>(op, command);
    }
}

}  // namespace warren::ops
