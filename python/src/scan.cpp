// SPDX-License-Identifier: Apache-2.0
// A tree as columns. Each thread of a scan collects rows of its own, which are concatenated when
// the scan is over. Paths are built from the names of directories, which the scan visits in any
// case.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <unordered_map>

#include <nanobind/stl/pair.h>

#include "apps/warren/per_thread.hpp"
#include "fs/bulk/scan/scan_filter.hpp"
#include "python/src/operands.hpp"

namespace warren::python {
namespace {

/// A numeric column. `put` writes `width` numbers.
struct Column {
    std::string_view name;
    bool is_small;  // int32
    u32 width;
    void (*put)(const Scanned& entry, i64* to);
};

void put_handle(Handle handle, i64* to) {
    to[0] = static_cast<i64>(handle.inode);
    to[1] = handle.generation;
}

constexpr Column columns[] = {
    {"handle", false, 2,
     [](const Scanned& entry, i64* to) { put_handle(entry.attributes.handle, to); }},
    {"parent", false, 2, [](const Scanned& entry, i64* to) { put_handle(entry.directory, to); }},
    {"size", false, 1,
     [](const Scanned& entry, i64* to) { *to = static_cast<i64>(entry.attributes.size); }},
    {"blocks", false, 1,
     [](const Scanned& entry, i64* to) { *to = static_cast<i64>(entry.attributes.blocks); }},
    {"mtime", false, 1, [](const Scanned& entry, i64* to) { *to = entry.attributes.modified; }},
    {"atime", false, 1, [](const Scanned& entry, i64* to) { *to = entry.attributes.accessed; }},
    {"ctime", false, 1, [](const Scanned& entry, i64* to) { *to = entry.attributes.changed; }},
    {"mode", true, 1, [](const Scanned& entry, i64* to) { *to = entry.attributes.mode; }},
    {"links", false, 1, [](const Scanned& entry, i64* to) { *to = entry.attributes.links; }},
    {"user", false, 1, [](const Scanned& entry, i64* to) { *to = entry.attributes.user; }},
    {"group", false, 1, [](const Scanned& entry, i64* to) { *to = entry.attributes.group; }},
    {"depth", true, 1, [](const Scanned& entry, i64* to) { *to = entry.depth; }},
};

/// The requested columns.
struct Wanted {
    std::vector<const Column*> numbers;
    bool names = false;
    bool paths = false;

    explicit Wanted(const nb::list& list) {
        for (const nb::handle each : list) {
            const auto name = nb::cast<std::string>(each);
            const auto found = std::ranges::find(columns, name, &Column::name);
            if (found != std::end(columns)) {
                numbers.push_back(found);
            } else if (name == "name" || name == "path") {
                (name == "name" ? names : paths) = true;
            } else {
                throw nb::value_error(("columns: there is no '" + name + "'").c_str());
            }
        }
    }
};

/// The rows of one thread.
struct Rows {
    u64 count = 0;
    std::vector<std::vector<i64>> numbers;
    std::string names;
    std::vector<u64> name_ends;
    std::vector<u64> parents;                                              // inodes
    std::vector<std::pair<u64, std::pair<u64, std::string>>> directories;  // inode, parent and name
};

/// Concatenated strings and where each ends: the content of a text column.
struct Text {
    std::string bytes;
    std::vector<i64> offsets{0};

    void add(std::string_view text) {
        bytes += text;
        offsets.push_back(static_cast<i64>(bytes.size()));
    }
    nb::tuple to_python() {
        auto owner = std::make_shared<std::string>(std::move(bytes));
        Array values(owner, owner->data(), type_of<u8>(), {static_cast<i64>(owner->size())});
        return nb::make_tuple(std::move(values), Array::of(std::move(offsets)));
    }
};

class Collector {
 public:
    Collector(const Wanted& wanted, const ops::FileFilter& filter, std::string_view root)
        : wanted_(wanted), filter_(filter), root_(root) {}

    u64 count() const { return count_.load(std::memory_order_relaxed); }

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
    void gather() {
        for (std::size_t i = 0; i < wanted_.numbers.size(); ++i)
            arrays_.push_back(gather(i, *wanted_.numbers[i]));
        if (wanted_.names) names_ = gather_names();
        if (wanted_.paths) paths_ = gather_paths();
    }
    /// The columns by name.
    nb::dict to_python() {
        nb::dict answer;
        for (std::size_t i = 0; i < arrays_.size(); ++i) {
            const std::string_view name = wanted_.numbers[i]->name;
            answer[nb::str(name.data(), name.size())] = std::move(arrays_[i]);
        }
        if (wanted_.names) answer["name"] = names_.to_python();
        if (wanted_.paths) answer["path"] = paths_.to_python();
        return answer;
    }

 private:
    /// A scan also reports the directories above matching files.
    bool wants(const Scanned& entry) const {
        const std::string_view name = entry.depth == 0 ? last_name() : entry.name;
        return filter_.wants_name(name.data(), static_cast<u32>(name.size()),
                                  static_cast<u8>(entry.attributes.mode >> 12 & 15)) &&
               filter_.wants_file(entry.attributes.size, entry.attributes.modified);
    }
    std::string_view last_name() const {
        return std::string_view(root_).substr(root_.find_last_of('/') + 1);
    }
    void add(Rows& rows, const Scanned& entry) {
        rows.numbers.resize(wanted_.numbers.size());
        for (std::size_t i = 0; i < wanted_.numbers.size(); ++i) {
            i64 values[2];
            wanted_.numbers[i]->put(entry, values);
            rows.numbers[i].insert(rows.numbers[i].end(), values,
                                   values + wanted_.numbers[i]->width);
        }
        if (wanted_.names || wanted_.paths) {
            rows.names += entry.depth == 0 ? last_name() : entry.name;
            rows.name_ends.push_back(rows.names.size());
        }
        if (wanted_.paths) rows.parents.push_back(entry.depth == 0 ? 0 : entry.directory.inode);
        ++rows.count;
        count_.fetch_add(1, std::memory_order_relaxed);
    }

    Array gather(std::size_t i, const Column& column) {
        std::vector<i64> shape{static_cast<i64>(count())};
        if (column.width > 1) shape.push_back(column.width);
        const Array array = column.is_small ? Array::make<i32>(shape) : Array::make<i64>(shape);
        u64 at = 0;
        for (const auto& rows : rows_.all()) {
            if (rows->count == 0) continue;
            const std::vector<i64>& values = rows->numbers[i];
            if (column.is_small) {
                std::ranges::transform(values, array.data<i32>() + at,
                                       [](i64 value) { return static_cast<i32>(value); });
            } else {
                std::ranges::copy(values, array.data<i64>() + at);
            }
            at += values.size();
        }
        return array;
    }

    template <class Each>
    void for_each_name(const Each& each) {
        for (const auto& rows : rows_.all()) {
            u64 begin = 0;
            for (u64 i = 0; i < rows->count; ++i) {
                const u64 end = rows->name_ends[i];
                each(*rows, i, std::string_view(rows->names).substr(begin, end - begin));
                begin = end;
            }
        }
    }
    Text gather_names() {
        Text text;
        for_each_name([&](const Rows&, u64, std::string_view name) { text.add(name); });
        return text;
    }

    using Directories = std::unordered_map<u64, std::pair<u64, std::string>>;

    /// The path of a directory with a trailing slash; paths of directories above are built with it.
    /// A directory that was moved during the scan may be missing, or appear above itself: the path
    /// then begins there.
    const std::string& path_of(u64 inode, Directories& directories,
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
        return paths[inode];
    }
    Text gather_paths() {
        Directories directories;
        for (const auto& rows : rows_.all())
            directories.insert(rows->directories.begin(), rows->directories.end());
        std::unordered_map<u64, std::string> paths;
        Text text;
        u64 last = 0;
        const std::string* last_path = nullptr;
        std::string path;
        for_each_name([&](const Rows& rows, u64 i, std::string_view name) {
            const u64 parent = rows.parents[i];
            if (parent == 0) return text.add(root_);
            if (last_path == nullptr || parent != last)
                last_path = &path_of(parent, directories, paths);
            last = parent;
            path.assign(*last_path);
            path += name;
            text.add(path);
        });
        return text;
    }

    const Wanted& wanted_;
    const ops::FileFilter& filter_;
    const std::string root_;
    cli::PerThread<Rows> rows_;
    std::atomic<u64> count_{0};
    std::vector<Array> arrays_;
    Text names_;
    Text paths_;
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
              std::pair<u64, u64> sizes, std::pair<i64, i64> times, nb::object progress) {
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
    Collector collector(wanted, files, root_path(text));
    LongCall call(std::move(progress));
    const Errc code = with_volume(*self, [&](Volume& volume, const Caller& caller) -> Errc {
        const auto found = PathWalker(volume, caller).find(volume.root(), text, Follow::no);
        if (!found) return found.code();
        std::vector<ScanPosition> left{{found->handle}};
        // Steps are short, so that signals are handled.
        auto begin = std::chrono::steady_clock::now();
        const ScanSteps steps{
            .is_full = [&] { return std::chrono::steady_clock::now() - begin > LongCall::pause; }};
        while (!left.empty() && call.goes_on(collector.count())) {
            begin = std::chrono::steady_clock::now();
            WARREN_TRY(volume.scan_step(
                caller, left, [&](const Scanned& entry) { return collector.visit(entry); }, filter,
                steps));
        }
        if (!call.is_stopped()) collector.gather();
        return Errc::ok;
    });
    if (code != Errc::ok) raise_error(code, text);
    call.finish(collector.count());
    return collector.to_python();
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
        const auto root = PathWalker(volume, caller).find(volume.root(), text, Follow::yes);
        if (!root) return root.code();
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
    Text names;
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
    answer["name"] = names.to_python();
    return answer;
}

}  // namespace

void add_scan(VolumeClass& volume) {
    using nb::arg;
    volume.def("scan", &scan, arg(), arg(), arg(), arg(), arg(), arg(), arg(), arg(), arg().none())
        .def("usage", &usage, arg(), arg(), arg(), arg().none());
}

}  // namespace warren::python
