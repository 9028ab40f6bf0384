// SPDX-License-Identifier: Apache-2.0
// Requests and results use a window of `depth` slots. One name of each part is left to the walk
// itself, which measures its own statx(2) call: so the walk notices when requesting ahead is no
// longer worthwhile.
#include "walk/status_ahead.hpp"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "base/check.hpp"
#if defined(WARREN_URING)
#include <liburing.h>
#endif

namespace warren::walk {

#if defined(WARREN_URING)

namespace {

constexpr size_t least_names = 8;  // for fewer names a ring is not worthwhile

/// Whether the kernel has refused to create a ring. It is not asked again.
std::atomic<bool> is_refused{false};

}  // namespace

struct StatusAhead::Queue {
    enum class State : u8 { empty, asked, answered };
    struct Place {
        struct statx status;
        i32 result;
        State state = State::empty;
    };
    io_uring ring{};
    bool is_open = false;
    std::array<Place, depth> places{};

    ~Queue() {
        if (is_open) ::io_uring_queue_exit(&ring);
    }
};

bool StatusAhead::open() {
    if (is_refused.load(std::memory_order_relaxed)) return false;
    if (queue_ != nullptr) return true;
    auto queue = std::make_unique<Queue>();
    if (::io_uring_queue_init(depth, &queue->ring, 0) != 0) {
        is_refused.store(true, std::memory_order_relaxed);
        return false;
    }
    queue->is_open = true;
    // The default limit of the kernel's worker threads follows the number of processors, which is
    // too few for a network. If the kernel does not accept the numbers, requests are only slower.
    unsigned workers[2] = {depth, depth};
    ::io_uring_register_iowq_max_workers(&queue->ring, workers);
    queue_ = std::move(queue);
    return true;
}

bool StatusAhead::begin(int directory, int flags, std::span<const Name* const> names) {
    if (names.size() < least_names) return false;
    if (std::none_of(names.begin(), names.end(),
                     [&](const Name* name) { return is_wanted(*name); }))
        return false;
    if (!open()) return false;
    names_ = names;
    directory_ = directory;
    flags_ = flags;
    begun_mask_ = mask_;
    at_ = next_ = 0;
    has_left_one_ = false;
    return true;
}

void StatusAhead::go_to(size_t at) {
    at_ = at;
    if (next_ > at + depth / 2) return;
    u32 requests = 0;
    for (; next_ < std::min(names_.size(), at + depth); ++next_) {
        Queue::Place& place = queue_->places[next_ % depth];
        while (place.state == Queue::State::asked)  // requested, but not needed
            take_answer();
        place.state = Queue::State::empty;
        const Name& name = *names_[next_];
        if (!is_wanted(name)) continue;
        if (!has_left_one_) {
            has_left_one_ = true;
            continue;
        }
        io_uring_sqe* const entry = ::io_uring_get_sqe(&queue_->ring);
        WARREN_CHECK(entry != nullptr);  // the ring has as many entries as there are slots
        ::io_uring_prep_statx(entry, directory_, name.text, flags_, begun_mask_, &place.status);
        ::io_uring_sqe_set_data64(entry, next_ % depth);
        place.state = Queue::State::asked;
        ++requests;
    }
    submit(requests);
}

void StatusAhead::submit(u32 requests) {
    under_way_ += requests;
    while (requests > 0) {
        const int taken = ::io_uring_submit(&queue_->ring);
        // The kernel is short of memory, or wants its completions to be fetched first.
        if (taken == -EAGAIN || taken == -EBUSY || taken == -EINTR) {
            if (under_way_ > requests) take_answer();
            continue;
        }
        WARREN_CHECK(taken >= 0);
        requests -= static_cast<u32>(taken);
    }
}

void StatusAhead::take_answer() {
    io_uring_cqe* answer = nullptr;
    int error = 0;
    do {
        error = ::io_uring_wait_cqe(&queue_->ring, &answer);
    } while (error == -EINTR || error == -EAGAIN);
    WARREN_CHECK(error == 0);
    Queue::Place& place = queue_->places[::io_uring_cqe_get_data64(answer)];
    place.result = answer->res;
    place.state = Queue::State::answered;
    ::io_uring_cqe_seen(&queue_->ring, answer);
    --under_way_;
}

const struct statx* StatusAhead::find(u32 mask) {
    if (names_.empty() || (begun_mask_ & mask) != mask) return nullptr;
    Queue::Place& place = queue_->places[at_ % depth];
    while (place.state == Queue::State::asked)
        take_answer();
    // After an error the caller asks again by statx(2), and reports the error in one place.
    return place.state == Queue::State::answered && place.result == 0 ? &place.status : nullptr;
}

void StatusAhead::end() {
    while (under_way_ > 0)
        take_answer();
    names_ = {};
}

#else

struct StatusAhead::Queue {};
bool StatusAhead::begin(int, int, std::span<const Name* const>) {
    return false;
}
void StatusAhead::go_to(size_t) {}
const struct statx* StatusAhead::find(u32) {
    return nullptr;
}
void StatusAhead::end() {}

#endif

StatusAhead::StatusAhead() = default;
StatusAhead::~StatusAhead() = default;

}  // namespace warren::walk
