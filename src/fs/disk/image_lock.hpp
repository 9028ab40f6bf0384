// SPDX-License-Identifier: Apache-2.0
// Locks of images and devices: one writer or any number of readers among all processes.
//
// Invariant: the lock is flock(2). It belongs to the open file, so it survives a fork into the
// background and ends with the last process that has the file open.
#pragma once

#include <string>

namespace warren {

/// Locks the file; false if another process holds the lock. Retries for half a second (a device:
/// one second): the kernel closes the rings of a killed process, and with them its lock, a little
/// later than the process itself, and a device prober holds a device for a moment.
bool lock_image(int descriptor, bool is_exclusive, bool is_device);

/// The process that has locked the file: "process 71 (warren)", or "another process" if this user
/// may not see it.
std::string lock_holder(int descriptor);

/// What claims a block device that cannot be opened with O_EXCL: "mounted on /mnt", "a part of
/// md0", "by process 71 (warren)".
std::string device_claim(const std::string& path);

}  // namespace warren
