// SPDX-License-Identifier: Apache-2.0
// A list of names may change during a call, so it is copied while the GIL is held. Its strings
// cannot change.
#include "python/src/operands.hpp"

#include <algorithm>
#include <utility>

namespace warren::python {
namespace {

[[noreturn]] void raise_type(const char* what, const char* needed) {
    throw nb::type_error((std::string(what) + ": " + needed).c_str());
}

/// Whether file names are UTF-8, which is so unless the locale says otherwise.
bool names_are_utf8() {
    static const bool are_utf8 = [] {
        const nb::object name = nb::module_::import_("sys").attr("getfilesystemencoding")();
        return nb::cast<std::string>(name) == "utf-8";
    }();
    return are_utf8;
}

/// The elements of a C-contiguous array that is in the memory of a GPU; none of one in the host's.
/// Raises TypeError or OSError.
template <class T, class Taken>
std::vector<T> fetched(const Taken& array, const char* what) {
    std::vector<T> copied;
    if (const auto on_gpu = gpu_bytes(array, std::nullopt, what)) {
        copied.resize(array.size());
        Errc code = Errc::ok;
        {
            const GilRelease release;
            code = copy_to_host(*on_gpu, copied.data());
        }
        if (code != Errc::ok) raise_failure(gpu_failure(code), "");
    }
    return copied;
}

/// Raises ValueError for numbers that no file can have.
Handle handle_of(i64 inode, i64 generation, const char* what) {
    if (inode < 0 || !std::in_range<u32>(generation))
        throw nb::value_error((std::string(what) + ": no file has the handle (" +
                               std::to_string(inode) + ", " + std::to_string(generation) +
                               "): both numbers are at least 0, and the second, the generation, "
                               "is below 2**32")
                                  .c_str());
    return {static_cast<u64>(inode), static_cast<u32>(generation)};
}

/// Raises TypeError in the place of the TypeError that is set. Other errors are the caller's own,
/// as of a generator or of __fspath__(), and go on.
[[noreturn]] void raise_for_type_error(const char* what, const char* needed) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) == 0) throw nb::python_error();
    PyErr_Clear();
    raise_needed(what, needed);
}

}  // namespace

nb::object listed(nb::handle given) {
    if (nb::hasattr(given, "to_pylist")) return given.attr("to_pylist")();
    const nb::object type = nb::getattr(given, "dtype", nb::none());
    const nb::object kind = nb::getattr(type, "kind", nb::none());
    constexpr std::string_view kinds = "OSTU";  // of objects and strings, in numpy
    const bool has_strings = nb::isinstance<nb::str>(kind) &&
                             kinds.find(nb::cast<std::string>(kind)) != kinds.npos;
    return has_strings ? given.attr("tolist")() : nb::borrow(given);
}

Names::Names(nb::handle array_or_list, const char* what) {
    const nb::object given = listed(array_or_list);
    constexpr const char* needed =
        "a sequence of str, bytes or os.PathLike, an array of strings, or a uint8 array of two "
        "dimensions";
    if (PyUnicode_Check(given.ptr()) || PyBytes_Check(given.ptr()) ||
        nb::hasattr(given, "__fspath__"))
        raise_needed(what, needed);
    if (nb::ndarray_check(given)) {
        array_ = array_in<nb::ndarray<nb::ro>>(given, what, needed, Maker::awaited);
        add_rows(what);
        return;
    }
    const nb::object fast = nb::steal(PySequence_List(given.ptr()));
    if (!fast.is_valid()) raise_for_type_error(what, needed);
    strings_ = fast;
    const Py_ssize_t count = PyList_Size(fast.ptr());
    views_.reserve(static_cast<std::size_t>(count));
    for (Py_ssize_t i = 0; i < count; ++i)
        add(i, what);
}

/// Adds a string of the list, in which another takes its place if only that has the bytes.
void Names::add(Py_ssize_t index, const char* what) {
    PyObject* name = PyList_GetItem(strings_.ptr(), index);  // the list has the reference
    const auto replace = [&](PyObject* by) {
        name = by;
        return by != nullptr && PyList_SetItem(strings_.ptr(), index, by) == 0;
    };
    if (PyUnicode_Check(name) == 0 && PyBytes_Check(name) == 0 && !replace(PyOS_FSPath(name)))
        raise_for_type_error(what, "for each name a str, bytes or os.PathLike");
    if (PyUnicode_Check(name) != 0 && names_are_utf8()) {
        Py_ssize_t size = 0;
        const char* text = PyUnicode_AsUTF8AndSize(name, &size);
        if (text != nullptr) {
            views_.emplace_back(text, static_cast<std::size_t>(size));
            return;
        }
        PyErr_Clear();  // the name has bytes that are not UTF-8, as surrogates
    }
    if (PyUnicode_Check(name) != 0 && !replace(PyUnicode_EncodeFSDefault(name)))
        throw nb::python_error();
    views_.push_back(view(nb::borrow<nb::bytes>(name)));
}

void Names::add_rows(const char* what) {
    if (array_.ndim() != 2 || array_.dtype() != nb::dtype<u8>())
        raise_type(what, "an array of names is uint8 and has two dimensions");
    const std::size_t rows = array_.shape(0);
    const std::size_t width = array_.shape(1);
    const bool is_on_host = array_.device_type() != nb::device::cuda::value;
    const bool rows_adjoin =
        rows < 2 || width == 0 || array_.stride(0) == static_cast<i64>(width);
    if (rows > 0 && ((width > 1 && array_.stride(1) != 1) || (!is_on_host && !rows_adjoin)))
        throw nb::value_error(
            (std::string(what) +
             (is_on_host ? ": a row must be contiguous" : ": must be C-contiguous on a GPU"))
                .c_str());
    fetched_ = fetched<char>(array_, what);
    const char* from = fetched_.empty() ? static_cast<const char*>(array_.data()) : fetched_.data();
    views_.reserve(rows);
    for (std::size_t i = 0; i < rows; ++i) {
        const std::string_view whole(from + static_cast<i64>(i) * array_.stride(0), width);
        views_.push_back(whole.substr(0, whole.find_last_not_of('\0') + 1));
    }
}

Offsets::Offsets(nb::handle given, const char* what)
    : array_(array_in<decltype(array_)>(given, what, "a contiguous int64 array of one dimension",
                                        Maker::awaited)),
      fetched_(fetched<i64>(array_, what)) {}

std::vector<Handle> handles_of(nb::handle given, const char* what) {
    const auto array = array_in<nb::ndarray<const i64, nb::shape<-1, 2>, nb::c_contig>>(
        given, what, "for handles a C-contiguous int64 array of shape [n, 2]", Maker::awaited);
    const std::vector<i64> copied = fetched<i64>(array, what);
    const i64* from = copied.empty() ? array.data() : copied.data();
    std::vector<Handle> handles(array.shape(0));
    for (Handle& handle : handles) {
        handle = handle_of(from[0], from[1], what);
        from += 2;
    }
    return handles;
}

Array array_of(std::span<const Handle> handles) {
    Array array = Array::make<i64>({static_cast<i64>(handles.size()), 2});
    i64* next = array.data<i64>();
    for (const Handle& handle : handles) {
        *next++ = static_cast<i64>(handle.inode);
        *next++ = handle.generation;
    }
    return array;
}

Array array_of(std::span<const Errc> codes) {
    Array array = Array::make<i32>({static_cast<i64>(codes.size())});
    std::ranges::transform(codes, array.data<i32>(),
                           [](Errc code) { return code == Errc::ok ? 0 : errno_of(code); });
    return array;
}

void raise_first(const Names& names, std::span<const Errc> codes, const Names* targets) {
    for (std::size_t i = 0; i < codes.size(); ++i) {
        if (codes[i] == Errc::ok) continue;
        if (targets == nullptr) raise_error(codes[i], names[i]);
        raise_error(codes[i], names[i], (*targets)[i]);
    }
}

Start::Start(nb::handle given) {
    if (given.is_none()) return;
    if (PyBytes_Check(given.ptr())) {
        path_ = view(nb::borrow<nb::bytes>(given));
        return;
    }
    nb::tuple pair;
    if (!nb::try_cast(given, pair) || pair.size() != 2)
        raise_needed("directory", "a path or a handle (inode, generation)");
    const auto number = [&](std::size_t i) {
        const i64 value = PyLong_AsLongLong(nb::object(pair[i]).ptr());
        if (value == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
        return value;
    };
    handle_ = handle_of(number(0), number(1), "directory");
    is_handle_ = true;
}

Result<Handle> Start::find(Volume& volume, const Caller& caller) const {
    if (is_handle_) return handle_;
    WARREN_LET(found, PathWalker(volume, caller).find(volume.root(), path_, Follow::yes));
    if ((found->mode & 0170000) != 0040000) return Errc::not_directory;
    return found->handle;
}

}  // namespace warren::python
