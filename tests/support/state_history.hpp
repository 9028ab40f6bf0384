// SPDX-License-Identifier: Apache-2.0
// The states that a workload went through, and whether a volume after a power cut or errors is in a
// permitted one.
//
// Compared exactly: names, types, permissions, owners, links, link targets, extended attributes.
// These change in one transaction each. The contents of a file that was being written may be a
// mixture of its states, byte by byte, but nothing else.
#pragma once

#include <string>
#include <vector>

#include "tests/support/model_file_system.hpp"
#include "warren/volume.hpp"

namespace warren {

class StateHistory {
 public:
    /// Adds the state after one more step. Its open files without a name do not survive a cut.
    void add(const ModelFileSystem& model);
    u64 size() const { return states_.size(); }

    /// Returns the differences of `volume`, which must be in one of the states [first, last]; "" if
    /// there are none.
    std::string explain(Volume& volume, u64 first, u64 last) const;

 private:
    struct State {
        ModelFileSystem model;
        std::string shape;
    };
    std::string explain_contents(Volume& volume, u64 state, u64 first, u64 last) const;
    std::string explain_file(Volume& volume, Handle file, u64 number, u64 first, u64 last) const;

    std::vector<State> states_;
};

}  // namespace warren
