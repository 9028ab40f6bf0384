// SPDX-License-Identifier: Apache-2.0
// The arguments of bulk calls: many names, many handles, a directory.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/processors.hpp"
#include "python/src/kept_threads.hpp"
#include "python/src/native.hpp"

namespace warren::python {

/// The list of an array of strings, as numpy and pyarrow have them; other objects as they are.
nb::object listed(nb::handle given);

/// Names or paths: an iterable or array of str, bytes or os.PathLike, or a uint8 array of shape
/// [n, w], each row of which ends with its last nonzero byte. An array in the memory of a GPU is
/// copied.
class Names {
 public:
    /// `what` names the argument in errors. Raises TypeError or ValueError.
    Names(nb::handle given, const char* what);

    std::span<const std::string_view> all() const { return views_; }
    std::size_t size() const { return views_.size(); }
    std::string_view operator[](std::size_t i) const { return views_[i]; }

 private:
    void add_rows(const char* what);
    void add(Py_ssize_t index, const char* what);

    nb::object strings_;         // a list that keeps the strings alive
    nb::ndarray<nb::ro> array_;  // keeps the rows alive
    std::vector<char> fetched_;  // those of an array on a GPU
    std::vector<std::string_view> views_;
};

/// Offsets in bytes: a contiguous int64 array of one dimension. One in the memory of a GPU is
/// copied.
class Offsets {
 public:
    /// `what` names the argument in errors. Raises TypeError or OSError.
    Offsets(nb::handle given, const char* what);

    std::span<const i64> all() const {
        return fetched_.empty() ? std::span(array_.data(), array_.shape(0)) : std::span(fetched_);
    }

 private:
    nb::ndarray<const i64, nb::ndim<1>, nb::c_contig> array_;  // keeps those of the host alive
    std::vector<i64> fetched_;
};

/// Converts int64[n, 2], inode number and generation. Raises TypeError, or ValueError for numbers
/// that no file can have.
std::vector<Handle> handles_of(nb::handle given, const char* what);
/// The reverse of handles_of().
Array array_of(std::span<const Handle> handles);
/// Converts to int32[n], errno values.
Array array_of(std::span<const Errc> codes);

/// Raises the first error, with the name to which it belongs and that of `targets`.
void raise_first(const Names& names, std::span<const Errc> codes, const Names* targets = nullptr);

/// Calls take(i, found) with what find_many() gives for each path, on all cores.
template <class Take>
void find_each(Volume& volume, const Caller& caller, Handle from,
               std::span<const std::string_view> paths, Follow follow, const Take& take) {
    // What is known of 256 names stays in a core's cache. Each core takes several parts, because
    // some begin late.
    const u64 at_once = std::clamp<u64>(paths.size() / (4 * usable_processors()), 32, 256);
    // The CUDA engine looks up all names in one batch.
    const u64 step = volume.engine() == "cpu" ? at_once : std::max<u64>(paths.size(), 1);
    briefly_on_all_cores(paths.size(), step, [&](u64 first, u64 last) {
        std::vector<Result<Attributes>> found(last - first, Errc::io);
        find_many(volume, caller, from, paths.subspan(first, last - first), follow, found);
        for (u64 i = first; i < last; ++i)
            take(i, found[i - first]);
    });
}

/// Where paths begin: at the root (None), at a path (bytes), or at a handle (inode, generation).
class Start {
 public:
    explicit Start(nb::handle given);
    /// Called without the GIL.
    Result<Handle> find(Volume& volume, const Caller& caller) const;
    /// The path for errors.
    std::string_view path() const { return path_; }

 private:
    std::string path_;
    bool is_handle_ = false;
    Handle handle_;
};

}  // namespace warren::python
