// SPDX-License-Identifier: Apache-2.0
// The states that a workload went through, and whether a volume that was cut off or met errors is
// in one of those that it may be in.
//
// What is compared exactly: names, kinds, permissions, owners, links, targets, extended attributes.
// These change in one transaction each. Contents of a file that was being written may be a mixture
// of its states, byte by byte, and never anything else.
#pragma once

#include <string>
#include <vector>

#include "tests/support/model_file_system.hpp"
#include "warren/volume.hpp"

namespace warren {

class StateHistory {
 public:
    /// Adds the state after one more step. What is open in it without a name is gone after a cut.
    void add(const ModelFileSystem& model);
    u64 size() const { return states_.size(); }

    /// What is wrong with `volume`, which must be in one of the states [first, last]; empty if
    /// nothing.
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
