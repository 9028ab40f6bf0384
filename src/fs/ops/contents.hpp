// SPDX-License-Identifier: Apache-2.0
// Includes the operations on the contents of one regular file: where they are (map), writing
// (fill), reserving and punching (allocate), resizing (truncate), freeing (release).
// make_extent_room() of fs/core/extents.hpp serves Errc::need_split of a regular file.
#pragma once

#include "fs/ops/allocate.hpp"
#include "fs/ops/cut.hpp"
#include "fs/ops/fill.hpp"
#include "fs/ops/map.hpp"
#include "fs/ops/release.hpp"
#include "fs/ops/truncate.hpp"
