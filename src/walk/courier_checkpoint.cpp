// SPDX-License-Identifier: Apache-2.0
// How all ranks reach a state of which a checkpoint can be written. Rank 0 sends `pause` to all:
// the workers finish the items in hand, and no rank requests or gives work. A rank that waits for
// no answer sends `mark` to all others. A rank that has received the marks of all others has
// received everything that was sent to it earlier. Results that arrived in the meantime become part
// of the saved state. Rank 0 asks its caller for its state only after that, so that this state
// includes the messages (lines, failures) of other ranks about entries that their states count as
// done.
#include <algorithm>

#include "walk/courier.hpp"

namespace warren::walk {

bool Courier::is_quiet() {
    const Pool& pool = engine_.pool_;
    // Items of push_here() are unfinished, but not counted as queued.
    if (pool.in_hand() != 0 || pool.unfinished() != pool.queued()) return false;
    if (!rank_.has_no_answers_due() || !queries_.empty()) return false;
    std::lock_guard lock(mutex_);
    return results_waiting_ == 0 &&
           std::all_of(next_queries_.begin(), next_queries_.end(),
                       [](const LinkQuery& query) { return query.nodes.empty(); });
}

void Courier::send_to_all(Kind kind, u64 number) {
    ByteWriter writer;
    writer.put(kind);
    writer.put(number);
    for (u32 to = 0; to < group_.ranks(); ++to) {
        if (to != group_.rank()) post(to, writer.bytes());
    }
}

/// Rank 0 begins a checkpoint when it is due; the other ranks report an interrupt to rank 0.
void Courier::look_at_clock(double now) {
    const Options& options = engine_.options_;
    if (options.checkpoint.empty() || rank_.is_ending() || rank_.has_left()) return;
    const bool interrupted = options.interrupt && options.interrupt();
    if (interrupted && !was_interrupted_ && group_.rank() != 0) {
        ByteWriter writer;
        writer.put(Kind::interrupt);
        post(0, writer.take());
    }
    was_interrupted_ = was_interrupted_ || interrupted;
    const double interval = 1e-3 * options.checkpoint_milliseconds;
    if (next_checkpoint_ == 0) next_checkpoint_ = now + interval;
    if (group_.rank() != 0 || (now < next_checkpoint_ && !was_interrupted_)) return;
    saved_ = 0;
    save_error_ = Errc::ok;
    send_to_all(Kind::pause, manifest_.epoch + 1);
    begin_pause(manifest_.epoch + 1);
}

void Courier::begin_pause(u64 epoch) {
    manifest_.epoch = epoch;
    pausing_ = Pausing::working;
    rank_.pause(*this);
    engine_.pool_.halt(Pool::Halt::queues);
}

void Courier::ask_caller() {
    if (engine_.callbacks_.save) caller_state_ = engine_.callbacks_.save();
}

void Courier::step_checkpoint() {
    switch (pausing_) {
        case Pausing::no:
            return;
        case Pausing::working:
            // Callbacks::save() may call send_to_rank_0(), which must not wait for room here. So
            // all earlier messages must have arrived.
            if (!is_quiet() || group_.has_under_way()) return;
            engine_.pool_.halt(Pool::Halt::all);
            if (group_.rank() != 0) ask_caller();
            pausing_ = Pausing::flushing;
            return;
        case Pausing::flushing:
            if (group_.has_under_way()) return;
            send_to_all(Kind::mark, 0);
            pausing_ = Pausing::waiting;
            return;
        case Pausing::waiting:
            if (marks_ < group_.ranks() - 1) return;
            marks_ -= group_.ranks() - 1;
            if (group_.rank() == 0) ask_caller();
            pausing_ = Pausing::saved;
            return save();
        case Pausing::saved:
            if (group_.rank() == 0 && saved_ == group_.ranks()) end_pause();
            return;
    }
}

void Courier::save() {
    const CheckpointFolder folder(engine_.options_.checkpoint);
    std::string bytes;
    Errc code = state(bytes);
    if (code == Errc::ok) code = folder.write_rank(manifest_.epoch, group_.rank(), bytes);
    if (group_.rank() == 0) return note_saved(code);
    ByteWriter writer;
    writer.put(Kind::saved);
    writer.put(code);
    post(0, writer.take());
}

void Courier::note_saved(Errc code) {
    ++saved_;
    if (code != Errc::ok) save_error_ = code;
}

/// Ends the pause. Called on rank 0 when the files of all ranks are on the disk.
void Courier::end_pause() {
    const CheckpointFolder folder(engine_.options_.checkpoint);
    const Manifest before = written_;
    if (save_error_ == Errc::ok) {
        manifest_.ranks = group_.ranks();
        save_error_ = folder.write_manifest(manifest_);
    }
    if (save_error_ == Errc::ok) {
        written_ = manifest_;
        if (before.epoch != 0) folder.remove_ranks(before.epoch, before.ranks);
    } else {
        engine_.report(engine_.options_.checkpoint, "write checkpoint",
                       static_cast<i32>(save_error_));
    }
    // The interval starts here, so that a slow checkpoint is not immediately followed by the next.
    next_checkpoint_ = 0;
    send_to_all(Kind::go_on, was_interrupted_ ? 1 : 0);
    go_on(was_interrupted_);
}

void Courier::go_on(bool ends) {
    pausing_ = Pausing::no;
    if (ends) {
        engine_.interrupted_ = true;
        engine_.stopped_.store(true, std::memory_order_relaxed);
    }
    engine_.pool_.halt(Pool::Halt::none);
    rank_.go_on(*this);
}

}  // namespace warren::walk
