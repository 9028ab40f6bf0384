// SPDX-License-Identifier: Apache-2.0
// A mount of the image that all targets share, with a simulated kernel: the server for clients of
// the control socket and of a ring.
#pragma once

#include "apps/fuse/damage_log.hpp"
#include "apps/fuse/invalidator.hpp"
#include "apps/fuse/late_seek.hpp"
#include "apps/fuse/mount_state.hpp"
#include "base/check.hpp"
#include "tests/apps/fake_kernel.hpp"
#include "tests/fuzz/image.hpp"

namespace warren::fuzz {

struct Mounted {
    Mounted() : state(open(*disk), options(), {}, damage) {}
    ~Mounted() {
        kernel.give_back();
        WARREN_CHECK(state.volume.close() == Errc::ok);
    }
    Mounted(const Mounted&) = delete;
    Mounted& operator=(const Mounted&) = delete;

    static fuse::MountOptions options() {
        fuse::MountOptions options;
        options.image = "image";
        return options;
    }
    Handle root() { return state.volume.access()->root(); }

    std::unique_ptr<MemoryDisk> disk = closed_image().copy();
    fuse::DamageLog damage{"image"};
    fuse::MountState state;
    fuse::test::FakeKernel kernel{state};
    fuse::LateSeeker seeker{kernel.session()};
    fuse::Invalidator invalidator{kernel.session(), [](u64, const std::string&) { return false; }};
};

}  // namespace warren::fuzz
