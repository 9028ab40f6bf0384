// SPDX-License-Identifier: Apache-2.0
// The arguments of commands that make and move names, of one item or of many.
#pragma once

#include <string_view>

#include "fs/volume/volume_implementation.hpp"

namespace warren {

inline void set_creation(ops::Command& command, const VolumeImplementation& volume,
                         const Caller& caller, Handle directory, std::string_view name,
                         const CreateOptions& options) {
    set_named(command, directory, name, caller);
    command.mode = options.mode;
    command.device = options.device;
    command.text = options.target.data();
    command.text_bytes = options.target.size();
    command.references = volume.references_for(options.hold, options.open);
    command.now = now_nanoseconds();
}
inline void set_move(ops::Command& command, const Caller& caller, const Move& move, Rename how) {
    set_named(command, move.from, move.name, caller);
    command.target = move.to;
    command.new_name = move.new_name.data();
    command.new_name_length = length_of(move.new_name);
    command.how = static_cast<u8>(how);
    command.now = now_nanoseconds();
}

}  // namespace warren
