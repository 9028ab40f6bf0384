// SPDX-License-Identifier: Apache-2.0
// Operations on one path.
#include "python/src/native.hpp"

namespace warren::python {
namespace {

/// Calls work(volume, caller, directory, name) for the last component of the path, without the GIL.
/// For a path that ends at a directory itself, and so has none, the error is `for_directory`.
template <class Work>
void with_name(Shared& shared, const nb::bytes& path, Errc for_directory, Work work,
               Slash slash = Slash::directory) {
    const std::string text(view(path));
    const Errc code = with_volume(shared, [&](Volume& volume, const Caller& caller) -> Errc {
        Located located;
        WARREN_TRY(PathWalker(volume, caller).locate(volume.root(), text, located, slash));
        if (located.name.empty()) return for_directory;
        return work(volume, caller, located.directory, std::string_view(located.name));
    });
    if (code != Errc::ok) raise_error(code, text);
}

nb::tuple stat(NativeVolume& self, const nb::bytes& path, bool follows) {
    const auto found = with_volume_briefly(*self, [&](Volume& volume, const Caller& caller) {
        return PathWalker(volume, caller)
            .find(volume.root(), view(path), follows ? Follow::yes : Follow::no);
    });
    if (!found) raise_error(found.code(), view(path));
    return nb::make_tuple(found->mode, found->handle.inode, found->links, found->user, found->group,
                          found->size, found->accessed, found->modified, found->changed,
                          found->blocks, found->handle.generation);
}

/// The entries of a directory: name, inode number, type as a DT_ value.
nb::list list(NativeVolume& self, const nb::bytes& path) {
    struct Entry {
        std::string name;
        u64 inode;
        u8 type;
    };
    const std::string text(view(path));
    std::vector<Entry> entries;
    const Errc code = with_volume(*self, [&](Volume& volume, const Caller& caller) -> Errc {
        WARREN_LET(found, PathWalker(volume, caller).find(volume.root(), text, Follow::yes));
        if ((found->mode & 0170000) != 0040000) return Errc::not_directory;
        WARREN_TRY(volume.check_access(caller, found->handle, 4));
        return volume.read_directory(found->handle, 0, [&](const DirectoryEntry& entry) {
            entries.push_back({std::string(entry.name), entry.inode, entry.type});
            return true;
        });
    });
    if (code != Errc::ok) raise_error(code, text);
    nb::list answer;
    for (const auto& [name, inode, type] : entries)
        answer.append(nb::make_tuple(nb::bytes(name.data(), name.size()), inode, type));
    return answer;
}

void make(NativeVolume& self, const nb::bytes& path, u32 mode, const nb::bytes& target) {
    const bool is_directory = (mode & 0170000) == 0040000;
    with_name(
        *self, path, Errc::exists,
        [&](Volume& volume, const Caller& caller, Handle directory, std::string_view name) {
            return volume.create(caller, directory, name, {.mode = mode, .target = view(target)})
                .code();
        },
        is_directory ? Slash::ignored : Slash::refused);
}

nb::bytes read_link(NativeVolume& self, const nb::bytes& path) {
    std::string target;
    const std::string text(view(path));
    const Errc code = with_volume(*self, [&](Volume& volume, const Caller& caller) -> Errc {
        WARREN_LET(found, PathWalker(volume, caller).find(volume.root(), text, Follow::no));
        if ((found->mode & 0170000) != 0120000) return Errc::invalid;
        const Result<std::string> read = volume.read_link(found->handle);
        if (read) target = *read;
        return read.code();
    });
    if (code != Errc::ok) raise_error(code, text);
    return nb::bytes(target.data(), target.size());
}

void unlink(NativeVolume& self, const nb::bytes& path) {
    with_name(*self, path, Errc::is_directory,
              [](Volume& volume, const Caller& caller, Handle directory, std::string_view name) {
                  return volume.unlink(caller, directory, name);
              });
}

void remove_directory(NativeVolume& self, const nb::bytes& path) {
    with_name(*self, path, Errc::busy,
              [](Volume& volume, const Caller& caller, Handle directory, std::string_view name) {
                  return volume.remove_directory(caller, directory, name);
              });
}

nb::tuple remove_tree(NativeVolume& self, const nb::bytes& path, nb::object progress) {
    Removal removal;
    LongCall call(std::move(progress));
    with_name(*self, path, Errc::busy,
              [&](Volume& volume, const Caller& caller, Handle directory, std::string_view name) {
                  return volume.remove_tree(caller, directory, name, removal,
                                            [&](u64 done) { return call.goes_on(done); });
              });
    call.finish(removal.files + removal.directories);
    return nb::make_tuple(removal.files, removal.directories, removal.blocks);
}

void rename(NativeVolume& self, const nb::bytes& path, const nb::bytes& target) {
    const std::string text(view(path));
    const std::string target_text(view(target));
    const Errc code = with_volume(*self, [&](Volume& volume, const Caller& caller) -> Errc {
        Located from, to;
        WARREN_TRY(PathWalker(volume, caller)
                       .locate_move(volume.root(), text, target_text, from, to));
        return volume.rename(caller, from.directory, from.name, to.directory, to.name);
    });
    if (code != Errc::ok) raise_error(code, text, target_text);
}

/// Opens the regular file `found`; `access` is the mask of check_access().
Errc open_found(Shared& shared, const Caller& caller, const Attributes& found, u32 access,
                bool empties) {
    Volume& volume = *shared.volume;
    const u32 type = found.mode & 0170000;
    if (type == 0040000) return Errc::is_directory;
    if (type != 0100000) return Errc::not_supported;
    WARREN_TRY(shared.check_access(caller, found.handle, access));
    WARREN_TRY(volume.open_file(found.handle));
    if (!empties) return Errc::ok;
    const AttributeChange change{.which = AttributeChange::size, .new_size = 0};
    const Errc code = volume.set_attributes(caller, found.handle, change).code();
    if (code != Errc::ok) static_cast<void>(volume.release(found.handle));
    return code;
}

/// Opens a regular file. Creates it if `creates` and it does not exist, also as the target of a
/// link.
NativeFile open(NativeVolume& self, const nb::bytes& path, u32 access, bool creates, bool exclusive,
                bool empties) {
    const std::string text(view(path));
    Handle file;
    with_name(
        *self, path, Errc::is_directory,
        [&](Volume& volume, const Caller& caller, Handle directory, std::string_view name) -> Errc {
            const CreateOptions options{.mode = 0100666, .open = true};
            PathWalker walker(volume, caller);
            if (creates && text.ends_with('/')) return Errc::is_directory;
            if (creates) {
                const auto made = volume.create(caller, directory, name, options);
                if (made) file = made->handle;
                if (made || exclusive || made.code() != Errc::exists) return made.code();
            }
            bool is_new = false;
            WARREN_LET(found,
                       creates ? walker.find_or_create(volume.root(), text, options, is_new)
                               : walker.find(volume.root(), text, Follow::yes));
            file = found->handle;
            return is_new ? Errc::ok : open_found(*self, caller, *found, access, empties);
        },
        Slash::ignored);
    return {self.shared(), file, path};
}

}  // namespace

void add_names(VolumeClass& volume) {
    volume.def("stat", &stat)
        .def("list", &list)
        .def("make", &make)
        .def("read_link", &read_link)
        .def("unlink", &unlink)
        .def("remove_directory", &remove_directory)
        .def("remove_tree", &remove_tree, nb::arg(), nb::arg().none())
        .def("rename", &rename)
        .def("open", &open);
}

}  // namespace warren::python
