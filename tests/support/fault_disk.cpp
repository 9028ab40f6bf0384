// SPDX-License-Identifier: Apache-2.0
// Only the decision whether to fail is taken under the lock; the I/O itself is not, so that
// counting does not serialize I/Os that would otherwise run in parallel.
#include "tests/support/fault_disk.hpp"

namespace warren {

bool FaultDisk::fails_now(bool is_counted) {
    if (!is_counted) return false;
    ++count_;
    const bool fails =
        plan_.nth != 0 && (plan_.is_once ? count_ == plan_.nth : count_ >= plan_.nth);
    if (fails) ++failed_count_;
    return fails;
}

Errc FaultDisk::read(u64 offset, std::span<std::byte> target) {
    {
        const std::lock_guard guard(mutex_);
        if (fails_now(plan_.reads)) return Errc::io;
    }
    return below().read(offset, target);
}

Errc FaultDisk::write(u64 offset, std::span<const std::byte> source) {
    bool fails = false;
    bool is_torn = false;
    {
        const std::lock_guard guard(mutex_);
        fails = fails_now(plan_.writes);
        is_torn = plan_.is_torn;
    }
    if (!fails) return below().write(offset, source);
    if (is_torn) WARREN_TRY(below().write(offset, source.first(source.size() / 2)));
    return Errc::io;
}

Errc FaultDisk::flush() {
    {
        const std::lock_guard guard(mutex_);
        if (fails_now(plan_.flushes)) return Errc::io;
    }
    return below().flush();
}

void FaultDisk::set_plan(const FaultPlan& plan) {
    const std::lock_guard guard(mutex_);
    plan_ = plan;
    count_ = 0;
    failed_count_ = 0;
}

u64 FaultDisk::count() const {
    const std::lock_guard guard(mutex_);
    return count_;
}

u64 FaultDisk::failed_count() const {
    const std::lock_guard guard(mutex_);
    return failed_count_;
}

}  // namespace warren
