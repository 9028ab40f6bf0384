// SPDX-License-Identifier: Apache-2.0
// Attributes of one file: mode, owner, times, size, extended attributes; making further names for
// it; the space of the volume.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <sys/xattr.h>

#include "fs/ops/set_attributes.hpp"
#include "python/src/files.hpp"

namespace warren::python {
namespace {

/// Calls work(volume, caller, attributes) for the inode that the path leads to, without the GIL.
/// Errors name the `target` too.
template <class Work>
void with_found(Shared& shared, const nb::bytes& path, bool follows, Work work,
                std::optional<std::string_view> target = std::nullopt) {
    const std::string text(view(path));
    const Errc code = with_volume(shared, [&](Volume& volume, const Caller& caller) -> Errc {
        const auto found = PathWalker(volume, caller)
                               .find(volume.root(), text, follows ? Follow::yes : Follow::no);
        return found ? work(volume, caller, *found) : found.code();
    });
    if (code != Errc::ok) raise_error(code, text, target);
}

void set_attributes(NativeVolume& self, const nb::bytes& path, bool follows,
                    const AttributeChange& change) {
    with_found(*self, path, follows,
               [&](Volume& volume, const Caller& caller, const Attributes& found) {
                   return volume.set_attributes(caller, found.handle, change).code();
               });
}

void change_mode(NativeVolume& self, const nb::bytes& path, u32 mode, bool follows) {
    set_attributes(self, path, follows, {.which = AttributeChange::mode, .new_mode = mode});
}

void change_owner(NativeVolume& self, const nb::bytes& path, std::optional<u32> user,
                  std::optional<u32> group, bool follows) {
    AttributeChange change{.new_user = user.value_or(0), .new_group = group.value_or(0)};
    if (user) change.which |= AttributeChange::user;
    if (group) change.which |= AttributeChange::group;
    set_attributes(self, path, follows, change);
}

/// Without `times`, sets them to the time of the call.
void change_times(NativeVolume& self, const nb::bytes& path,
                  std::optional<std::pair<i64, i64>> times, bool follows) {
    const auto [accessed, modified] = times.value_or(std::pair{ops::time_now, ops::time_now});
    set_attributes(self, path, follows,
                   {.which = AttributeChange::accessed | AttributeChange::modified,
                    .new_accessed = accessed,
                    .new_modified = modified});
}

void truncate(NativeVolume& self, const nb::bytes& path, u64 size) {
    const auto work = [&](Volume& volume, const Caller& caller, const Attributes& found) -> Errc {
        WARREN_TRY(check_file(volume, caller, found, 2));
        const AttributeChange change{.which = AttributeChange::size, .new_size = size};
        return volume.set_attributes(caller, found.handle, change).code();
    };
    with_found(*self, path, true, work);
}

void link(NativeVolume& self, const nb::bytes& path, const nb::bytes& target) {
    const auto work = [&](Volume& volume, const Caller& caller, const Attributes& found) -> Errc {
        Located to;
        PathWalker walker(volume, caller);
        WARREN_TRY(walker.locate(volume.root(), view(target), to, Slash::refused));
        if (to.name.empty()) return Errc::exists;
        return volume.link(caller, found.handle, to.directory, to.name).code();
    };
    with_found(*self, path, false, work, view(target));
}

bool has_access(NativeVolume& self, const nb::bytes& path, u32 mask) {
    return with_volume_briefly(*self, [&](Volume& volume, const Caller& caller) {
               const auto found =
                   PathWalker(volume, caller).find(volume.root(), view(path), Follow::yes);
               return found ? self.shared()->check_access(caller, found->handle, mask)
                            : found.code();
           }) == Errc::ok;
}

/// Whether `caller` may read the extended attribute, by the rules of Linux.
Errc check_attribute(Volume& volume, const Caller& caller, Handle file, std::string_view name) {
    if (name.starts_with("user.")) return volume.check_access(caller, file, 4);
    return name.starts_with("trusted.") && caller.user != 0 ? Errc::no_data : Errc::ok;
}

/// Reads a value of unknown size. get(target) fills a span and returns the number of bytes; for an
/// empty span it returns the size of the value.
template <class Get>
Errc read_sized(std::string& value, const Get& get) {
    while (true) {
        WARREN_LET(size, get(std::span<char>()));
        value.resize(*size);
        if (*size == 0) return Errc::ok;
        const Result<u64> got = get(std::span(value));
        if (got.code() == Errc::out_of_range) continue;  // the value has grown meanwhile
        if (!got) return got.code();
        value.resize(*got);
        return Errc::ok;
    }
}

nb::bytes get_attribute(NativeVolume& self, const nb::bytes& path, const nb::bytes& name,
                        bool follows) {
    std::string value;
    const auto work = [&](Volume& volume, const Caller& caller, const Attributes& found) -> Errc {
        WARREN_TRY(check_attribute(volume, caller, found.handle, view(name)));
        return read_sized(value, [&](std::span<char> target) {
            return volume.get_attribute(found.handle, view(name), std::as_writable_bytes(target));
        });
    };
    with_found(*self, path, follows, work);
    return nb::bytes(value.data(), value.size());
}

/// The names, each terminated by NUL.
nb::bytes list_attributes(NativeVolume& self, const nb::bytes& path, bool follows) {
    std::string names;
    with_found(*self, path, follows, [&](Volume& volume, const Caller&, const Attributes& found) {
        return read_sized(names, [&](std::span<char> target) {
            return volume.list_attributes(found.handle, target);
        });
    });
    return nb::bytes(names.data(), names.size());
}

void set_attribute(NativeVolume& self, const nb::bytes& path, const nb::bytes& name,
                   const nb::bytes& value, int flags, bool follows) {
    if (flags < 0 || flags > static_cast<int>(AttributeSet::replace))
        throw nb::value_error("flags: 0, os.XATTR_CREATE or os.XATTR_REPLACE is needed");
    with_found(
        *self, path, follows, [&](Volume& volume, const Caller& caller, const Attributes& found) {
            const std::span bytes(value.c_str(), value.size());
            return volume.set_attribute(caller, found.handle, view(name), std::as_bytes(bytes),
                                        static_cast<AttributeSet>(flags));
        });
}

void remove_attribute(NativeVolume& self, const nb::bytes& path, const nb::bytes& name,
                      bool follows) {
    with_found(*self, path, follows,
               [&](Volume& volume, const Caller& caller, const Attributes& found) {
                   return volume.remove_attribute(caller, found.handle, view(name));
               });
}

/// Blocks of 4 KiB: total, free, available. Inodes: total, free.
nb::tuple statistics(NativeVolume& self) {
    const Statistics found =
        with_volume(*self, [](Volume& volume, const Caller&) { return volume.statistics(); });
    return nb::make_tuple(found.blocks, found.blocks_free, found.blocks_available,
                          found.inodes_used + found.inodes_free, found.inodes_free);
}

}  // namespace

static_assert(XATTR_CREATE == static_cast<int>(AttributeSet::create));
static_assert(XATTR_REPLACE == static_cast<int>(AttributeSet::replace));

void add_attributes(VolumeClass& volume) {
    using nb::arg;
    volume.def("change_mode", &change_mode)
        .def("change_owner", &change_owner, arg(), arg().none(), arg().none(), arg())
        .def("change_times", &change_times, arg(), arg().none(), arg())
        .def("truncate", &truncate)
        .def("link", &link)
        .def("has_access", &has_access)
        .def("get_attribute", &get_attribute)
        .def("list_attributes", &list_attributes)
        .def("set_attribute", &set_attribute)
        .def("remove_attribute", &remove_attribute)
        .def("statistics", &statistics);
}

}  // namespace warren::python
