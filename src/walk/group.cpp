// SPDX-License-Identifier: Apache-2.0
// Caller messages wait in memory until the courier of a walk sends them. Their total size is
// bounded: a thread that sends faster than rank 0 receives waits in send_to_rank_0().
#include "warren/walk_group.hpp"

#include "walk/bytes.hpp"
#include "walk/engine.hpp"

namespace warren::walk {

namespace {

constexpr u64 under_way_most = 4 * mib;
constexpr size_t flush_bytes = 1 * mib;  // per rank and round of flush()

/// A group of a single rank.
class LoneGroup : public Group {
 public:
    u32 rank() const override { return 0; }
    const std::vector<u32>& nodes() const override { return nodes_; }
    void begin_walk() override {}
    void end_walk() override {}
    void send(u32 /*to*/, std::string /*message*/) override {}
    bool receive(u32& /*from*/, std::string& /*message*/) override { return false; }
    std::vector<std::string> gather(std::string_view own) override { return {std::string(own)}; }

 private:
    std::vector<u32> nodes_ = {0};
};

}  // namespace

std::unique_ptr<Group> lone_group() {
    return std::make_unique<LoneGroup>();
}

std::string Group::share(std::string_view of_rank_0) {
    return std::move(gather(rank() == 0 ? of_rank_0 : std::string_view())[0]);
}

void Group::send_to_rank_0(u8 kind, std::string_view bytes) {
    std::unique_lock lock(mutex_);
    // Outside of walks no courier sends messages, so waiting for one would never end.
    arrived_.wait(lock, [&] { return !in_walk_ || under_way_bytes_ < under_way_most; });
    under_way_bytes_ += bytes.size();
    caller_messages_.push_back({kind, std::string(bytes)});
}

void Group::set_receiver(std::function<void(u32, u8, std::string_view)> receiver) {
    receiver_ = std::move(receiver);
}

void Group::receive_at_rank_0(u32 from, u8 kind, std::string_view bytes) {
    if (receiver_) receiver_(from, kind, bytes);
}

void Group::enter_walk() {
    std::lock_guard lock(mutex_);
    in_walk_ = true;
}

void Group::leave_walk() {
    std::lock_guard lock(mutex_);
    in_walk_ = false;
    arrived_.notify_all();
}

bool Group::has_caller_messages() {
    std::lock_guard lock(mutex_);
    return !caller_messages_.empty();
}

bool Group::has_under_way() {
    std::lock_guard lock(mutex_);
    return under_way_bytes_ != 0;
}

std::vector<Group::CallerMessage> Group::take_caller_messages() {
    std::lock_guard lock(mutex_);
    return std::exchange(caller_messages_, {});
}

void Group::caller_message_arrived(u64 bytes) {
    std::lock_guard lock(mutex_);
    under_way_bytes_ -= bytes;
    arrived_.notify_all();
}

void Group::flush() {
    std::vector<CallerMessage> messages = take_caller_messages();
    size_t next = 0;
    while (true) {
        ByteWriter mine;
        while (next < messages.size() && mine.bytes().size() < flush_bytes) {
            const CallerMessage& message = messages[next++];
            mine.put(message.kind);
            mine.put_bytes(message.bytes);
            caller_message_arrived(message.bytes.size());
        }
        const std::vector<std::string> all = gather(mine.bytes());
        bool is_over = true;
        for (u32 from = 0; from < ranks(); ++from) {
            is_over = is_over && all[from].empty();
            if (rank() != 0) continue;
            for (ByteReader reader(all[from]); !reader.at_end();) {
                const u8 kind = reader.get<u8>();
                receive_at_rank_0(from, kind, reader.get_bytes());
            }
        }
        if (is_over) return;
    }
}

}  // namespace warren::walk
