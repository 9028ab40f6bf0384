// SPDX-License-Identifier: Apache-2.0
// Converts what the host's file systems report about a file into the attributes of a volume, so
// that expressions and output handle one kind of attributes.
#pragma once

#include <sys/stat.h>

#include "apps/warren/tree_scan.hpp"
#include "warren/volume.hpp"
#include "warren/walk.hpp"

namespace warren::cli {

/// The fields of statx(2) that attributes_of() reads.
inline constexpr u32 host_fields = STATX_BASIC_STATS | STATX_BTIME;

/// All attributes that `status` contains.
Attributes attributes_of(const struct statx& status);

/// The attributes of an entry found by a walk.
class EntryAttributes : public AttributeSource {
 public:
    explicit EntryAttributes(const walk::Entry& entry) : entry_(entry) {}
    bool load(Attributes& attributes, u64& sectors) override;
    std::string link_target() override;

 private:
    const walk::Entry& entry_;
};

}  // namespace warren::cli
