// SPDX-License-Identifier: Apache-2.0
// A plan for each of the commands. The output of a run belongs to its command until all of it is
// visited, and a visitor may begin a scan itself: each command at work has a scan of its own.
#include "fs/engine/cuda/launch/tree_reading.hpp"

namespace warren::cuda_engine {

Errc TreeReading::take_scan(std::unique_ptr<TreeScan>& scan) {
    {
        const std::lock_guard lock(mutex_);
        if (!scans_.empty()) {
            scan = std::move(scans_.back());
            scans_.pop_back();
            return Errc::ok;
        }
    }
    scan = std::make_unique<TreeScan>();
    return scan->open();
}

Errc TreeReading::run(const core::Store& store, BulkHost& host, const ScanPlan& plan, Handle root,
                      const std::function<void(const ScanOutput&)>& take,
                      std::vector<ScanSum>* sums) {
    std::unique_ptr<TreeScan> scan;
    WARREN_TRY(take_scan(scan));
    const auto take_apart = [&](const ScanOutput& output) {
        return host.let_go([&] {
            take(output);
            return Errc::ok;
        });
    };
    Errc code = scan->scan(store, plan, root, take_apart, host);
    if (code != Errc::io && sums != nullptr) {
        const Errc fetched = scan->fetch_sums(*sums);
        if (code == Errc::ok) code = fetched;
    }
    if (code == Errc::io && !scan->is_sound()) {
        is_sound_.store(false, std::memory_order_relaxed);
        return code;
    }
    // A run that was not begun to its end has left tasks in its queue, where the next would wait
    // for room.
    if (code == Errc::io || code == Errc::no_memory) return code;
    const std::lock_guard lock(mutex_);
    scans_.push_back(std::move(scan));
    return code;
}

Errc TreeReading::scan(const core::Store& store, BulkHost& host, const ScanCall& call) {
    ScanPlan plan = plan_scan(ScanPurpose::visit, call.caller);
    plan.files = call.filter;
    ScanVisits visits(call);
    // A visitor that takes no more is not called any more: the run ends, and its output is
    // dropped.
    Errc waited = Errc::ok;
    const Errc code = run(store, host, plan, call.root.handle, [&](const ScanOutput& output) {
        if (waited == Errc::ok) visits.take(output);
        if (waited == Errc::ok && call.wait) waited = call.wait();
    });
    return code == Errc::ok ? waited : code;
}

Errc TreeReading::usage(const core::Store& store, BulkHost& host, const core::Credentials& caller,
                        const Attributes& root, const UsageOptions& options,
                        std::vector<DirectoryUsage>& answer) {
    ScanPlan plan = plan_scan(ScanPurpose::measure, caller);
    plan.counts_links = options.counts_links;
    plan.sums_depth = options.depth_max;
    std::vector<ScanSum> sums;
    const Errc code = run(
        store, host, plan, root.handle,
        [&](const ScanOutput& output) { take_usage(output, answer); }, &sums);
    // With an error, what was added up before.
    add_sums(sums, answer);
    return code;
}

Errc TreeReading::check_removable(const core::Store& store, BulkHost& host,
                                  const core::Credentials& caller, Handle root,
                                  core::TreeCheck check) {
    ScanPlan plan = plan_scan(ScanPurpose::removal, caller);
    plan.tree_check = check;
    return run(store, host, plan, root, [](const ScanOutput&) {});
}

}  // namespace warren::cuda_engine
