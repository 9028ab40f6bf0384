// SPDX-License-Identifier: Apache-2.0
// The one place that includes libfuse, so that every file sees the same version of its interface.
#pragma once

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>
