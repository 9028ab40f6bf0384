// SPDX-License-Identifier: Apache-2.0
// What the host's file systems say of a file, in the words of a volume, so that expressions and
// lines know one kind of attributes only.
#pragma once

#include <sys/stat.h>

#include "apps/warren/tree_scan.hpp"
#include "warren/volume.hpp"
#include "warren/walk.hpp"

namespace warren::cli {

/// The fields of statx(2) that attributes_of() reads.
inline constexpr u32 host_fields = STATX_BASIC_STATS | STATX_BTIME;

/// All that `status` tells.
Attributes attributes_of(const struct statx& status);

/// Attributes of an entry that a walk shows.
class EntryAttributes : public AttributeSource {
 public:
    explicit EntryAttributes(const walk::Entry& entry) : entry_(entry) {}
    bool load(Attributes& attributes, u64& sectors) override;
    std::string link_target() override;

 private:
    const walk::Entry& entry_;
};

}  // namespace warren::cli
