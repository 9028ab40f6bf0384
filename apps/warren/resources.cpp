// SPDX-License-Identifier: Apache-2.0
// The soft limit of open files is kept low for select(2), which is not used here.
#include "apps/warren/resources.hpp"

#include <sys/resource.h>

namespace warren::cli {

void raise_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace warren::cli
