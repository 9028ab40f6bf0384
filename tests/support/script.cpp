// SPDX-License-Identifier: Apache-2.0
// Each step looks up its objects by path when it runs, since handles of the volume and of the model
// differ, and earlier steps may have moved objects.
#include "tests/support/script.hpp"

#include <vector>

namespace warren {

void add_create(Script& script, const std::string& path, u32 mode) {
    const std::string what = is_mode_of(mode, directory_mode) ? "mkdir" : "create";
    script.add_at(what, path, [mode](auto& system, Handle directory, std::string_view name) {
        return system.create(anybody, directory, name, {.mode = mode});
    });
}

void add_symlink(Script& script, const std::string& path, u64 target_bytes) {
    script.add_at("symlink", path, [=](auto& system, Handle directory, std::string_view name) {
        const std::string target(target_bytes, 't');
        return system.create(anybody, directory, name, {.mode = 0120777, .target = target});
    });
}

void add_link(Script& script, const std::string& file, const std::string& path) {
    script.add_at("link " + file, path,
                  [file](auto& system, Handle directory, std::string_view name) {
                      const Result<Handle> found = handle_at(system, file);
                      return found ? system.link(anybody, *found, directory, name) : found.code();
                  });
}

void add_unlink(Script& script, const std::string& path) {
    script.add_at("unlink", path, [](auto& system, Handle directory, std::string_view name) {
        return system.unlink(anybody, directory, name);
    });
}

void add_remove_directory(Script& script, const std::string& path) {
    script.add_at("rmdir", path, [](auto& system, Handle directory, std::string_view name) {
        return system.remove_directory(anybody, directory, name);
    });
}

void add_rename(Script& script, const std::string& from, const std::string& to, Rename how) {
    const std::string what = how == Rename::exchange ? "exchange " : "rename ";
    script.add_at(what + to + " from", from,
                  [=](auto& system, Handle directory, std::string_view name) -> Errc {
                      const Result<Handle> target = handle_at(system, directory_of(to));
                      if (!target) return target.code();
                      return system.rename(anybody, directory, name, *target, name_in(to), how);
                  });
}

void add_remove_tree(Script& script, const std::string& path) {
    script.add_at("remove_tree", path, [](auto& system, Handle directory, std::string_view name) {
        Removal removal;
        return system.remove_tree(anybody, directory, name, removal);
    });
}

void add_clone(Script& script, const std::string& from, const std::string& to) {
    script.add_at("clone " + from + " to", to,
                  [=](auto& system, Handle directory, std::string_view name) -> Errc {
                      const Result<Handle> source = handle_at(system, from);
                      if (!source) return source.code();
                      ClonedTree cloned;
                      return system.clone(anybody, *source, directory, name, cloned);
                  });
}

void add_share(Script& script, const std::string& from, const std::string& to, u64 length) {
    const std::string what = "share " + std::to_string(length) + " bytes of " + from + " with";
    script.add_on(what, to, [=](auto& system, Handle file) -> Errc {
        const Result<Handle> source = handle_at(system, from);
        if (!source) return source.code();
        return system.share_range(*source, 0, file, 0, length).code();
    });
}

void add_dedupe(Script& script, const std::string& from, const std::string& to, u64 length) {
    const std::string what = "dedupe " + std::to_string(length) + " bytes of " + from + " and";
    script.add_on(what, to, [=](auto& system, Handle file) -> Errc {
        const Result<Handle> source = handle_at(system, from);
        if (!source) return source.code();
        return system.dedupe_range(anybody, *source, 0, file, 0, length).code();
    });
}

void add_write(Script& script, const std::string& path, u64 offset, u64 length, int value) {
    add_write(script, path, offset, std::vector(length, static_cast<std::byte>(value)));
}

void add_write(Script& script, const std::string& path, u64 offset,
               const std::vector<std::byte>& bytes) {
    const std::string what =
        "write " + std::to_string(bytes.size()) + " bytes at " + std::to_string(offset) + " of";
    script.add_on(what, path,
                  [=](auto& system, Handle file) { return system.write(file, offset, bytes); });
}

void add_resize(Script& script, const std::string& path, u64 size) {
    AttributeChange change;
    change.which = AttributeChange::size;
    change.new_size = size;
    add_change(script, path, change);
}

void add_allocate(Script& script, const std::string& path, Allocate how, u64 offset, u64 length) {
    const std::string what = "allocate (" + std::to_string(static_cast<int>(how)) + ") " +
                             std::to_string(length) + " bytes at " + std::to_string(offset) + " of";
    script.add_on(what, path, [=](auto& system, Handle file) {
        return system.allocate(file, how, offset, length);
    });
}

void add_change(Script& script, const std::string& path, const AttributeChange& change) {
    const std::string what = "set attributes (" + std::to_string(change.which) + ") of";
    script.add_on(what, path, [=](auto& system, Handle file) {
        return system.set_attributes(anybody, file, change);
    });
}

void add_attribute(Script& script, const std::string& path, u64 length) {
    const std::string what = "set extended attribute of " + std::to_string(length) + " bytes of";
    script.add_on(what, path, [=](auto& system, Handle file) {
        if (length == 0) return system.remove_attribute(anybody, file, "user.note");
        return system.set_attribute(anybody, file, "user.note",
                                    std::vector(length, std::byte{'x'}));
    });
}

}  // namespace warren
