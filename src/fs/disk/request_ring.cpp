// SPDX-License-Identifier: Apache-2.0
// A request may complete in part, or not at all for a transient reason; then its rest is submitted
// again. After an error no request is submitted any more, and run() waits for those in flight.
#include "fs/disk/request_ring.hpp"

#include <array>
#include <cerrno>

#include "base/check.hpp"
#include "fs/disk/disk_error.hpp"
#if defined(WARREN_URING)
#include <liburing.h>
#endif

namespace warren {

#if defined(WARREN_URING)

namespace {

// How often requests of one run() may complete without a byte transferred.
constexpr u32 idle_returns_max = 1000;

}  // namespace

struct RequestRing::Queue {
    io_uring ring{};
    bool is_open = false;

    ~Queue() {
        if (is_open) ::io_uring_queue_exit(&ring);
    }
};

/// The state of one call of run().
struct RequestRing::Run {
    io_uring& ring;
    const int descriptor;
    const std::span<const DiskRequest> requests;
    const RequestProbe& probe;
    std::array<u64, requests_max> done{};
    std::array<u32, requests_max> waiting{};  // requests to submit; the last one is the next
    u32 waiting_count = 0;
    u32 in_flight = 0;
    u32 idle_returns = 0;
    Errc result = Errc::ok;

    void wait_for_turn(u32 index) { waiting[waiting_count++] = index; }
    void fail(Errc error) {
        if (result == Errc::ok) result = error;
    }

    void hand_over() {
        while (result == Errc::ok && waiting_count > 0 && in_flight < depth) {
            io_uring_sqe* entry = ::io_uring_get_sqe(&ring);
            if (entry == nullptr) return;
            const u32 index = waiting[--waiting_count];
            const DiskRequest& request = requests[index];
            std::byte* memory = request.memory + done[index];
            const auto length = static_cast<unsigned>(request.length_bytes - done[index]);
            const u64 offset = request.offset + done[index];
            if (request.is_write) {
                ::io_uring_prep_write(entry, descriptor, memory, length, offset);
            } else {
                ::io_uring_prep_read(entry, descriptor, memory, length, offset);
            }
            ::io_uring_sqe_set_data64(entry, index);
            ++in_flight;
        }
    }

    void take_result(u32 index, i32 got) {
        const DiskRequest& request = requests[index];
        --in_flight;
        if (probe) got = probe(request, got);
        const bool is_passing = got == -EINTR || got == -EAGAIN;
        if (got < 0 && !is_passing) return fail(disk_error(-got));
        u64 whole = is_passing ? 0 : done[index] + static_cast<u64>(got);
        // The rest must begin at a multiple of transfer_unit, because O_DIRECT requires alignment.
        if (whole < request.length_bytes) whole -= whole % transfer_unit;
        if (whole <= done[index]) {
            // No progress: the file ends here, or the error is transient (is_passing).
            if (!is_passing || ++idle_returns > idle_returns_max) return fail(Errc::io);
        } else {
            done[index] = whole;
        }
        if (done[index] < request.length_bytes) wait_for_turn(index);
    }

    void take_results() {
        io_uring_cqe* entry = nullptr;
        while (::io_uring_peek_cqe(&ring, &entry) == 0) {
            const auto index = static_cast<u32>(::io_uring_cqe_get_data64(entry));
            const i32 got = entry->res;
            ::io_uring_cqe_seen(&ring, entry);
            take_result(index, got);
        }
    }
};

std::unique_ptr<RequestRing> RequestRing::open(int& error) {
    auto queue = std::make_unique<Queue>();
    error = -::io_uring_queue_init(depth, &queue->ring, 0);
    if (error != 0) return nullptr;
    queue->is_open = true;
    return std::unique_ptr<RequestRing>(new RequestRing(std::move(queue)));
}

Errc RequestRing::run(int descriptor, std::span<const DiskRequest> requests,
                      const RequestProbe& probe) {
    WARREN_CHECK(requests.size() <= requests_max && !is_broken_);
    Run run{queue_->ring, descriptor, requests, probe};
    for (u64 i = requests.size(); i > 0; --i)
        run.wait_for_turn(static_cast<u32>(i - 1));
    for (;;) {
        run.hand_over();
        if (run.in_flight == 0) return run.result;
        const int code = ::io_uring_submit_and_wait(&queue_->ring, 1);
        if (code < 0 && code != -EINTR && code != -EAGAIN && code != -EBUSY) {
            // Entries that the kernel has not taken stay in the ring, so it cannot be used again.
            is_broken_ = true;
            run.in_flight -= ::io_uring_sq_ready(&queue_->ring);
            run.fail(Errc::io);
            io_uring_cqe* entry = nullptr;
            while (run.in_flight > 0 && ::io_uring_wait_cqe(&queue_->ring, &entry) == 0)
                run.take_results();
            return run.result;
        }
        run.take_results();
    }
}

#else

struct RequestRing::Queue {};

std::unique_ptr<RequestRing> RequestRing::open(int& error) {
    error = ENOSYS;  // this program was built without liburing
    return nullptr;
}

Errc RequestRing::run(int, std::span<const DiskRequest>, const RequestProbe&) {
    return Errc::io;
}

#endif

RequestRing::RequestRing(std::unique_ptr<Queue> queue) : queue_(std::move(queue)) {}
RequestRing::~RequestRing() = default;

}  // namespace warren
