// SPDX-License-Identifier: Apache-2.0
// All that is done to the contents of regular files, for those who run it: where they are (map),
// how they are written (fill), reserved and punched (allocate), resized (truncate) and given back
// (release). Serving Errc::need_split of a regular file is make_extent_room() of
// fs/core/extents.hpp.
#pragma once

#include "fs/ops/allocate.hpp"
#include "fs/ops/cut.hpp"
#include "fs/ops/fill.hpp"
#include "fs/ops/map.hpp"
#include "fs/ops/release.hpp"
#include "fs/ops/truncate.hpp"
