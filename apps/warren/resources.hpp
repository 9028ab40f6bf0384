// SPDX-License-Identifier: Apache-2.0
// Limits of the process that large jobs need raised.
#pragma once

namespace warren::cli {

/// Raises the limit of open files to the maximum for this process: deep trees keep one open for
/// each level.
void raise_descriptor_limit();

}  // namespace warren::cli
