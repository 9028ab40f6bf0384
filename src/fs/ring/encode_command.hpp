// SPDX-License-Identifier: Apache-2.0
// Encodes commands for a ring: the client's side of fs/ring/command_code.hpp.
//
// Invariant: for every verb, decoding an encoded command gives the same command, with the names and
// texts at other addresses.
#pragma once

#include "fs/ring/command_code.hpp"

namespace warren::ring {

/// Whether the command does not fit into its cell and needs a block in the arena. `names_caller`:
/// the ring is trusted and the command carries its caller's credentials.
inline bool needs_block(const ops::Command& command, bool names_caller) {
    const bool odd_references = (command.references & ~(ops::one_lookup | ops::one_open)) != 0;
    const bool is_large = command.mode > 0xffff || command.caller.umask > 0xffff ||
                          command.handle.inode >= head_inode_end ||
                          command.name_length > inline_name_max;
    const bool has_more = command.new_name_length != 0 || command.text_bytes != 0 ||
                          command.buffer_bytes != 0 || command.target != Handle{} ||
                          command.change.which != 0 || command.device != 0 || command.to != 0 ||
                          command.retry_reason != Errc::ok;
    const bool executors_head = names_caller && (command.caller.group_count != 0 ||
                                                 command.from != 0 || command.length != 0);
    return odd_references || is_large || has_more || executors_head;
}

inline Arguments arguments_of(const ops::Command& command, bool names_caller, u64 buffer_offset) {
    Arguments arguments{};
    match_arguments(command, arguments, [](const auto& from, auto& to) { to = from; });
    if (!names_caller) arguments.user = arguments.group = arguments.group_count = 0;
    arguments.buffer_offset = command.buffer_bytes != 0 ? buffer_offset : 0;
    arguments.retry_reason = static_cast<i32>(command.retry_reason);
    arguments.name_bytes = command.name_length > inline_name_max ? command.name_length : 0;
    arguments.text_bytes = static_cast<u32>(command.text_bytes);
    return arguments;
}

/// How many bytes of the arena the command's block takes; 0 if it needs none. Errc::invalid if the
/// command has more groups or longer texts than can be encoded.
inline Result<u64> block_bytes_of(const ops::Command& command, bool names_caller) {
    if (!needs_block(command, names_caller)) return u64{0};
    if (command.text_bytes > text_bytes_max) return Errc::invalid;
    const Arguments arguments = arguments_of(command, names_caller, 0);
    if (!are_bounded(arguments)) return Errc::invalid;
    return (places_of(arguments).end + arena_granule - 1) / arena_granule * arena_granule;
}

/// Writes the block of a command to `at`.
inline void write_block(const ops::Command& command, bool names_caller, u64 buffer_offset,
                        std::byte* at) {
    const Arguments arguments = arguments_of(command, names_caller, buffer_offset);
    const ArgumentPlaces places = places_of(arguments);
    const auto put = [&](u64 place, const void* from, u64 bytes) {
        if (bytes != 0) std::memcpy(at + place, from, bytes);
    };
    put(0, &arguments, sizeof arguments);
    put(places.groups, command.caller.groups, u64{arguments.group_count} * sizeof(u32));
    put(places.name, command.name, arguments.name_bytes);
    put(places.new_name, command.new_name, arguments.new_name_bytes);
    put(places.text, command.text, arguments.text_bytes);
}

/// Writes the command into its cell. The block at `block` must be written before. The first piece
/// of the head is written last.
inline void write_cell(const ops::Command& command, bool names_caller, const ArenaRange& block,
                       u32 phase, CommandCell& cell) {
    Head head{};
    head.verb = static_cast<u32>(command.verb);
    head.how = command.how;
    head.generation = command.handle.generation;
    head.inode = command.handle.inode & (head_inode_end - 1);
    head.mode = command.mode & 0xffff;
    head.umask = command.caller.umask & 0xffff;
    head.block = block;
    head.now = command.now;
    head.flags = (block.bytes != 0 ? u32{head_has_block} : 0) |
                 (command.may_use_reserve ? u32{head_may_use_reserve} : 0) |
                 ((command.references & ops::one_lookup) != 0 ? u32{head_holds_lookup} : 0) |
                 ((command.references & ops::one_open) != 0 ? u32{head_holds_open} : 0) |
                 (command.caller.check ? u32{head_checks} : 0);
    if (names_caller && block.bytes == 0) {
        head.flags |= head_has_caller;
        head.from = command.caller.user | u64{command.caller.group} << 32;
    } else {
        head.from = command.from;
        head.length = command.length;
    }
    if (command.name_length != 0 && command.name_length <= inline_name_max) {
        head.flags |= head_has_name;
        head.name_bytes = command.name_length;
        u32 name[words_per_slot] = {};
        std::memcpy(name, command.name, command.name_length);
        store_slots(cell, 1, 1, name, phase);
    }
    u32 words[words_per_slot];
    pack_head(head, words);
    store_slots(cell, 0, 1, words, phase);
}

}  // namespace warren::ring
