// SPDX-License-Identifier: Apache-2.0
// From a command to a reply: one attempt, by any team. The code that runs a command makes a new
// core::Operation, calls execute() and core::finish(), and serves the retry reason in the reply, if
// there is one.
//
// All lanes call these functions with the same command. Each lane has a Reply of its own, and all
// end with the same values, so one lane stores its reply. The command's pointers lead to memory
// that all lanes can access.
#pragma once

#include "fs/ops/answer.hpp"

namespace warren::ops {

/// The writer of an engine that does not move data: it records in the reply what has to be written.
/// When the host reads the reply, the blocks already belong to the file. So the host keeps other
/// users away from the file's data, and lets no commit start, until it has written them.
struct PieceRecorder {
    Reply& reply;

    WARREN_HD Errc operator()(const Piece& piece) const {
        reply.piece = piece;
        reply.has_piece = true;
        return Errc::ok;
    }
};

/// Says how each type of result is stored in a reply: calls `match(in_reply, in_answer)` for each two
/// fields that have the same value.
template <class InReply, class InAnswer, class Match>
WARREN_HD void match_fields(InReply& reply, InAnswer& answer, const Match& match) {
    using Answer = std::remove_const_t<InAnswer>;
    if constexpr (std::is_same_v<Answer, Attributes>) {
        match(reply.attributes, answer);
    } else if constexpr (std::is_same_v<Answer, Handle>) {
        match(reply.attributes.handle, answer);
    } else if constexpr (std::is_same_v<Answer, Removed>) {
        match(reply.removed, answer);
    } else if constexpr (std::is_same_v<Answer, Mapping>) {
        match(reply.mapping, answer);
    } else if constexpr (std::is_same_v<Answer, Reclaimed>) {
        match(reply.value, answer.is_done);
        match(reply.removed, answer.removed);
    } else if constexpr (std::is_same_v<Answer, Sought>) {
        match(reply.value, answer.offset);
        match(reply.length, answer.is_found);
    } else if constexpr (std::is_same_v<Answer, Packed>) {
        match(reply.value, answer.next_key);
        match(reply.length, answer.is_done);
    } else if constexpr (std::is_same_v<Answer, TreeBeforeCheck>) {
        match(reply.attributes.handle, answer.root);
        match(reply.value, answer.rights_changes);
    } else {
        static_assert(std::is_same_v<Answer, u64> || std::is_same_v<Answer, bool>);
        match(reply.value, answer);
    }
}
template <class Answer>
WARREN_HD void put(Reply& reply, const Answer& answer) {
    match_fields(reply, answer, [](auto& to, const auto& from) { to = from; });
}
template <class Answer>
WARREN_HD void get(const Reply& reply, Answer& answer) {
    match_fields(reply, answer, [](const auto& from, auto& to) { to = from; });
}

// The same for types whose fields share a word of the reply; get() is the inverse of put().

WARREN_HD inline void put(Reply& reply, const Gap& answer) {
    reply.value = answer.place;
    reply.length = answer.file_block << 13 | u64{answer.is_shared} << 12 | answer.length;
}
WARREN_HD inline void get(const Reply& reply, Gap& answer) {
    answer.place = reply.value;
    answer.length = static_cast<u32>(reply.length % format::block_size);
    answer.is_shared = (reply.length >> 12 & 1) != 0;
    answer.file_block = reply.length >> 13;
}
WARREN_HD inline void put(Reply& reply, const SharedCount& answer) {
    reply.value = answer.passed;
    reply.length = u64{answer.allocated} << 32 | answer.shared;
}
WARREN_HD inline void get(const Reply& reply, SharedCount& answer) {
    answer.passed = reply.value;
    answer.allocated = static_cast<u32>(reply.length >> 32);
    answer.shared = static_cast<u32>(reply.length);
}
WARREN_HD inline void put(Reply& reply, const Cloned& answer) {
    put(reply, answer.handle);
    reply.value = (answer.lacks_contents ? 1 : 0) | (answer.lacks_attributes ? 2 : 0);
}
WARREN_HD inline void get(const Reply& reply, Cloned& answer) {
    get(reply, answer.handle);
    answer.lacks_contents = (reply.value & 1) != 0;
    answer.lacks_attributes = (reply.value & 2) != 0;
}

/// Stores a result, if there is one, in the reply; returns the code.
WARREN_HD inline Errc put_answer(Reply& /*reply*/, Errc code) {
    return code;
}
template <class T>
WARREN_HD Errc put_answer(Reply& reply, const Result<T>& answer) {
    if (answer) put(reply, *answer);
    return answer.code();
}

/// Converts the result in a reply back to an Errc or a Result.
WARREN_HD inline void get_answer(const Reply& reply, Errc& answer) {
    answer = reply.code;
}
template <class T>
WARREN_HD void get_answer(const Reply& reply, Result<T>& answer) {
    answer = reply.code;
    if (reply.code != Errc::ok) return;
    answer = T{};
    get(reply, *answer);
}

// One function for each verb, not inlined on a GPU.

template <Verb verb, class Team>
WARREN_HD WARREN_NOINLINE Errc execute_name(Operation<Team>& op, const Command& command,
                                            Reply& reply) {
    return put_answer(reply, answer_names<verb>(op, command));
}
template <Verb verb, class Team>
WARREN_HD WARREN_NOINLINE Errc execute_inode(Operation<Team>& op, const Command& command,
                                             Reply& reply) {
    return put_answer(reply, answer_inodes<verb>(op, command));
}
template <Verb verb, class Team, class Writer>
WARREN_HD WARREN_NOINLINE Errc execute_content(Operation<Team>& op, const Command& command,
                                               Reply& reply, const Writer& writer) {
    return put_answer(reply, answer_contents<verb>(op, command, writer));
}
template <Verb verb, class Team>
WARREN_HD WARREN_NOINLINE Errc execute_part(Operation<Team>& op, const Command& command,
                                            Reply& reply) {
    return put_answer(reply, answer_parts<verb>(op, command));
}

// The switch over verbs, in four groups so that a program may compile each into a kernel of its
// own. Each function returns Errc::not_supported for a verb of another group.

template <class Team>
WARREN_HD Errc execute_names(Operation<Team>& op, const Command& command, Reply& reply) {
    switch (command.verb) {
        case Verb::lookup:
            return execute_name<Verb::lookup>(op, command, reply);
        case Verb::create:
            return execute_name<Verb::create>(op, command, reply);
        case Verb::create_unnamed:
            return execute_name<Verb::create_unnamed>(op, command, reply);
        case Verb::link:
            return execute_name<Verb::link>(op, command, reply);
        case Verb::unlink:
            return execute_name<Verb::unlink>(op, command, reply);
        case Verb::remove_directory:
            return execute_name<Verb::remove_directory>(op, command, reply);
        case Verb::rename:
            return execute_name<Verb::rename>(op, command, reply);
        case Verb::read_leaf:
            return execute_name<Verb::read_leaf>(op, command, reply);
        case Verb::read_link:
            return execute_name<Verb::read_link>(op, command, reply);
        default:
            return Errc::not_supported;
    }
}

template <class Team>
WARREN_HD Errc execute_inodes(Operation<Team>& op, const Command& command, Reply& reply) {
    switch (command.verb) {
        case Verb::get_attributes:
            return execute_inode<Verb::get_attributes>(op, command, reply);
        case Verb::set_attributes:
            return execute_inode<Verb::set_attributes>(op, command, reply);
        case Verb::handle_of:
            return execute_inode<Verb::handle_of>(op, command, reply);
        case Verb::attributes_of:
            return execute_inode<Verb::attributes_of>(op, command, reply);
        case Verb::check_access:
            return execute_inode<Verb::check_access>(op, command, reply);
        case Verb::open_file:
            return execute_inode<Verb::open_file>(op, command, reply);
        case Verb::release_file:
            return execute_inode<Verb::release_file>(op, command, reply);
        case Verb::forget:
            return execute_inode<Verb::forget>(op, command, reply);
        case Verb::get_attribute:
            return execute_inode<Verb::get_attribute>(op, command, reply);
        case Verb::list_attributes:
            return execute_inode<Verb::list_attributes>(op, command, reply);
        case Verb::set_attribute:
            return execute_inode<Verb::set_attribute>(op, command, reply);
        case Verb::remove_attribute:
            return execute_inode<Verb::remove_attribute>(op, command, reply);
        default:
            return Errc::not_supported;
    }
}

template <class Team, class Writer>
WARREN_HD Errc execute_contents(Operation<Team>& op, const Command& command, Reply& reply,
                                const Writer& writer) {
    switch (command.verb) {
        case Verb::map:
            return execute_content<Verb::map>(op, command, reply, writer);
        case Verb::tail_to_zero:
            return execute_content<Verb::tail_to_zero>(op, command, reply, writer);
        case Verb::store_inline:
            return execute_content<Verb::store_inline>(op, command, reply, writer);
        case Verb::fill:
            return execute_content<Verb::fill>(op, command, reply, writer);
        case Verb::truncate:
            return execute_content<Verb::truncate>(op, command, reply, writer);
        case Verb::allocate:
            return execute_content<Verb::allocate>(op, command, reply, writer);
        case Verb::seek:
            return execute_content<Verb::seek>(op, command, reply, writer);
        case Verb::unshare:
            return execute_content<Verb::unshare>(op, command, reply, writer);
        case Verb::share:
            return execute_content<Verb::share>(op, command, reply, writer);
        case Verb::count_shared:
            return execute_content<Verb::count_shared>(op, command, reply, writer);
        default:
            return Errc::not_supported;
    }
}

template <class Team>
WARREN_HD Errc execute_parts(Operation<Team>& op, const Command& command, Reply& reply) {
    switch (command.verb) {
        case Verb::reclaim_step:
            return execute_part<Verb::reclaim_step>(op, command, reply);
        case Verb::count_names:
            return execute_part<Verb::count_names>(op, command, reply);
        case Verb::change_structure:
            return execute_part<Verb::change_structure>(op, command, reply);
        case Verb::claim_inode_frame:
            return execute_part<Verb::claim_inode_frame>(op, command, reply);
        case Verb::start_inode_frame:
            return execute_part<Verb::start_inode_frame>(op, command, reply);
        case Verb::unclaim_frame:
            return execute_part<Verb::unclaim_frame>(op, command, reply);
        case Verb::look_at_tree:
            return execute_part<Verb::look_at_tree>(op, command, reply);
        case Verb::detach_tree:
            return execute_part<Verb::detach_tree>(op, command, reply);
        case Verb::start_dying:
            return execute_part<Verb::start_dying>(op, command, reply);
        case Verb::clone:
            return execute_part<Verb::clone>(op, command, reply);
        case Verb::pack:
            return execute_part<Verb::pack>(op, command, reply);
        default:
            return Errc::not_supported;
    }
}

/// Completes the reply of an attempt that ended with `code`.
template <class Team>
WARREN_HD void end_attempt(const Operation<Team>& op, Errc code, Reply& reply) {
    reply.code = code;
    reply.may_use_reserve = op.may_use_reserve;
    reply.needed_place = op.needed_place;
    reply.needed_inode = op.needed_inode;
    reply.needed_key = op.needed_key;
    if constexpr (Team::width > 1) {
        // Only one lane called the writer.
        reply.has_piece = once(op.team, [&] { return reply.has_piece; });
        if (reply.has_piece) reply.piece = op.team.broadcast(reply.piece, 0);
    }
    if (code != Errc::ok) reply.has_piece = false;
}

/// One attempt of `command` by a new operation. `writer` moves the data between plan and apply, for
/// the verbs whose comment in Verb names a piece. Each of them calls it at most once in an attempt.
template <class Team, class Writer>
WARREN_HD void execute(Operation<Team>& op, const Command& command, Reply& reply,
                       const Writer& writer) {
    op.may_use_reserve = command.may_use_reserve;
    reply.has_piece = false;
    Errc code = Errc::not_supported;
    if (is_name_verb(command.verb)) {
        code = execute_names(op, command, reply);
    } else if (is_inode_verb(command.verb)) {
        code = execute_inodes(op, command, reply);
    } else if (is_content_verb(command.verb)) {
        code = execute_contents(op, command, reply, writer);
    } else {
        code = execute_parts(op, command, reply);
    }
    end_attempt(op, code, reply);
}

/// As above, for an engine that does not move data: the reply may contain a piece.
template <class Team>
WARREN_HD void execute(Operation<Team>& op, const Command& command, Reply& reply) {
    execute(op, command, reply, PieceRecorder{reply});
}

}  // namespace warren::ops
