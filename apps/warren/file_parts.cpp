// SPDX-License-Identifier: Apache-2.0
// The payload of a task: begin and end of the part, followed by the name and its NUL.
#include "apps/warren/file_parts.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "walk/names.hpp"

namespace warren::cli {

void add_file_parts(const walk::Entry& entry, u64 size) {
    const std::string_view name = entry.name_view();
    u64 range[2] = {};
    std::vector<std::byte> payload(sizeof range + name.size() + 1);
    std::memcpy(payload.data() + sizeof range, name.data(), name.size());
    for (u64 begin = 0; begin < size; begin += part_bytes) {
        range[0] = begin;
        range[1] = std::min(begin + part_bytes, size);
        std::memcpy(payload.data(), range, sizeof range);
        entry.add(payload);
    }
}

std::optional<FilePart> file_part_of(const walk::Task& task) {
    u64 range[2] = {};
    if (task.payload.size() <= sizeof range) return {};
    std::memcpy(range, task.payload.data(), sizeof range);
    const auto* name = reinterpret_cast<const char*>(task.payload.data() + sizeof range);
    const std::string_view text(name, task.payload.size() - sizeof range);
    if (text.back() != '\0' || !walk::is_entry_name(text.substr(0, text.size() - 1))) return {};
    return FilePart{range[0], range[1], name};
}

}  // namespace warren::cli
