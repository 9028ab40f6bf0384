// SPDX-License-Identifier: Apache-2.0
// Makes a scan plan for each of the commands. Each running command has a TreeScan of its own: the
// output of a run is in use until all of it was visited, and a visitor may itself start a scan.
#include "fs/engine/cuda/launch/tree_reading.hpp"

namespace warren::cuda_engine {

Errc TreeReading::run(const std::function<Errc(TreeScan& scan)>& body) {
    std::unique_ptr<TreeScan> scan = idle_.take();
    if (scan == nullptr) {
        scan = std::make_unique<TreeScan>();
        WARREN_TRY(scan->open(shape_));
    }
    const Errc code = body(*scan);
    if (code == Errc::io && !scan->is_sound()) {
        is_sound_.store(false, std::memory_order_relaxed);
        return code;
    }
    // A scan that failed may have left tasks in its queue, so it is not used again.
    if (code == Errc::io || code == Errc::no_memory) return code;
    idle_.keep(std::move(scan));
    return code;
}

Errc TreeReading::scan(const core::Store& store, BulkHost& host, const ScanCall& call) {
    if (call.table == nullptr) return deliver(store, host, call);
    const Errc code = run([&](TreeScan& scan) { return scan.fill_table(store, call, host); });
    if (code == Errc::no_space || code == Errc::no_memory) return deliver(store, host, call);
    call.table->is_filled = code == Errc::ok;
    return code;
}

/// Calls the visitor, or takes sums.
Errc TreeReading::deliver(const core::Store& store, BulkHost& host, const ScanCall& call) {
    ScanVisits visits(call);
    std::vector<ScanSum> sums;
    Errc waited = Errc::ok;
    const auto take = [&](const ScanOutput& output) {
        if (call.usage != nullptr) return take_usage(output, *call.usage);
        // After an error of call.wait() visitors are not called any more: the run ends, and its
        // output is dropped.
        if (call.visit == nullptr || waited != Errc::ok) return;
        visits.take(output);
        if (call.visited != nullptr && !output.await_all())
            visits.note_visited(output, *call.visited);
        if (call.wait) waited = call.wait();
    };
    const auto take_apart = [&](const ScanOutput& output) {
        return host.let_go([&] {
            take(output);
            return Errc::ok;
        });
    };
    const TakeOutput& take_all =
        call.take_masks != nullptr ? *call.take_masks : TakeOutput(take_apart);
    const Errc code = run([&](TreeScan& scan) {
        const Errc scanned = scan.scan(store, call.plan, call.root, take_all, host);
        if (scanned == Errc::io || call.usage == nullptr) return scanned;
        const Errc fetched = scan.fetch_sums(sums);
        return scanned == Errc::ok ? fetched : scanned;
    });
    // After an error the answer has the sums up to then.
    if (call.usage != nullptr) add_sums(sums, *call.usage);
    return code == Errc::ok ? waited : code;
}

}  // namespace warren::cuda_engine
