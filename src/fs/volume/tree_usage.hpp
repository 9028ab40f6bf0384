// SPDX-License-Identifier: Apache-2.0
// What trees take, added up from one scan: the answer of engines that cannot add where they work.
#pragma once

#include <vector>

#include "fs/volume/volume_implementation.hpp"

namespace warren {

class TreeUsage {
 public:
    explicit TreeUsage(VolumeImplementation& volume) : volume_(volume) {}

    /// See Engine::usage().
    Errc measure(const core::Credentials& caller, const Attributes& root,
                 const UsageOptions& options, std::vector<DirectoryUsage>& answer);

 private:
    VolumeImplementation& volume_;
};

}  // namespace warren
