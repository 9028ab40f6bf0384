// SPDX-License-Identifier: Apache-2.0
// The state of a thread of the walk, and what it holds of a directory.
#pragma once

#include <vector>

#include "walk/engine.hpp"
#include "walk/names.hpp"
#include "walk/visit.hpp"

namespace warren::walk {

struct Engine::Worker {
    explicit Worker(u32 own_number) : number(own_number) {}
    u32 number;
    Visit visit;
    std::vector<std::byte> buffer;
    std::vector<const Name*> order;
    bool gives_files = false;  // of the current part
};

/// Holds a count of a directory and, after use(), a use of its descriptor. The destructor releases
/// both.
class Engine::Hold {
 public:
    Hold(Engine& engine, Node& node, bool uses) : engine_(engine), node_(node), uses_(uses) {}
    ~Hold() {
        if (uses_) engine_.descriptors_.done(node_);
        engine_.release(&node_);
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

    void use() { uses_ = true; }

 private:
    Engine& engine_;
    Node& node_;
    bool uses_;
};

}  // namespace warren::walk
