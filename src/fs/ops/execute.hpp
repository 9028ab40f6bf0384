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

/// Says how each type of result is stored in a reply: calls `match(in_reply, in_answer)` for each
/// two fields that have the same value.
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
    } else if constexpr (std::is_same_v<Answer, Cloned>) {
        match(reply.attributes.handle, answer.handle);
        match(reply.value, answer.lacks_contents);
        match(reply.length, answer.lacks_attributes);
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

/// One attempt of one verb: a function of its own on a GPU.
template <Verb verb, class Team, class... Writer>
WARREN_HD WARREN_NOINLINE Errc execute_verb(Operation<Team>& op, const Command& command,
                                            Reply& reply, const Writer&... writer) {
    return put_answer(reply, answer<verb>(op, command, writer...));
}

/// One attempt of a command whose verb is one of `verbs`; Errc::not_supported for another verb. A
/// program may compile each of the four groups into a kernel of its own.
template <Verbs verbs, class Team, class... Writer>
WARREN_HD Errc execute_one_of(Operation<Team>& op, const Command& command, Reply& reply,
                              const Writer&... writer) {
    if constexpr (verbs.begin == verbs.end) {
        return Errc::not_supported;
    } else {
        if (command.verb == verbs.begin)
            return execute_verb<verbs.begin>(op, command, reply, writer...);
        constexpr Verbs rest{verb_after(verbs.begin), verbs.end};
        return execute_one_of<rest>(op, command, reply, writer...);
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
    reply.has_piece = false;
    Errc code = Errc::not_supported;
    if (name_verbs.contain(command.verb)) {
        code = execute_one_of<name_verbs>(op, command, reply);
    } else if (inode_verbs.contain(command.verb)) {
        code = execute_one_of<inode_verbs>(op, command, reply);
    } else if (content_verbs.contain(command.verb)) {
        code = execute_one_of<content_verbs>(op, command, reply, writer);
    } else {
        code = execute_one_of<part_verbs>(op, command, reply);
    }
    end_attempt(op, code, reply);
}

/// As above, for an engine that does not move data: the reply may contain a piece.
template <class Team>
WARREN_HD void execute(Operation<Team>& op, const Command& command, Reply& reply) {
    execute(op, command, reply, PieceRecorder{reply});
}

}  // namespace warren::ops
