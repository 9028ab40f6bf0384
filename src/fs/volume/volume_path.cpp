// SPDX-License-Identifier: Apache-2.0
// The rest of the path is a string, and the target of a link is inserted before it. So nothing
// recurses, whatever the links contain, and a counter ends loops.
#include "warren/volume_path.hpp"

#include <string.h>

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fs/format/inode.hpp"

namespace warren {

namespace {

constexpr u32 links_followed_max = 40;

/// Removes the first component from `path` and returns it.
std::string_view cut_component(std::string_view& path) {
    const size_t begin = std::min(path.find_first_not_of('/'), path.size());
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view component = path.substr(begin, end - begin);
    path.remove_prefix(end);
    return component;
}

/// Whether a slash may follow `name`, as PathWalker::locate() says.
Errc check_slash(Volume& volume, const Caller& caller, Handle directory, std::string_view name,
                 Slash slash) {
    if (slash == Slash::ignored) return Errc::ok;
    const Result<Attributes> found = volume.lookup(caller, directory, name);
    if (slash == Slash::refused) return found ? Errc::exists : Errc::not_directory;
    return found && !format::is_directory(found->mode) ? Errc::not_directory : Errc::ok;
}

}  // namespace

/// Goes from `at` to `name`, a component that is not the last. Inserts a link's target before
/// `rest`.
Errc PathWalker::step(Handle& at, std::string_view name, std::string& rest) {
    if (name.empty() || name == ".") return Errc::ok;
    if (name == "..") {
        WARREN_LET(here, volume_.attributes(at));
        if (at == volume_.root()) return Errc::ok;
        WARREN_LET(above, volume_.handle_of(here->parent));
        at = *above;
        return Errc::ok;
    }
    WARREN_LET(next, volume_.lookup(caller_, at, name));
    if (format::is_symlink(next->mode)) {
        if (++links_followed_ > links_followed_max) return Errc::loop;
        WARREN_LET(target, volume_.read_link(next->handle));
        if (target->empty()) return Errc::no_entry;
        if ((*target)[0] == '/') at = volume_.root();
        rest = *target + "/" + rest;
        return Errc::ok;
    }
    if (!format::is_directory(next->mode)) return Errc::not_directory;
    at = next->handle;
    return Errc::ok;
}

Errc PathWalker::locate(Handle from, std::string_view path, Located& located, Slash slash) {
    Handle at = from;
    if (path.starts_with('/')) at = volume_.root();
    std::string text(path);
    while (true) {
        std::string_view rest = text;
        const std::string component(cut_component(rest));
        const bool last = rest.find_first_not_of('/') == std::string_view::npos;
        std::string behind(rest);
        if (last && component != "." && component != "..") {
            located = {at, component};
            return path.ends_with('/') ? check_slash(volume_, caller_, at, component, slash)
                                       : Errc::ok;
        }
        WARREN_TRY(step(at, component, behind));
        if (last && behind.find_first_not_of('/') == std::string::npos) {
            located = {at, ""};
            return Errc::ok;
        }
        text = std::move(behind);
    }
}

Errc PathWalker::locate_move(Handle from, std::string_view path, std::string_view target,
                             Located& located, Located& target_located) {
    WARREN_TRY(locate(from, path, located));
    WARREN_TRY(locate(from, target, target_located));
    if (located.name.empty() || target_located.name.empty()) return Errc::busy;
    if (!target.ends_with('/')) return Errc::ok;
    WARREN_LET(found, volume_.lookup(caller_, located.directory, located.name));
    return format::is_directory(found->mode) ? Errc::ok : Errc::not_directory;
}

/// Like find(). `last` receives the directory and the name behind all links, or an empty name if
/// no file can be created there.
Result<Attributes> PathWalker::find_last(Handle from, std::string_view path, Follow follow,
                                         Located& last) {
    std::string target;
    Handle at = from;
    while (true) {
        // With a slash at the end the path must lead to a directory, possibly through a link.
        const bool slash_behind = path.ends_with('/');
        last = {};
        WARREN_TRY(locate(at, path, last, Slash::ignored));
        const Result<Attributes> found = last.name.empty()
                                             ? volume_.attributes(last.directory)
                                             : volume_.lookup(caller_, last.directory, last.name);
        if (!found && slash_behind) last = {};
        if (!found) return found;
        const bool through =
            format::is_symlink(found->mode) && (follow == Follow::yes || slash_behind);
        if (!through) {
            if (slash_behind && !format::is_directory(found->mode)) return Errc::not_directory;
            return found;
        }
        if (++links_followed_ > links_followed_max) return Errc::loop;
        WARREN_LET(read, volume_.read_link(found->handle));
        if (read->empty()) return Errc::no_entry;
        target = slash_behind ? *read + "/" : *read;
        path = target;
        at = last.directory;
    }
}

Result<Attributes> PathWalker::find(Handle from, std::string_view path, Follow follow) {
    Located last;
    return find_last(from, path, follow, last);
}

Result<Attributes> PathWalker::find_or_create(Handle from, std::string_view path,
                                              const CreateOptions& options, bool& is_new) {
    Located last;
    const Result<Attributes> found = find_last(from, path, Follow::yes, last);
    is_new = found.code() == Errc::no_entry && !last.name.empty();
    return is_new ? volume_.create(caller_, last.directory, last.name, options) : found;
}

namespace {

/// The directories of paths, each looked up once.
class Directories {
 public:
    Directories(Volume& volume, const Caller& caller, Handle from)
        : volume_(volume), caller_(caller), from_(from) {}

    /// The directory to which a path leads; `from` for an empty path.
    Result<Handle> find(std::string_view path) {
        if (path.empty()) return from_;
        if (path == last_) return last_found_;
        const auto [entry, is_new] = found_.try_emplace(path, Errc::io);
        if (is_new) {
            const auto attributes = PathWalker(volume_, caller_).find(from_, path, Follow::yes);
            entry->second = attributes ? Result<Handle>(attributes->handle) : attributes.code();
        }
        last_ = path;
        last_found_ = entry->second;
        return last_found_;
    }

 private:
    Volume& volume_;
    const Caller& caller_;
    Handle from_;
    std::unordered_map<std::string_view, Result<Handle>> found_;
    std::string_view last_;  // most paths have the same directory as the one before
    Result<Handle> last_found_ = Errc::io;
};

/// The length of `path` up to its last slash. string_view::rfind() looks at one byte at a time.
std::size_t bytes_to_last_slash(std::string_view path) {
    const void* slash = path.empty() ? nullptr : ::memrchr(path.data(), '/', path.size());
    if (slash == nullptr) return 0;
    return static_cast<std::size_t>(static_cast<const char*>(slash) - path.data()) + 1;
}

}  // namespace

void locate_many(Volume& volume, const Caller& caller, Handle from,
                 std::span<const std::string_view> paths, std::span<LocatedName> located,
                 Slash slash) {
    Directories directories(volume, caller, from);
    for (std::size_t i = 0; i < paths.size(); ++i) {
        std::string_view path = paths[i];
        std::string_view name = path.substr(0, path.find_last_not_of('/') + 1);
        const std::size_t before = bytes_to_last_slash(name);
        name.remove_prefix(before);
        // The path names a directory itself, without a last name.
        const bool is_directory = name.empty() || name == "." || name == "..";
        const Result<Handle> found = directories.find(is_directory ? path : path.substr(0, before));
        located[i] = {*found, is_directory ? std::string_view() : name, found.code()};
        if (found && !is_directory && path.ends_with('/'))
            located[i].code = check_slash(volume, caller, *found, name, slash);
    }
}

void find_many(Volume& volume, const Caller& caller, Handle from,
               std::span<const std::string_view> paths, Follow follow,
               std::span<Result<Attributes>> found) {
    std::vector<LocatedName> located(paths.size());
    locate_many(volume, caller, from, paths, located, Slash::ignored);
    std::vector<Lookup> lookups;
    std::vector<std::size_t> places;
    lookups.reserve(paths.size());
    places.reserve(paths.size());
    for (std::size_t i = 0; i < paths.size(); ++i) {
        if (located[i].code != Errc::ok) {
            found[i] = located[i].code;
        } else if (located[i].name.empty()) {
            found[i] = volume.attributes(located[i].directory);
        } else {
            lookups.push_back({located[i].directory, located[i].name});
            places.push_back(i);
        }
    }
    // If every path has a name to look up, as is usual, the answers need no memory of their own.
    const bool is_all = lookups.size() == paths.size();
    std::vector<Result<Attributes>> some(is_all ? 0 : lookups.size(), Errc::no_memory);
    volume.lookup_many(caller, lookups, is_all ? found : std::span(some));
    for (std::size_t i = 0; i < places.size(); ++i) {
        Result<Attributes>& answer = found[places[i]];
        if (!is_all) answer = some[i];
        if (!answer) continue;
        const std::string_view path = paths[places[i]];
        const bool is_more =
            path.ends_with('/') || (follow == Follow::yes && format::is_symlink(answer->mode));
        if (is_more) answer = PathWalker(volume, caller).find(from, path, follow);
    }
}

}  // namespace warren
