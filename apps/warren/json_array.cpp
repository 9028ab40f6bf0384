// SPDX-License-Identifier: Apache-2.0
// The first object opens the array; each later one is preceded by the separator.
#include "apps/warren/json_array.hpp"

#include <string>

#include "apps/warren/messages.hpp"

namespace warren::cli {

void JsonArray::add(std::string_view objects) {
    std::lock_guard lock(mutex_);
    print_bytes(std::string(has_begun_ ? separator : "[").append(objects));
    has_begun_ = true;
}

void JsonArray::close() {
    std::lock_guard lock(mutex_);
    print_bytes(has_begun_ ? "]\n" : "[]\n");
}

}  // namespace warren::cli
