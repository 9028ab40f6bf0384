// SPDX-License-Identifier: Apache-2.0
// A volume with a replica in the host's memory, and queries of it.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "tests/fs/bulk/scan_answers.hpp"
#include "tests/support/host_reader.hpp"

namespace warren {

/// An open volume with a replica.
struct AssistedVolume {
    explicit AssistedVolume(u32 entries = 300, const std::function<double()>& now = seconds_now)
        : disk(make_memory_disk(64 * mib)), volume(*disk), replica(volume.inside(), now) {
        if (entries > 0) build_random(*volume, 1, entries);
    }
    Volume& operator*() { return *volume; }
    Volume* operator->() { return &*volume; }

    /// A directory that only root may enter, with a file.
    Handle make_secret() {
        CreateOptions closed;
        closed.mode = 040700;
        const auto secret = volume->create(anybody, volume->root(), "secret", closed);
        EXPECT_TRUE(secret && volume->create(anybody, secret->handle, "file", {}));
        return secret ? secret->handle : Handle{};
    }
    Errc find(const Caller& caller, Handle root, u64* visits = nullptr) {
        std::atomic<u64> count{0};
        const Errc code = volume->scan(caller, root, [&](const Scanned&) {
            count.fetch_add(1, std::memory_order_relaxed);
            return true;
        });
        if (visits != nullptr) *visits = count;
        return code;
    }
    Errc du(const Caller& caller, Handle root, u64* entries = nullptr) {
        std::vector<DirectoryUsage> usage;
        const Errc code = volume->usage(caller, root, {}, usage);
        if (entries != nullptr) *entries = usage[0].entries;
        return code;
    }

    std::unique_ptr<MemoryDisk> disk;
    InsideVolume volume;
    HostReplicaOf replica;
};

}  // namespace warren
