// SPDX-License-Identifier: Apache-2.0
// What the process asks of its host for big jobs.
#pragma once

namespace warren::cli {

/// Allows as many open files as the system lets this process have: deep trees hold one a level.
void raise_descriptor_limit();

}  // namespace warren::cli
