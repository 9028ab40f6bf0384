// SPDX-License-Identifier: Apache-2.0
// A path of the host may lie on a mounted Warren volume, whose daemon then does bulk work as one
// command, or elsewhere, where Warren has nothing to say yet.
//
// Invariant: whoever gets no connection has been told why and what to do instead.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "apps/fuse/control.hpp"

namespace warren::cli {

/// Whether the path (last component not followed) lies on a mounted Warren volume.
bool is_on_warren_mount(const std::string& path);

/// Whether a Warren volume is mounted there.
bool is_warren_mount_point(const std::string& path);

/// Whether what is named lies in a volume, mounted or not, or is an image that was named without
/// its ":/": all else is the host's.
bool is_of_volume(const std::string& text);

/// Where the image is mounted; empty if it is not.
std::string mount_point_of_image(const std::string& image);

/// The daemon for a path of the host; nothing, with a complaint that begins with `attempt` and
/// names the tool for other file systems, if there is none.
std::optional<fuse::ControlConnection> connect_for(const std::string& path,
                                                   std::string_view attempt,
                                                   std::string_view other_tool);

}  // namespace warren::cli
