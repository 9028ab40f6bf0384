// SPDX-License-Identifier: Apache-2.0
// A path of the host may lie on a mounted Warren volume, whose daemon then does bulk work as one
// command, or on another file system.
//
// Invariant: where no connection is returned, an error message has said why and what to do instead.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "apps/fuse/control.hpp"

namespace warren::cli {

/// Whether the path (a final link is not followed) lies on a mounted Warren volume.
bool is_on_warren_mount(const std::string& path);

/// Whether a Warren volume is mounted there.
bool is_warren_mount_point(const std::string& path);

/// Whether the operand lies in a volume, mounted or not, or is an image given without ":/".
/// Otherwise it belongs to the host.
bool is_of_volume(const std::string& text);

/// The mount point of the image; empty if it is not mounted.
std::string mount_point_of_image(const std::string& image);

/// Connects to the daemon for a path of the host. Without one, returns nullopt after an error
/// message that begins with `attempt` and names the tool for other file systems, if there is one.
std::optional<fuse::ControlConnection> connect_for(const std::string& path,
                                                   std::string_view attempt,
                                                   std::string_view other_tool = {});

}  // namespace warren::cli
