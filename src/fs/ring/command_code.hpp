// SPDX-License-Identifier: Apache-2.0
// The encoding of a command: the words of a cell, a short name in the next slot, and a block of
// arguments (arguments.hpp) for members that are rare or long. The client encodes, the engine
// decodes, on a CPU or a GPU.
//
// Invariant: decoding trusts nothing. Whatever bytes a client writes, the result is an error for
// that command alone, or a command whose pointers and lengths stay within the copies and the arena,
// whose caller is the one that the daemon stamped on the ring, and whose verb the ring allows.
#pragma once

#include "fs/ring/arguments.hpp"
#include "fs/ring/cell.hpp"

namespace warren::ring {

/// The daemon's record of a ring, in memory that the client cannot write.
struct Stamp {
    core::Credentials caller;  // of the process to which the daemon gave the ring
    bool is_trusted = false;   // commands may name other callers and use every verb
};

enum HeadFlag : u32 {
    head_has_name = 1,    // in the next slot
    head_has_block = 2,   // in the arena
    head_has_caller = 4,  // `from` holds the caller's user and group
    head_may_use_reserve = 8,
    head_holds_lookup = 16,  // references: one_lookup
    head_holds_open = 32,    // references: one_open
    head_checks = 64,        // the caller's permission is checked
    head_flags_all = 127,
};

/// The twelve words of a head, unpacked.
struct Head {
    u32 verb;
    u32 how;
    u32 flags;
    u32 generation;
    u64 inode;
    u32 name_bytes;
    u32 mode;
    u32 umask;
    ArenaRange block;
    i64 now;
    u64 from;
    u64 length;
};

inline constexpr u64 head_inode_end = u64{1} << 48;
inline constexpr u32 block_place_bits = 18;  // offset in granules; the length has the other 14 bits
static_assert(arena_bytes_max / arena_granule <= u64{1} << block_place_bits);
static_assert(block_bytes_max / arena_granule < u64{1} << (32 - block_place_bits));

/// `word(i)` returns word `i` of the head.
template <class Word>
WARREN_HD Head unpack_head(const Word& word) {
    const auto pair = [&](u32 i) { return word(i) | u64{word(i + 1)} << 32; };
    Head head;
    head.verb = word(0) & 0xff;
    head.how = word(0) >> 8 & 0xff;
    head.flags = word(0) >> 16;
    head.generation = word(1);
    head.inode = pair(2) & (head_inode_end - 1);
    head.name_bytes = word(3) >> 16;
    head.mode = word(4) & 0xffff;
    head.umask = word(4) >> 16;
    head.block.offset = (word(5) & ((1u << block_place_bits) - 1)) * arena_granule;
    head.block.bytes = (word(5) >> block_place_bits) * arena_granule;
    head.now = static_cast<i64>(pair(6));
    head.from = pair(8);
    head.length = pair(10);
    return head;
}

WARREN_HD inline void pack_head(const Head& head, u32* words) {
    const auto put = [&](u32 i, u64 value) {
        words[i] = static_cast<u32>(value);
        words[i + 1] = static_cast<u32>(value >> 32);
    };
    words[0] = head.verb | head.how << 8 | head.flags << 16;
    words[1] = head.generation;
    put(2, head.inode | u64{head.name_bytes} << 48);
    words[4] = head.mode | head.umask << 16;
    words[5] = static_cast<u32>(head.block.offset / arena_granule | head.block.bytes / arena_granule
                                                                        << block_place_bits);
    put(6, static_cast<u64>(head.now));
    put(8, head.from);
    put(10, head.length);
}

/// Verbs that a client process may use. The others change the kernel's reference counts, return
/// block addresses, or are parts of larger operations; only the daemon may use them.
WARREN_HD constexpr bool is_open_to_clients(ops::Verb verb) {
    switch (verb) {
        case ops::Verb::lookup:
        case ops::Verb::create:
        case ops::Verb::link:
        case ops::Verb::unlink:
        case ops::Verb::remove_directory:
        case ops::Verb::rename:
        case ops::Verb::read_link:
        case ops::Verb::get_attributes:
        case ops::Verb::set_attributes:
        case ops::Verb::check_access:
        case ops::Verb::set_attribute:
        case ops::Verb::remove_attribute:
            return true;
        default:
            return false;
    }
}

inline constexpr u32 verb_count = static_cast<u32>(ops::Verb::pack) + 1;

/// Validates a head without its block. If the head names a block, checks that it lies in the arena.
WARREN_HD inline Errc check_head(const Head& head, const Arena& arena) {
    if (head.verb >= verb_count) return Errc::not_supported;
    if ((head.flags & ~u32{head_flags_all}) != 0) return Errc::invalid;
    if ((head.flags & head_has_name) == 0 && head.name_bytes != 0) return Errc::invalid;
    if (head.name_bytes > inline_name_max) return Errc::invalid;
    if ((head.flags & head_has_block) == 0) return Errc::ok;
    if (head.block.bytes < sizeof(Arguments) || head.block.bytes > block_bytes_max + arena_granule)
        return Errc::invalid;
    return arena.holds(head.block) ? Errc::ok : Errc::invalid;
}

/// Checks the arguments against the length of their block and the arena.
WARREN_HD inline Errc check_arguments(const Arguments& arguments, const ArenaRange& block,
                                      const Arena& arena) {
    if (!are_bounded(arguments) || arguments.zero != 0) return Errc::invalid;
    if (places_of(arguments).end > block.bytes) return Errc::invalid;
    if (arguments.buffer_offset % arena_granule != 0) return Errc::invalid;
    return arena.holds({arguments.buffer_offset, arguments.buffer_bytes}) ? Errc::ok
                                                                          : Errc::invalid;
}

/// Calls `match(in_command, in_arguments)` for each two fields that have the same value.
template <class InCommand, class InArguments, class Match>
WARREN_HD void match_arguments(InCommand& command, InArguments& arguments, const Match& match) {
    match(command.handle.inode, arguments.inode);
    match(command.target.inode, arguments.target_inode);
    match(command.target.generation, arguments.target_generation);
    match(command.references, arguments.references);
    match(command.from, arguments.from);
    match(command.to, arguments.to);
    match(command.length, arguments.length);
    match(command.buffer_bytes, arguments.buffer_bytes);
    match(command.change, arguments.change);
    match(command.device, arguments.device);
    match(command.mode, arguments.mode);
    match(command.new_name_length, arguments.new_name_bytes);
    match(command.caller.umask, arguments.umask);
    match(command.caller.user, arguments.user);
    match(command.caller.group, arguments.group);
    match(command.caller.group_count, arguments.group_count);
}

WARREN_HD inline void take_arguments(const std::byte* copy, const Arena& arena,
                                     ops::Command& command) {
    const auto& arguments = *reinterpret_cast<const Arguments*>(copy);
    const ArgumentPlaces places = places_of(arguments);
    const auto text_at = [&](u64 place) { return reinterpret_cast<const char*>(copy + place); };
    match_arguments(command, arguments, [](auto& to, const auto& from) { to = from; });
    command.retry_reason = static_cast<Errc>(arguments.retry_reason);
    if (arguments.name_bytes != 0) {
        command.name = text_at(places.name);
        command.name_length = arguments.name_bytes;
    }
    command.new_name = text_at(places.new_name);
    command.text = copy + places.text;
    command.text_bytes = arguments.text_bytes;
    command.buffer = arguments.buffer_bytes != 0 ? arena.base + arguments.buffer_offset : nullptr;
    command.caller.groups = reinterpret_cast<const u32*>(copy + places.groups);
}

/// Replaces the caller of a command by the ring's; Errc::not_permitted if the ring does not allow
/// the command. The client may choose its umask, because a umask only takes permissions away.
WARREN_HD inline Errc apply_stamp(const Stamp& stamp, bool names_caller, ops::Command& command) {
    if (stamp.is_trusted && names_caller) return Errc::ok;
    const u32 umask = command.caller.umask;
    command.caller = stamp.caller;
    command.caller.umask = umask;
    if (stamp.is_trusted) return Errc::ok;
    command.caller.check = true;
    if (!is_open_to_clients(command.verb)) return Errc::not_permitted;
    return command.references == 0 && !command.may_use_reserve ? Errc::ok : Errc::not_permitted;
}

/// Makes a command from copies of the head (which has passed check_head()), of the short name and,
/// if the head names one, of the block. The name and the block must outlive the command.
WARREN_HD inline Errc decode_command(const Head& head, const char* short_name,
                                     const std::byte* block, const Arena& arena, const Stamp& stamp,
                                     ops::Command& command) {
    command = ops::Command{};
    command.verb = static_cast<ops::Verb>(head.verb);
    command.how = static_cast<u8>(head.how);
    command.may_use_reserve = (head.flags & head_may_use_reserve) != 0;
    command.handle = {head.inode, head.generation};
    command.mode = head.mode;
    command.now = head.now;
    command.references = ((head.flags & head_holds_lookup) != 0 ? ops::one_lookup : 0) +
                         ((head.flags & head_holds_open) != 0 ? ops::one_open : 0);
    command.caller.umask = head.umask;
    const bool has_caller = (head.flags & head_has_caller) != 0;
    if (has_caller) {
        command.caller.user = static_cast<u32>(head.from);
        command.caller.group = static_cast<u32>(head.from >> 32);
    } else {
        command.from = head.from;
        command.length = head.length;
    }
    if ((head.flags & head_has_block) != 0) {
        const auto& arguments = *reinterpret_cast<const Arguments*>(block);
        WARREN_TRY(check_arguments(arguments, head.block, arena));
        take_arguments(block, arena, command);
    }
    if ((head.flags & head_has_name) != 0) {
        command.name = short_name;
        command.name_length = head.name_bytes;
    }
    command.caller.check = (head.flags & head_checks) != 0;
    return apply_stamp(stamp, has_caller || (head.flags & head_has_block) != 0, command);
}

}  // namespace warren::ring
