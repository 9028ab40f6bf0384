// SPDX-License-Identifier: Apache-2.0
// Looks where libfuse does: in /usr/bin, then along PATH.
#include "apps/fuse/fusermount.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace warren::fuse {

std::string find_fusermount() {
    const char* variable = std::getenv("PATH");
    const std::string places = "/usr/bin:/bin:" + std::string(variable != nullptr ? variable : "");
    for (std::size_t begin = 0; begin < places.size();) {
        const std::size_t end = std::min(places.find(':', begin), places.size());
        std::string path = places.substr(begin, end - begin) + "/fusermount3";
        if (::access(path.c_str(), X_OK) == 0) return path;
        begin = end + 1;
    }
    return "";
}

}  // namespace warren::fuse
