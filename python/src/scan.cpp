// SPDX-License-Identifier: Apache-2.0
// A tree as columns. A GPU that scans makes them in its memory. Otherwise each thread of a scan
// collects rows of its own, which are concatenated when the scan is over. Paths are built from the
// names of directories, which the scan visits in any case.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <unordered_map>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include "apps/warren/per_thread.hpp"
#include "fs/bulk/scan/scan_filter.hpp"
#include "fs/bulk/scan/scan_table.hpp"
#include "python/src/gpu_memory.hpp"
#include "python/src/kept_threads.hpp"
#include "python/src/operands.hpp"

namespace warren::python {
namespace {

/// By ScanColumn.
constexpr std::string_view column_names[scan_columns] = {"handle", "parent", "size",  "blocks",
                                                         "mtime",  "atime",  "ctime", "mode",
                                                         "links",  "user",   "group", "depth"};

/// The requested columns.
struct Wanted {
    std::vector<ScanColumn> numbers;
    bool names = false;
    bool paths = false;

    explicit Wanted(const nb::list& list) {
        for (const nb::handle each : list) {
            std::string name;
            if (!nb::try_cast(each, name)) throw nb::type_error("columns: names are needed");
            const auto found = std::ranges::find(column_names, name);
            if (found != std::end(column_names)) {
                numbers.push_back(static_cast<ScanColumn>(found - column_names));
            } else if (name == "name" || name == "path") {
                (name == "name" ? names : paths) = true;
            } else {
                std::string problem = "columns: there is no '" + name + "', there are ";
                for (const std::string_view known : column_names)
                    problem += std::string(known) + ", ";
                throw nb::value_error((problem + "name and path").c_str());
            }
        }
    }
};

/// Strings one after the other, and where each ends.
struct Strings {
    std::string bytes;
    std::vector<u64> ends;

    void add(std::string_view text) {
        bytes += text;
        ends.push_back(bytes.size());
    }
};

/// The rows of one thread.
struct Rows {
    u64 count = 0;
    std::vector<i64> numbers;  // row by row
    Strings names;
    std::vector<u64> parents;                                              // inodes
    std::vector<std::pair<u64, std::pair<u64, std::string>>> directories;  // inode, parent and name
};

/// Calls `work(i)` for each i below `count`, on all cores if there are many `rows`.
template <class Work>
void for_each_part(u64 count, u64 rows, const Work& work) {
    constexpr u64 shared_rows_min = 20'000;
    std::atomic<u64> next{0};
    run_on_kept_threads(rows < shared_rows_min ? 1 : 0, [&](u32) {
        for (u64 i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;)
            work(i);
    });
}

/// A text column: the bytes of all strings, and n + 1 offsets between which they lie.
struct Text {
    Array bytes;
    Array offsets;

    Text() = default;
    explicit Text(const std::vector<const Strings*>& parts) {
        std::vector<u64> rows_before{0};
        std::vector<u64> bytes_before{0};
        for (const Strings* part : parts) {
            rows_before.push_back(rows_before.back() + part->ends.size());
            bytes_before.push_back(bytes_before.back() + part->bytes.size());
        }
        bytes = Array::make<u8>({static_cast<i64>(bytes_before.back())});
        offsets = Array::make<i64>({static_cast<i64>(rows_before.back()) + 1});
        *offsets.data<i64>() = 0;
        for_each_part(parts.size(), rows_before.back(), [&](u64 i) {
            std::ranges::copy(parts[i]->bytes, bytes.data<char>() + bytes_before[i]);
            std::ranges::transform(
                parts[i]->ends, offsets.data<i64>() + rows_before[i] + 1,
                [before = bytes_before[i]](u64 end) { return static_cast<i64>(before + end); });
        });
    }
    nb::tuple to_python() { return nb::make_tuple(std::move(bytes), std::move(offsets)); }
};

/// The columns of a table, on the host or on a GPU.
struct Columns {
    std::vector<Array> numbers;  // as in Wanted
    std::optional<Text> names;
    std::optional<Text> paths;

    static const ElementType& type_in(ScanColumn column) {
        return bulk::is_small_column(column) ? type_of<i32>() : type_of<i64>();
    }
    static std::vector<i64> shape_of(ScanColumn column, u64 rows) {
        std::vector<i64> shape{static_cast<i64>(rows)};
        if (bulk::column_width(column) > 1) shape.push_back(bulk::column_width(column));
        return shape;
    }
    /// The columns by name, in the memory of a GPU or of the host. Columns elsewhere are copied.
    nb::dict to_python(const Wanted& wanted, std::optional<i32> gpu) {
        const auto move = [&](Array& array) {
            if (array.gpu() != gpu.value_or(-1)) array = gpu ? array.on_gpu(*gpu) : array.on_host();
        };
        nb::dict answer;
        for (std::size_t i = 0; i < numbers.size(); ++i) {
            const std::string_view name = column_names[static_cast<u32>(wanted.numbers[i])];
            move(numbers[i]);
            answer[nb::str(name.data(), name.size())] = std::move(numbers[i]);
        }
        const auto add = [&](const char* name, std::optional<Text>& text) {
            if (!text) return;
            move(text->bytes);
            move(text->offsets);
            answer[name] = text->to_python();
        };
        add("name", names);
        add("path", paths);
        return answer;
    }
};

/// Makes the columns of a scan by a GPU.
class TableMemory {
 public:
    explicit TableMemory(const Wanted& wanted, std::string_view root) : wanted_(wanted) {
        order.path = root;
        order.wants_paths = wanted.paths;
        order.make = [this](i32 gpu, const ScanTableSize& size, ScanTable& table) {
            const Errc code = make(gpu, size, table);
            if (code != Errc::ok) columns = {};
            return code;
        };
    }
    TableMemory(const TableMemory&) = delete;

    ScanTableOrder order;
    u64 rows = 0;
    Columns columns;

 private:
    Errc make(i32 gpu, const ScanTableSize& size, ScanTable& table) {
        rows = size.rows;
        columns.numbers.resize(wanted_.numbers.size());
        for (std::size_t i = 0; i < wanted_.numbers.size(); ++i) {
            const ScanColumn column = wanted_.numbers[i];
            WARREN_TRY(make_on_gpu(gpu, Columns::type_in(column), Columns::shape_of(column, rows),
                                   columns.numbers[i]));
            table.numbers[static_cast<u32>(column)] = columns.numbers[i].data<void>();
        }
        if (wanted_.names) WARREN_TRY(make(gpu, size.name_bytes, columns.names, table.names));
        if (wanted_.paths) WARREN_TRY(make(gpu, size.path_bytes, columns.paths, table.paths));
        return Errc::ok;
    }
    Errc make(i32 gpu, u64 bytes, std::optional<Text>& text, ScanTable::Text& in) const {
        text.emplace();
        WARREN_TRY(make_on_gpu(gpu, type_of<u8>(), {static_cast<i64>(bytes)}, text->bytes));
        WARREN_TRY(make_on_gpu(gpu, type_of<i64>(), {static_cast<i64>(rows) + 1}, text->offsets));
        in = {text->offsets.data<i64>(), text->bytes.data<char>()};
        return Errc::ok;
    }

    const Wanted& wanted_;
};

class Collector {
 public:
    Collector(const Wanted& wanted, const ops::FileFilter& filter, std::string_view root)
        : wanted_(wanted), filter_(filter), root_(root) {}

    /// The number of rows. Requires: no scan is at work.
    u64 count() {
        u64 all = 0;
        for (const auto& rows : rows_.all())
            all += rows->count;
        return all;
    }

    /// Called on any thread of a scan. Returns true: descend.
    bool visit(const Scanned& entry) {
        Rows& rows = rows_.local();
        if (wanted_.paths && (entry.attributes.mode & 0170000) == 0040000) {
            rows.directories.push_back({entry.attributes.handle.inode,
                                        {entry.depth == 0 ? 0 : entry.directory.inode,
                                         std::string(entry.depth == 0 ? root_ : entry.name)}});
        }
        if (wants(entry)) add(rows, entry);
        return true;
    }

    /// Puts the columns together. Requires: the scan is over.
    Columns gather() {
        Columns columns;
        columns.numbers = gather_numbers();
        std::vector<const Strings*> parts;
        for (const auto& rows : rows_.all())
            parts.push_back(&rows->names);
        if (wanted_.names) columns.names.emplace(parts);
        if (wanted_.paths) columns.paths = gather_paths();
        return columns;
    }

 private:
    /// A scan also reports the directories above matching files.
    bool wants(const Scanned& entry) const {
        const std::string_view name = entry.depth == 0 ? last_name() : entry.name;
        return filter_.wants(name.data(), static_cast<u32>(name.size()), entry.attributes);
    }
    std::string_view last_name() const {
        return std::string_view(root_).substr(root_.find_last_of('/') + 1);
    }
    void add(Rows& rows, const Scanned& entry) {
        i64 row[2 * scan_columns];
        u32 width = 0;
        for (const ScanColumn column : wanted_.numbers) {
            for (u32 part = 0; part < bulk::column_width(column); ++part) {
                row[width++] =
                    bulk::number_in(column, part, entry.directory, entry.depth, entry.attributes);
            }
        }
        rows.numbers.insert(rows.numbers.end(), row, row + width);
        if (wanted_.names || wanted_.paths)
            rows.names.add(entry.depth == 0 ? last_name() : entry.name);
        if (wanted_.paths) rows.parents.push_back(entry.depth == 0 ? 0 : entry.directory.inode);
        ++rows.count;
    }

    std::vector<Array> gather_numbers() {
        std::vector<Array> arrays;
        u32 width = 0;
        for (const ScanColumn column : wanted_.numbers) {
            arrays.push_back(
                Array::make(Columns::type_in(column), Columns::shape_of(column, count())));
            width += bulk::column_width(column);
        }
        std::vector<u64> before{0};
        for (const auto& rows : rows_.all())
            before.push_back(before.back() + rows->count);
        for_each_part(rows_.all().size(), before.back(), [&](u64 part) {
            const Rows& rows = *rows_.all()[part];
            if (rows.count == 0) return;
            const i64* from = rows.numbers.data();
            for (std::size_t i = 0; i < arrays.size(); ++i) {
                const ScanColumn column = wanted_.numbers[i];
                const u32 numbers = bulk::column_width(column);
                for (u32 w = 0; w < numbers; ++w, ++from) {
                    const auto copy = [&](auto* to) {
                        to += before[part] * numbers + w;
                        for (u64 row = 0; row < rows.count; ++row)
                            to[row * numbers] = static_cast<std::remove_reference_t<decltype(*to)>>(
                                from[row * width]);
                    };
                    bulk::is_small_column(column) ? copy(arrays[i].data<i32>())
                                                  : copy(arrays[i].data<i64>());
                }
            }
        });
        return arrays;
    }

    using Directories = std::unordered_map<u64, std::pair<u64, std::string>>;

    /// Adds the path of a directory, with a trailing slash, and those of the directories above. A
    /// directory that was moved during the scan may be missing, or appear above itself: the path
    /// then begins there.
    static void add_path(u64 inode, const Directories& directories,
                         std::unordered_map<u64, std::string>& paths) {
        std::vector<u64> chain;
        u64 at = inode;
        while (at != 0 && !paths.contains(at) && directories.contains(at) &&
               chain.size() <= directories.size()) {
            chain.push_back(at);
            at = directories.at(at).first;
        }
        for (auto one = chain.rbegin(); one != chain.rend(); ++one) {
            const auto& [parent, name] = directories.at(*one);
            const auto above = paths.find(parent);
            std::string path = (above == paths.end() ? "" : above->second) + name;
            if (!path.ends_with('/')) path += '/';
            paths.try_emplace(*one, std::move(path));
        }
    }
    Text gather_paths() {
        Directories directories;
        for (const auto& rows : rows_.all())
            directories.insert(rows->directories.begin(), rows->directories.end());
        std::unordered_map<u64, std::string> paths;
        for (const auto& [inode, place] : directories)
            add_path(inode, directories, paths);
        const std::string nothing;
        std::vector<Strings> parts(rows_.all().size());
        for_each_part(parts.size(), count(), [&](u64 part) {
            const Rows& rows = *rows_.all()[part];
            u64 begin = 0;
            u64 last = 0;
            const std::string* above = &nothing;
            for (u64 i = 0; i < rows.count; ++i) {
                const u64 end = rows.names.ends[i];
                const auto name = std::string_view(rows.names.bytes).substr(begin, end - begin);
                begin = end;
                if (rows.parents[i] == 0) {
                    parts[part].add(root_);
                    continue;
                }
                if (rows.parents[i] != last) {
                    last = rows.parents[i];
                    const auto found = paths.find(last);
                    above = found == paths.end() ? &nothing : &found->second;
                }
                parts[part].bytes += *above;
                parts[part].add(name);
            }
        });
        std::vector<const Strings*> all;
        for (const Strings& one : parts)
            all.push_back(&one);
        return Text(all);
    }

    const Wanted& wanted_;
    const ops::FileFilter& filter_;
    const std::string root_;
    cli::PerThread<Rows> rows_;
};

/// The text with which all paths below `path` begin: "/" or "/a/b".
std::string root_path(std::string_view path) {
    std::string root = path.starts_with('/') ? "" : "/";
    root += path;
    while (root.size() > 1 && root.ends_with('/'))
        root.pop_back();
    return root;
}

nb::dict scan(NativeVolume& self, const nb::bytes& path, const nb::list& names,
              const nb::bytes& pattern, bool folds_case, u32 types, u32 depth_max,
              std::pair<u64, u64> sizes, std::pair<i64, i64> times, std::optional<i32> gpu,
              nb::object progress) {
    const Wanted wanted(names);
    const std::string text(view(path));
    const std::string pattern_text(view(pattern));
    ScanFilter filter;
    filter.depth_max = depth_max;
    filter.pattern = pattern_text;
    filter.folds_case = folds_case;
    filter.types = static_cast<u16>(types);
    filter.size_min = sizes.first;
    filter.size_max = sizes.second;
    filter.modified_min = times.first;
    filter.modified_max = times.second;
    ops::FileFilter files;
    if (const Errc code = ops::set_filter(files, filter); code != Errc::ok)
        raise_error(code, pattern_text);
    const std::string root = root_path(text);
    Collector collector(wanted, files, root);
    TableMemory table(wanted, root);
    Columns columns;
    LongCall call(std::move(progress));
    const Errc code = with_volume(*self, [&](Volume& volume, const Caller& caller) -> Errc {
        WARREN_LET(found, PathWalker(volume, caller).find(volume.root(), text, Follow::no));
        std::vector<ScanPosition> left{{found->handle}};
        // Steps are short, so that signals are handled.
        auto begin = std::chrono::steady_clock::now();
        const ScanSteps steps{
            .is_full = [&] { return std::chrono::steady_clock::now() - begin > LongCall::pause; }};
        while (!left.empty() && call.goes_on(collector.count())) {
            begin = std::chrono::steady_clock::now();
            WARREN_TRY(volume.scan_step(
                caller, left, [&](const Scanned& entry) { return collector.visit(entry); }, filter,
                steps, &table.order));
        }
        if (!call.is_stopped() && !table.order.is_filled) columns = collector.gather();
        return Errc::ok;
    });
    if (code != Errc::ok) raise_error(code, text);
    call.finish(table.order.is_filled ? table.rows : collector.count());
    return (table.order.is_filled ? table.columns : columns).to_python(wanted, gpu);
}

nb::dict usage(NativeVolume& self, const nb::bytes& path, u32 depth_max, bool counts_links,
               nb::object progress) {
    const std::string text(view(path));
    std::vector<DirectoryUsage> found;
    LongCall call(std::move(progress));
    const UsageOptions options{.depth_max = depth_max,
                               .counts_links = counts_links,
                               .progress = [&](u64 done) { return call.goes_on(done); }};
    const Errc code = with_volume(*self, [&](Volume& volume, const Caller& caller) -> Errc {
        WARREN_LET(root, PathWalker(volume, caller).find(volume.root(), text, Follow::yes));
        return volume.usage(caller, root->handle, options, found);
    });
    if (code != Errc::ok && !call.is_stopped()) raise_error(code, text);
    call.finish(found.empty() ? 0 : found[0].entries);
    const auto count = static_cast<i64>(found.size());
    nb::dict answer;
    const auto add = [&](const char* name, auto member) {
        const Array array = Array::make<i64>({count});
        std::ranges::transform(found, array.data<i64>(), [&](const DirectoryUsage& one) {
            return static_cast<i64>(one.*member);
        });
        answer[name] = array;
    };
    std::vector<Handle> handles;
    Strings names;
    for (const DirectoryUsage& one : found) {
        handles.push_back(one.directory);
        names.add(one.name);
    }
    answer["handle"] = array_of(handles);
    add("above", &DirectoryUsage::above);
    add("depth", &DirectoryUsage::depth);
    add("entries", &DirectoryUsage::entries);
    add("blocks", &DirectoryUsage::blocks);
    add("bytes", &DirectoryUsage::bytes);
    answer["name"] = Text({&names}).to_python();
    return answer;
}

}  // namespace

void add_scan(VolumeClass& volume) {
    using nb::arg;
    volume
        .def("scan", &scan, arg(), arg(), arg(), arg(), arg(), arg(), arg(), arg(), arg().none(),
             arg().none())
        .def("usage", &usage, arg(), arg(), arg(), arg().none());
}

}  // namespace warren::python
