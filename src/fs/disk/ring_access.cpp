// SPDX-License-Identifier: Apache-2.0
// A range is divided into parts of one request each, and parts are collected into waves. The
// requests of a wave are in flight together; the next wave begins when all of them are done.
#include "fs/disk/ring_access.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "fs/format/layout.hpp"

namespace warren {
namespace {

/// One request, and which bytes of it are copied from or to the caller's memory.
struct Part {
    DiskRequest request;
    std::byte* users = nullptr;  // the caller's memory; null: the request transfers it directly
    u64 users_offset = 0;        // of the caller's bytes within the request
    u64 users_length = 0;

    bool is_bounced() const { return users != nullptr; }
    bool is_partial() const { return is_bounced() && users_length != request.length_bytes; }
};

/// Whether a device can transfer to and from this memory directly.
bool is_aligned(const std::byte* memory) {
    return reinterpret_cast<std::uintptr_t>(memory) % RequestRing::transfer_unit == 0;
}

std::span<std::byte> memory_of(const DiskRead& read) {
    return read.target;
}

/// DiskRequest::memory is not const because reads fill it; a write only reads it.
std::span<std::byte> memory_of(const DiskWrite& write) {
    return {const_cast<std::byte*>(write.source.data()), write.source.size()};
}

}  // namespace

class RingAccess::Lane {
 public:
    Lane(std::unique_ptr<RequestRing> ring, u64 unit_bytes)
        : ring_(std::move(ring)), unit_(unit_bytes) {
        if (unit_ > 1) {
            bounce_ = std::make_unique<format::Block[]>(bounce_bytes / format::block_size);
        }
    }

    bool is_broken() const { return ring_->is_broken(); }

    void begin(int descriptor, bool is_write, const RequestProbe& probe) {
        descriptor_ = descriptor;
        is_write_ = is_write;
        probe_ = &probe;
        count_ = 0;
        bounced_ = 0;
    }

    /// Adds a range to the wave. Runs the wave whenever it is full.
    Errc add(u64 offset, std::byte* memory, u64 length) {
        while (length > 0) {
            Part part = cut(offset, memory, length);
            const u64 need = part.is_bounced() ? part.request.length_bytes : 0;
            if (count_ == parts_.size() || bounced_ + need > bounce_bytes) WARREN_TRY(run());
            if (part.is_bounced()) {
                part.request.memory = reinterpret_cast<std::byte*>(bounce_.get()) + bounced_;
                bounced_ += need;
            }
            parts_[count_++] = part;
            const u64 moved = part.is_bounced() ? part.users_length : part.request.length_bytes;
            offset += moved;
            memory += moved;
            length -= moved;
        }
        return Errc::ok;
    }

    /// Runs the wave. A write first reads the blocks of which it replaces only a part.
    Errc run() {
        if (is_write_) {
            WARREN_TRY(run_some([](const Part& part) { return part.is_partial(); }, false));
            for (const Part& part : wave()) {
                if (!part.is_bounced()) continue;
                std::memcpy(part.request.memory + part.users_offset, part.users, part.users_length);
            }
        }
        WARREN_TRY(run_some([](const Part&) { return true; }, is_write_));
        for (const Part& part : wave()) {
            if (is_write_ || !part.is_bounced()) continue;
            std::memcpy(part.users, part.request.memory + part.users_offset, part.users_length);
        }
        count_ = 0;
        bounced_ = 0;
        return Errc::ok;
    }

 private:
    std::span<const Part> wave() const { return std::span(parts_).first(count_); }

    /// The first part of a range: as much as fits in one request.
    Part cut(u64 offset, std::byte* memory, u64 length) const {
        Part part;
        const u64 into_unit = offset % unit_;
        if (into_unit == 0 && length >= unit_ && (unit_ == 1 || is_aligned(memory))) {
            part.request = {is_write_, offset, memory,
                            std::min(piece_bytes, length - length % unit_)};
            return part;
        }
        const u64 begin = offset - into_unit;
        u64 end = std::min((offset + length + unit_ - 1) / unit_ * unit_, begin + piece_bytes);
        // If the caller's memory is aligned after the first block, only that block is bounced.
        if (into_unit != 0 && is_aligned(memory + (unit_ - into_unit))) end = begin + unit_;
        part.request = {is_write_, begin, nullptr, end - begin};
        part.users = memory;
        part.users_offset = into_unit;
        part.users_length = std::min(length, end - offset);
        return part;
    }

    template <class Which>
    Errc run_some(const Which& which, bool is_write) {
        u32 chosen = 0;
        for (const Part& part : wave()) {
            if (!which(part)) continue;
            requests_[chosen] = part.request;
            requests_[chosen++].is_write = is_write;
        }
        return chosen == 0 ? Errc::ok
                           : ring_->run(descriptor_, std::span(requests_).first(chosen), *probe_);
    }

    std::unique_ptr<RequestRing> ring_;
    const u64 unit_;
    std::unique_ptr<format::Block[]> bounce_;
    std::array<Part, RequestRing::requests_max> parts_;
    std::array<DiskRequest, RequestRing::requests_max> requests_;
    u32 count_ = 0;
    u64 bounced_ = 0;
    int descriptor_ = -1;
    bool is_write_ = false;
    const RequestProbe* probe_ = nullptr;
};

RingAccess::RingAccess(int descriptor, u64 unit_bytes)
    : descriptor_(descriptor), unit_bytes_(unit_bytes) {}
RingAccess::~RingAccess() = default;

std::unique_ptr<RingAccess> RingAccess::open(int descriptor, u64 unit_bytes, int& error) {
    auto ring = RequestRing::open(error);
    if (ring == nullptr) return nullptr;
    std::unique_ptr<RingAccess> access(new RingAccess(descriptor, unit_bytes));
    access->idle_.push_back(std::make_unique<Lane>(std::move(ring), unit_bytes));
    access->lane_count_ = 1;
    return access;
}

/// Takes a lane; waits for one if lanes_max are in use or the kernel provides no more rings. Null
/// if there is no lane at all and the kernel provides no ring.
std::unique_ptr<RingAccess::Lane> RingAccess::take_lane() {
    std::unique_lock lock(mutex_);
    for (;;) {
        if (!idle_.empty()) {
            auto lane = std::move(idle_.back());
            idle_.pop_back();
            return lane;
        }
        int error = 0;
        if (lane_count_ < lanes_max) {
            if (auto ring = RequestRing::open(error)) {
                ++lane_count_;
                return std::make_unique<Lane>(std::move(ring), unit_bytes_);
            }
            if (lane_count_ == 0) return nullptr;
        }
        lane_came_.wait(lock);
    }
}

void RingAccess::give_back(std::unique_ptr<Lane> lane) {
    {
        const std::lock_guard guard(mutex_);
        if (lane->is_broken()) {
            --lane_count_;
        } else {
            idle_.push_back(std::move(lane));
        }
    }
    lane_came_.notify_one();
}

template <class Request>
Errc RingAccess::transfer(std::span<const Request> requests, bool is_write) {
    auto lane = take_lane();
    if (lane == nullptr) return Errc::io;
    lane->begin(descriptor_, is_write, probe_);
    Errc code = Errc::ok;
    for (u64 i = 0; i < requests.size() && code == Errc::ok; ++i) {
        const auto memory = memory_of(requests[i]);
        code = lane->add(requests[i].offset, memory.data(), memory.size());
    }
    if (code == Errc::ok) code = lane->run();
    give_back(std::move(lane));
    return code;
}

Errc RingAccess::read(std::span<const DiskRead> reads) {
    return transfer(reads, false);
}

Errc RingAccess::write(std::span<const DiskWrite> writes) {
    return transfer(writes, true);
}

}  // namespace warren
