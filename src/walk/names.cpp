// SPDX-License-Identifier: Apache-2.0
// Names that are neighbours in a directory are often numbered. So a name's difference from the
// previous one and the difference of their inodes take a few bytes instead of 24 and the whole
// name.
#include "walk/names.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "walk/bytes.hpp"

namespace warren::walk {

namespace {

constexpr size_t name_at = offsetof(Name, text);

/// Maps differences of either sign to numbers that are small if the difference is small.
u64 fold(u64 difference) {
    return difference << 1 ^ (static_cast<i64>(difference) < 0 ? ~u64{0} : 0);
}

u64 unfold(u64 folded) {
    return folded >> 1 ^ ((folded & 1) != 0 ? ~u64{0} : 0);
}

size_t record_bytes(size_t name_bytes) {
    return (name_at + name_bytes + 1 + 7) & ~size_t{7};
}

}  // namespace

bool is_entry_name(std::string_view name) {
    return !name.empty() && name != "." && name != ".." &&
           name.find_first_of(std::string_view("/\0", 2)) == name.npos;
}

bool are_records(std::string_view bytes) {
    if (bytes.size() > records_most) return false;
    while (!bytes.empty()) {
        Name record{};
        if (bytes.size() < record_bytes(1)) return false;
        std::memcpy(&record, bytes.data(), name_at);
        if (record.size < record_bytes(1) || record.size > bytes.size() || record.size % 8 != 0) {
            return false;
        }
        const std::string_view text = bytes.substr(name_at, record.size - name_at);
        const size_t end = text.find('\0');
        if (end == text.npos || !is_entry_name(text.substr(0, end))) return false;
        bytes.remove_prefix(record.size);
    }
    return true;
}

std::string pack_names(std::string_view records) {
    ByteWriter writer;
    std::string_view before;
    u64 inode = 0;
    while (!records.empty()) {
        const auto& record = *reinterpret_cast<const Name*>(records.data());
        records.remove_prefix(record.size);
        if (is_dot(record.text)) continue;
        const std::string_view name = record.text;
        const auto differ = std::mismatch(name.begin(), name.end(), before.begin(), before.end());
        const auto common = static_cast<size_t>(differ.first - name.begin());
        writer.put(record.type);
        writer.put_number(fold(record.inode - inode));
        writer.put_number(common);
        writer.put_bytes(name.substr(common));
        before = name;
        inode = record.inode;
    }
    return writer.take();
}

std::optional<std::string> unpack_names(std::string_view packed) {
    std::string records;
    std::string name;
    u64 inode = 0;
    ByteReader reader(packed, Origin::file);
    while (!reader.at_end()) {
        const u8 type = reader.get<u8>();
        inode += unfold(reader.get_number());
        const u64 common = reader.get_number();
        if (!reader.expect(common <= name.size())) break;
        name.resize(common);
        name += reader.get_bytes();
        const size_t size = record_bytes(name.size());
        const bool fits = is_entry_name(name) && records.size() + size <= records_most;
        if (!reader.expect(fits)) break;
        Name record{};
        record.inode = inode;
        record.size = static_cast<u16>(size);
        record.type = type;
        const size_t at = records.size();
        records.resize(at + size);
        std::memcpy(records.data() + at, &record, name_at);
        name.copy(records.data() + at + name_at, name.size());
    }
    if (!reader.good()) return {};
    return records;
}

}  // namespace warren::walk
