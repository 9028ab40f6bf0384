// SPDX-License-Identifier: Apache-2.0
// The output of a scan as columns, where the output lies: a row for each entry that the filter
// wants, in the order of the output, behind a row for the root.
//
// First the sizes of all bundles are measured and summed up, so that each knows the rows and bytes
// before it; then all bundles are written at once. Paths are not kept anywhere: a bundle writes the
// names of the directories above it into the paths of all of its rows.
//
// Invariant: a directory has a higher number than the one that it is in, so a way up ends at the
// root.
#pragma once

#include "fs/bulk/scan/scan_output.hpp"
#include "warren/scan_table.hpp"

namespace warren::bulk {

WARREN_HD constexpr u32 column_width(ScanColumn column) {
    return column == ScanColumn::handle || column == ScanColumn::parent ? 2 : 1;
}
WARREN_HD constexpr bool is_small_column(ScanColumn column) {
    return column == ScanColumn::mode || column == ScanColumn::depth;
}

/// The number that a column holds of an entry of `directory`; `part`: which of two.
WARREN_HD inline i64 number_in(ScanColumn column, u32 part, Handle directory, u32 depth,
                               const Attributes& of) {
    const auto part_of = [part](Handle handle) {
        return part == 0 ? static_cast<i64>(handle.inode) : static_cast<i64>(handle.generation);
    };
    switch (column) {
        case ScanColumn::handle:
            return part_of(of.handle);
        case ScanColumn::parent:
            return part_of(directory);
        case ScanColumn::size:
            return static_cast<i64>(of.size);
        case ScanColumn::blocks:
            return static_cast<i64>(of.blocks);
        case ScanColumn::modified:
            return of.modified;
        case ScanColumn::accessed:
            return of.accessed;
        case ScanColumn::changed:
            return of.changed;
        case ScanColumn::mode:
            return of.mode;
        case ScanColumn::links:
            return of.links;
        case ScanColumn::user:
            return of.user;
        case ScanColumn::group:
            return of.group;
        case ScanColumn::depth:
            return depth;
    }
    return 0;
}

WARREN_HD inline ScanTableSize sum_of(const ScanTableSize& a, const ScanTableSize& b) {
    return {a.rows + b.rows, a.name_bytes + b.name_bytes, a.path_bytes + b.path_bytes};
}

/// Writes the numbers of a row. One lane.
WARREN_HD inline void put_numbers(const ScanTable& table, u64 row, Handle directory, u32 depth,
                                  const Attributes& of) {
    for (u32 i = 0; i < scan_columns; ++i) {
        if (table.numbers[i] == nullptr) continue;
        const auto column = static_cast<ScanColumn>(i);
        const u32 width = column_width(column);
        for (u32 part = 0; part < width; ++part) {
            const i64 number = number_in(column, part, directory, depth, of);
            const u64 at = row * width + part;
            if (is_small_column(column)) {
                static_cast<i32*>(table.numbers[i])[at] = static_cast<i32>(number);
            } else {
                static_cast<i64*>(table.numbers[i])[at] = number;
            }
        }
    }
}

/// A directory among the results, for paths.
struct TableDirectory {
    u64 name;        // where it begins, in words of the output << 8 | length in bytes
    u64 path_bytes;  // of its path with a slash behind it
    u64 above;       // number of the directory that it is in
};

/// What the rows are made of.
struct TableSource {
    const u64* output;
    const BundlePlace* bundles;
    u64 bundle_count;
    const ScanDirectory* directories;
    TableDirectory* ways;  // of the directories, by number; null: no paths are wanted
    u64 directory_count;
    const char* path;  // of the root
    u64 path_length;
    u64 root_name;  // where the root's name begins in its path
    Attributes root;
    ops::FileFilter files;
};

/// Call for all bundles note_directories(), then note_path() for all directories, both only for
/// paths; then measure() and measure_root(); last write() and write_root(). Members are collective
/// unless they say "one lane".
template <class Team>
class TableMaker {
 public:
    WARREN_HD TableMaker(const Team& team, const TableSource& source)
        : team_(team), source_(source) {}

    WARREN_HD void note_directories(u64 index) const {
        if (source_.bundles[index].directories == 0) return;
        const Row row = read(index);
        if (!row.is_directory || row.number == ~u32{0}) return;  // nothing is below it
        WARREN_CHECK(row.number < source_.directory_count);
        source_.ways[row.number] = {row.name, 0, bundle(index).above};
    }
    /// One lane.
    WARREN_HD void note_path(u64 directory) const {
        u64 bytes = root_path_bytes();
        for (u64 at = directory; at != 0; at = above(at))
            bytes += name_bytes(source_.ways[at].name) + 1;
        source_.ways[directory].path_bytes = bytes;
    }

    /// What a bundle adds to the table.
    WARREN_HD ScanTableSize measure(u64 index) const {
        const Row row = read(index);
        const u32 rows = team_.ballot(row.is_wanted);
        ScanTableSize size{static_cast<u64>(hd::popcount(rows)), 0, 0};
        for (u32 left = rows; left != 0; left &= left - 1)
            size.name_bytes += name_bytes(team_.broadcast(row.name, first_of(left)));
        if (source_.ways != nullptr) {
            size.path_bytes = size.name_bytes + size.rows * prefix_bytes(index);
        }
        return size;
    }
    /// One lane.
    WARREN_HD ScanTableSize measure_root() const {
        const u64 name = source_.path_length - source_.root_name;
        const char* at = source_.path + source_.root_name;
        if (!source_.files.wants(at, static_cast<u32>(name), source_.root)) return {};
        return {1, name, source_.ways == nullptr ? 0 : source_.path_length};
    }

    /// Writes the rows of a bundle, behind those whose size is `before`.
    WARREN_HD void write(const ScanTable& table, u64 index, const ScanTableSize& before) const {
        const Row row = read(index);
        const u32 rows = team_.ballot(row.is_wanted);
        if (rows == 0) return;
        const u32 rank = rank_in(team_, rows);
        u64 names = 0;  // bytes of the rows before this lane's
        for (u32 left = rows; left != 0; left &= left - 1) {
            const u64 its = name_bytes(team_.broadcast(row.name, first_of(left)));
            if (first_of(left) < team_.lane()) names += its;
        }
        const u64 number = before.rows + rank;
        const u64 prefix = source_.ways == nullptr ? 0 : prefix_bytes(index);
        const u64 name_begin = before.name_bytes + names;
        const u64 path_begin = before.path_bytes + names + rank * prefix;
        if (row.is_wanted) {
            put_numbers(table, number, handle(index), bundle(index).depth, row.attributes);
            put_offset(table.names, number, name_begin);
            put_offset(table.paths, number, path_begin);
        }
        put_names(table.names, rows, row.name, name_begin);
        if (table.paths.bytes == nullptr) return;
        put_names(table.paths, rows, row.name, path_begin + prefix);
        put_prefixes(table.paths, rows, bundle(index).above, path_begin);
    }
    /// Also ends the texts of the table, whose size is `whole`. One lane.
    WARREN_HD void write_root(const ScanTable& table, const ScanTableSize& whole) const {
        if (measure_root().rows != 0) {
            put_numbers(table, 0, source_.root.handle, 0, source_.root);
            put_root(table.names, source_.root_name);
            put_root(table.paths, 0);
        }
        put_offset(table.names, whole.rows, whole.name_bytes);
        put_offset(table.paths, whole.rows, whole.path_bytes);
    }

 private:
    /// The entry of this lane.
    struct Row {
        bool is_wanted = false;
        bool is_directory = false;
        u32 number = 0;  // of a directory
        u64 name = 0;    // as in TableDirectory
        Attributes attributes;
    };

    static WARREN_HD u64 name_bytes(u64 name) { return name & 0xff; }
    static WARREN_HD u32 first_of(u32 lanes) { return static_cast<u32>(hd::countr_zero(lanes)); }

    WARREN_HD const ScanBundle& bundle(u64 index) const {
        return *reinterpret_cast<const ScanBundle*>(source_.output + source_.bundles[index].begin);
    }
    /// The directory that the entries of a bundle are in.
    WARREN_HD Handle handle(u64 index) const {
        WARREN_CHECK(bundle(index).above < source_.directory_count);
        const ScanDirectory& at = source_.directories[bundle(index).above];
        return {at.number, at.generation};
    }
    WARREN_HD u64 prefix_bytes(u64 index) const {
        return source_.ways[bundle(index).above].path_bytes;
    }
    WARREN_HD u64 above(u64 directory) const {
        const u64 above = source_.ways[directory].above;
        WARREN_CHECK(above < directory);
        return above;
    }
    /// The length of the root's path with a slash behind it.
    WARREN_HD u64 root_path_bytes() const {
        return source_.path_length + (source_.path_length == 1 ? 0 : 1);
    }
    WARREN_HD const char* text(u64 name) const {
        return reinterpret_cast<const char*>(source_.output + (name >> 8));
    }

    WARREN_HD Row read(u64 index) const {
        const ScanBundle& in = bundle(index);
        WARREN_CHECK(in.count <= Team::width);
        Row row;
        if (team_.lane() >= in.count) return row;
        const u64 begin = source_.bundles[index].begin;
        const u64* records = source_.output + begin + bundle_words;
        row.is_wanted = true;  // the scan has left out other files, but no directories
        if (in.is_short != 0) {
            const auto& record = reinterpret_cast<const ShortRecord*>(records)[team_.lane()];
            record.tell(handle(index), row.attributes);
            row.attributes.user = in.user;
            row.attributes.group = in.group;
            row.name = (begin << 8) + record.name;
            return row;
        }
        const auto& record = reinterpret_cast<const ScanRecord*>(records)[team_.lane()];
        record.tell(handle(index), row.attributes);
        row.name = (begin << 8) + record.name;
        if (!record.is_directory()) return row;
        row.is_directory = true;
        row.number = record.directory;
        row.is_wanted = source_.files.wants(text(row.name), static_cast<u32>(name_bytes(row.name)),
                                            row.attributes);
        return row;
    }

    static WARREN_HD void put_offset(const ScanTable::Text& text, u64 row, u64 offset) {
        if (text.offsets != nullptr) text.offsets[row] = static_cast<i64>(offset);
    }
    /// Each lane of `rows` has a name and the offset at which it is to be.
    WARREN_HD void put_names(const ScanTable::Text& to, u32 rows, u64 name, u64 offset) const {
        if (to.bytes == nullptr) return;
        for (u32 left = rows; left != 0; left &= left - 1) {
            const u64 its = team_.broadcast(name, first_of(left));
            char* at = to.bytes + team_.broadcast(offset, first_of(left));
            for (u64 i = team_.lane(); i < name_bytes(its); i += Team::width)
                at[i] = text(its)[i];
        }
    }
    /// Each lane of `rows` has the offset at which the path of the directory `in` is to be.
    WARREN_HD void put_prefixes(const ScanTable::Text& to, u32 rows, u64 in, u64 offset) const {
        u64 end = source_.ways[in].path_bytes;
        const auto put = [&](const char* name, u64 length, u64 bytes) {
            end -= bytes;
            for (u32 left = rows; left != 0; left &= left - 1) {
                char* at = to.bytes + team_.broadcast(offset, first_of(left)) + end;
                for (u64 i = team_.lane(); i < bytes; i += Team::width)
                    at[i] = i < length ? name[i] : '/';
            }
        };
        for (; in != 0; in = above(in)) {
            const u64 name = source_.ways[in].name;
            put(text(name), name_bytes(name), name_bytes(name) + 1);
        }
        put(source_.path, source_.path_length, root_path_bytes());
        WARREN_CHECK(end == 0);
    }
    WARREN_HD void put_root(const ScanTable::Text& to, u64 from) const {
        if (to.bytes == nullptr) return;
        to.offsets[0] = 0;
        for (u64 i = from; i < source_.path_length; ++i)
            to.bytes[i - from] = source_.path[i];
    }

    const Team team_;
    const TableSource& source_;
};

}  // namespace warren::bulk
