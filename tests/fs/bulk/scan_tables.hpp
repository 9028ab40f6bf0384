// SPDX-License-Identifier: Apache-2.0
// What the table of a scan must hold: a row for each file that a walk finds and the filter wants.
// `Buffer` is HostBuffer, or gpu::DeviceBuffer.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "fs/bulk/scan/scan_call.hpp"
#include "tests/fs/bulk/scan_answers.hpp"

namespace warren {

/// Path, name, and the numbers of all columns.
using TableRow = std::tuple<std::string, std::string, std::vector<i64>>;

inline constexpr u32 widths[scan_columns] = {2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
inline bool is_short(u32 column) {
    return column == static_cast<u32>(ScanColumn::mode) ||
           column == static_cast<u32>(ScanColumn::depth);
}

/// An order for all columns, and memory for them.
template <template <class> class Buffer>
class OrderedTable {
 public:
    using Fetch = std::function<void(void* to, const void* from, u64 bytes)>;

    OrderedTable(std::string path, const Fetch& fetch) : path_(std::move(path)), fetch_(fetch) {
        order.path = path_;
        order.wants_paths = true;
        order.make = [this](i32, const ScanTableSize& size, ScanTable& table) {
            return make(size, table);
        };
    }
    OrderedTable(const OrderedTable&) = delete;

    std::multiset<TableRow> rows() const {
        const std::vector<std::string> names = texts(names_, size_.name_bytes);
        const std::vector<std::string> paths = texts(paths_, size_.path_bytes);
        std::vector<std::vector<i64>> numbers(size_.rows);
        for (u32 column = 0; column < scan_columns; ++column) {
            const u64 count = size_.rows * widths[column];
            std::vector<i32> few(count);
            std::vector<i64> many(count);
            fetch_(is_short(column) ? static_cast<void*>(few.data()) : many.data(),
                   numbers_[column].data(), bytes_in(column));
            if (is_short(column)) many.assign(few.begin(), few.end());
            for (u64 i = 0; i < count; ++i)
                numbers[i / widths[column]].push_back(many[i]);
        }
        std::multiset<TableRow> all;
        for (u64 i = 0; i < size_.rows; ++i)
            all.emplace(paths[i], names[i], numbers[i]);
        return all;
    }

    ScanTableOrder order;
    u32 calls = 0;
    bool has_room = true;

 private:
    struct Text {
        Buffer<i64> offsets;
        Buffer<char> bytes;
    };

    Errc make(const ScanTableSize& size, ScanTable& table) {
        ++calls;
        if (!has_room) return Errc::no_memory;
        size_ = size;
        for (u32 i = 0; i < scan_columns; ++i) {
            WARREN_TRY(numbers_[i].allocate(bytes_in(i) + 1));
            table.numbers[i] = numbers_[i].data();
        }
        WARREN_TRY(make(names_, size.name_bytes, table.names));
        return make(paths_, size.path_bytes, table.paths);
    }
    u64 bytes_in(u32 column) const {
        return size_.rows * widths[column] * (is_short(column) ? sizeof(i32) : sizeof(i64));
    }
    Errc make(Text& text, u64 bytes, ScanTable::Text& in) const {
        WARREN_TRY(text.offsets.allocate(size_.rows + 1));
        WARREN_TRY(text.bytes.allocate(bytes + 1));
        in = {text.offsets.data(), text.bytes.data()};
        return Errc::ok;
    }
    std::vector<std::string> texts(const Text& text, u64 bytes) const {
        std::vector<i64> offsets(size_.rows + 1);
        fetch_(offsets.data(), text.offsets.data(), offsets.size() * sizeof(i64));
        std::string whole(bytes, '\0');
        fetch_(whole.data(), text.bytes.data(), bytes);
        EXPECT_EQ(offsets[0], 0);
        EXPECT_EQ(offsets.back(), static_cast<i64>(bytes));
        std::vector<std::string> all;
        for (u64 i = 0; i < size_.rows; ++i) {
            EXPECT_LE(offsets[i], offsets[i + 1]);
            all.push_back(whole.substr(static_cast<u64>(offsets[i]),
                                       static_cast<u64>(offsets[i + 1] - offsets[i])));
        }
        return all;
    }

    const std::string path_;
    const Fetch fetch_;
    ScanTableSize size_;
    Buffer<std::byte> numbers_[scan_columns];
    Text names_;
    Text paths_;
};

inline void fetch_on_host(void* to, const void* from, u64 bytes) {
    std::copy_n(static_cast<const std::byte*>(from), bytes, static_cast<std::byte*>(to));
}

/// The rows that the table must have, if the root's path is `path`.
inline std::multiset<TableRow> walk_table(Volume& volume, Handle root, const std::string& path,
                                          const ScanFilter& filter) {
    ops::FileFilter files;
    EXPECT_EQ(ops::set_filter(files, filter), Errc::ok);
    std::map<u64, std::string> paths;
    std::multiset<TableRow> rows;
    walk_each(volume, root, [&](const Scanned& found) {
        const Attributes& at = found.attributes;
        const bool is_root = found.depth == 0;
        const std::string name =
            is_root ? path.substr(path.rfind('/') + 1) : std::string(found.name);
        std::string whole = path;
        if (!is_root) {
            whole = paths.at(found.directory.inode);
            whole += (whole == "/" ? "" : "/") + name;
        }
        if (is_directory(at)) paths[at.handle.inode] = whole;
        const auto number = [](auto value) { return static_cast<i64>(value); };
        if (files.wants_name(name.data(), static_cast<u32>(name.size()),
                             format::entry_type(at.mode)) &&
            files.wants_file(at.size, at.modified)) {
            rows.emplace(
                whole, name,
                std::vector<i64>{number(at.handle.inode), number(at.handle.generation),
                                 number(found.directory.inode), number(found.directory.generation),
                                 number(at.size), number(at.blocks), at.modified, at.accessed,
                                 at.changed, number(at.mode), number(at.links), number(at.user),
                                 number(at.group), number(found.depth)});
        }
        return found.depth < filter.depth_max;
    });
    return rows;
}

/// Orders a table of the whole volume by the public call. Returns how many entries were visited.
inline u64 order_table(Volume& volume, ScanTableOrder& table, const Caller& caller = anybody,
                       Errc wanted = Errc::ok) {
    std::atomic<u64> visits{0};
    const auto count = [&](const Scanned&) {
        ++visits;
        return true;
    };
    std::vector<ScanPosition> left{{volume.root()}};
    EXPECT_EQ(volume.scan_step(caller, left, count, {}, {}, &table), wanted);
    EXPECT_TRUE(left.empty() || wanted != Errc::ok);
    return visits;
}

/// Fills tables of the whole volume and of its directories by `fill`, which takes a ScanCall.
template <template <class> class Buffer, class Fill>
void expect_tables(InsideVolume& volume, const typename OrderedTable<Buffer>::Fetch& fetch,
                   const Fill& fill) {
    std::vector<std::pair<Handle, std::string>> roots{{volume->root(), "/"}};
    for (const auto& [name, inode] : list_names(*volume, volume->root())) {
        const Result<Attributes> found = volume->lookup(anybody, volume->root(), name);
        if (found && is_directory(*found) && roots.size() < 4) {
            roots.emplace_back(found->handle, "/where/it/is " + std::to_string(roots.size()));
        }
    }
    std::vector<ScanFilter> all = filters();
    all.push_back({.pattern = "is ?", .types = 1 << 4});
    for (const auto& [root, path] : roots) {
        for (const ScanFilter& filter : all) {
            OrderedTable<Buffer> table(path, fetch);
            ScanCall call{bulk::plan_scan(ScanPurpose::visit, credentials_of(anybody)), root};
            ASSERT_EQ(ops::set_filter(call.plan.files, filter), Errc::ok);
            call.table = &table.order;
            call.root_attributes = *volume->attributes(root);
            ASSERT_EQ(fill(call), Errc::ok);
            EXPECT_EQ(table.calls, 1u);
            const auto wanted = walk_table(*volume, root, path, filter);
            EXPECT_TRUE(table.rows() == wanted) << path << " '" << filter.pattern << "' depth "
                                                << filter.depth_max << ": " << wanted.size();
        }
    }
}

}  // namespace warren
