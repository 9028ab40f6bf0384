// SPDX-License-Identifier: Apache-2.0
// The path that is still to go is a string; a link's target is put in front of it. So nothing
// recurses, whatever the links say, and a counter ends loops.
#include "apps/warren/volume_path.hpp"

namespace warren::cli {

namespace {

constexpr u32 links_followed_max = 40;

/// Cuts the first component off `path`.
std::string_view cut_component(std::string_view& path) {
    const size_t begin = std::min(path.find_first_not_of('/'), path.size());
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view component = path.substr(begin, end - begin);
    path.remove_prefix(end);
    return component;
}

bool is_directory(const Attributes& attributes) {
    return (attributes.mode & 0170000) == 0040000;
}
bool is_link(const Attributes& attributes) {
    return (attributes.mode & 0170000) == 0120000;
}

}  // namespace

/// Goes from `at` to `name`, a component that is not the last; a link's target goes before `rest`.
Errc PathWalker::step(Handle& at, std::string_view name, std::string& rest) {
    if (name.empty() || name == ".") return Errc::ok;
    if (name == "..") {
        const Result<Attributes> here = volume_.attributes(at);
        if (!here) return here.code();
        if (at == volume_.root()) return Errc::ok;
        const Result<Handle> above = volume_.handle_of(here->parent);
        if (!above) return above.code();
        at = *above;
        return Errc::ok;
    }
    const Result<Attributes> next = volume_.lookup(caller_, at, name);
    if (!next) return next.code();
    if (is_link(*next)) {
        if (++links_followed_ > links_followed_max) return Errc::loop;
        const Result<std::string> target = volume_.read_link(next->handle);
        if (!target) return target.code();
        if (target->empty()) return Errc::no_entry;
        if ((*target)[0] == '/') at = volume_.root();
        rest = *target + "/" + rest;
        return Errc::ok;
    }
    if (!is_directory(*next)) return Errc::not_directory;
    at = next->handle;
    return Errc::ok;
}

Errc PathWalker::locate(Handle from, std::string_view path, Place& place) {
    Handle at = from;
    if (path.starts_with('/')) at = volume_.root();
    std::string text(path);
    while (true) {
        std::string_view rest = text;
        const std::string component(cut_component(rest));
        const bool last = rest.find_first_not_of('/') == std::string_view::npos;
        std::string behind(rest);
        if (last && component != "." && component != "..") {
            place = {at, component};
            return Errc::ok;
        }
        WARREN_TRY(step(at, component, behind));
        if (last && behind.find_first_not_of('/') == std::string::npos) {
            place = {at, ""};
            return Errc::ok;
        }
        text = std::move(behind);
    }
}

Result<Attributes> PathWalker::find(Handle from, std::string_view path, Follow follow) {
    Place place;
    // A slash at the end asks for a directory, be it behind a link.
    const bool slash_behind = path.ends_with('/');
    std::string target;
    Handle at = from;
    while (true) {
        if (const Errc code = locate(at, path, place); code != Errc::ok) return code;
        const Result<Attributes> found = place.name.empty()
                                             ? volume_.attributes(place.directory)
                                             : volume_.lookup(caller_, place.directory, place.name);
        if (!found) return found;
        const bool through = is_link(*found) && (follow == Follow::yes || slash_behind);
        if (!through) {
            if (slash_behind && !is_directory(*found)) return Errc::not_directory;
            return found;
        }
        if (++links_followed_ > links_followed_max) return Errc::loop;
        const Result<std::string> read = volume_.read_link(found->handle);
        if (!read) return read.code();
        if (read->empty()) return Errc::no_entry;
        target = *read + (slash_behind ? "/" : "");
        path = target;
        at = place.directory;
    }
}

}  // namespace warren::cli
