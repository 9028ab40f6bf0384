// SPDX-License-Identifier: Apache-2.0
// The answers are computed when a segment is started; poll() only reports them later.
#include "tests/support/host_lookups.hpp"

#include "fs/ops/execute.hpp"

namespace warren {

ops::BatchMemory HostLookups::memory(u32 slot) {
    return slots_[slot].shown();
}

Errc HostLookups::start(u32 slot, u64 items, u64 /*words*/) {
    Slot& one = slots_[slot];
    for (u64 i = 0; i < items; ++i) {
        const ops::BatchOperand& operand = one.operands[i];
        one.codes[i] = Errc::retry;
        // The stream has no bytes of an overlong name; some of the other lookups are left, too.
        if (operand.length() > format::name_length_max || operand.length() % 7 == 1) continue;
        ops::Command command;
        command.verb = ops::Verb::lookup;
        command.caller = caller_;
        command.handle = {operand.directory(), operand.generation};
        command.name = reinterpret_cast<const char*>(one.names.data() + operand.name);
        command.name_length = operand.length();
        ops::Reply reply;
        engine_->attempt(command, reply);
        if (reply.code != Errc::ok && reply.code != Errc::no_entry) continue;
        one.codes[i] = reply.code;
        if (reply.code != Errc::ok) continue;
        Result<Attributes> answer = Errc::io;
        ops::get_answer(reply, answer);
        one.attributes[i] = *answer;
    }
    one.polls_left = 3;
    return Errc::ok;
}

Errc HostLookups::poll(u32 slot) {
    Slot& one = slots_[slot];
    if (one.polls_left == 0) return Errc::ok;
    --one.polls_left;
    return Errc::busy;
}

}  // namespace warren
