// SPDX-License-Identifier: Apache-2.0
// All operations on the contents of regular files: where they are (map), how they are written
// (fill), reserved and punched (allocate), resized (truncate) and freed (release).
// make_extent_room() of fs/core/extents.hpp serves Errc::need_split of a regular file.
#pragma once

#include "fs/ops/allocate.hpp"
#include "fs/ops/cut.hpp"
#include "fs/ops/fill.hpp"
#include "fs/ops/map.hpp"
#include "fs/ops/release.hpp"
#include "fs/ops/truncate.hpp"
