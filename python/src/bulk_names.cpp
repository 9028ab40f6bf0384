// SPDX-License-Identifier: Apache-2.0
// Many names in one call: looked up, created, removed, moved. The items are passed to the volume in
// parts, in order; between two parts Ctrl-C ends the call.
#include <algorithm>

#include "python/src/operands.hpp"

namespace warren::python {
namespace {

constexpr std::size_t part_items = 1 << 16;

/// So few are looked up in less time than it takes to get the GIL back from busy threads, each of
/// which may keep it for 5 ms. A lookup does not wait for calls that may want the GIL.
constexpr std::size_t few_items = 4096;

/// Calls work(volume, caller, directory, begin, end) for parts of `count` items, where `directory`
/// is the one at which their paths begin.
template <class Work>
void in_parts(Shared& shared, const Start& start, std::size_t count, nb::object progress,
              Work work) {
    LongCall call(std::move(progress));
    const auto run = [&](Volume& volume, const Caller& caller) -> Errc {
        WARREN_LET(directory, start.find(volume, caller));
        for (std::size_t begin = 0; begin < count; begin += part_items) {
            if (begin > 0 && !call.goes_on(begin)) break;
            work(volume, caller, *directory, begin, std::min(count, begin + part_items));
        }
        return Errc::ok;
    };
    const Errc code = with_volume(shared, run);
    if (code != Errc::ok) raise_error(code, start.path());
    call.finish(count);
}

/// Locates a part of the names. codes[i] receives the error of a path that cannot be resolved, or
/// `for_directory` for a path that ends at a directory itself.
void locate_part(Volume& volume, const Caller& caller, Handle from,
                 std::span<const std::string_view> paths, Errc for_directory,
                 std::span<LocatedName> located, std::span<Errc> codes,
                 Slash slash = Slash::directory) {
    locate_many(volume, caller, from, paths, located, slash);
    for (std::size_t i = 0; i < located.size(); ++i) {
        const bool has_name = located[i].code != Errc::ok || !located[i].name.empty();
        codes[i] = has_name ? located[i].code : for_directory;
    }
}

nb::tuple lookup_many(NativeVolume& self, nb::handle given, nb::handle directory, bool follows,
                      bool strict, nb::object progress) {
    const Names names(given, "names");
    const Start start(directory);
    std::vector<Handle> handles(names.size());
    std::vector<Errc> codes(names.size());
    in_parts(
        *self, start, names.size(), std::move(progress),
        [&](Volume& volume, const Caller& caller, Handle from, std::size_t begin, std::size_t end) {
            find_each(volume, caller, from, names.all().subspan(begin, end - begin),
                      follows ? Follow::yes : Follow::no,
                      [&](u64 i, const Result<Attributes>& found) {
                          codes[begin + i] = found.code();
                          if (found) handles[begin + i] = found->handle;
                      });
        });
    if (strict) raise_first(names, codes);
    return nb::make_tuple(array_of(handles), array_of(codes));
}

Array exists_many(NativeVolume& self, nb::handle given, nb::handle directory, nb::object progress) {
    const Names names(given, "names");
    const Start start(directory);
    Array answer = Array::make<bool>({static_cast<i64>(names.size())});
    const auto look = [&](Volume& volume, const Caller& caller, Handle from, std::size_t begin,
                          std::size_t end) {
        find_each(volume, caller, from, names.all().subspan(begin, end - begin), Follow::yes,
                  [&](u64 i, const Result<Attributes>& found) {
                      answer.data<bool>()[begin + i] = bool(found);
                  });
    };
    if (names.size() > few_items) {
        in_parts(*self, start, names.size(), std::move(progress), look);
        return answer;
    }
    LongCall call(std::move(progress));
    const Errc code = with_volume_briefly(*self, [&](Volume& volume, const Caller& caller) -> Errc {
        const Result<Handle> from = start.find(volume, caller);
        if (from) look(volume, caller, *from, 0, names.size());
        return from.code();
    });
    if (code != Errc::ok) raise_error(code, start.path());
    call.finish(names.size());
    return answer;
}

nb::tuple create_many(NativeVolume& self, nb::handle given, nb::handle directory, u32 mode,
                      bool strict, nb::object progress) {
    const Names names(given, "names");
    const Start start(directory);
    std::vector<Handle> handles(names.size());
    std::vector<Errc> codes(names.size());
    in_parts(
        *self, start, names.size(), std::move(progress),
        [&](Volume& volume, const Caller& caller, Handle from, std::size_t begin, std::size_t end) {
            const auto paths = names.all().subspan(begin, end - begin);
            const auto part = std::span(codes).subspan(begin, end - begin);
            std::vector<LocatedName> located(paths.size());
            locate_part(volume, caller, from, paths, Errc::exists, located, part,
                        (mode & 0170000) == 0040000 ? Slash::ignored : Slash::refused);
            std::vector<Creation> creations;
            std::vector<std::size_t> places;
            for (std::size_t i = 0; i < paths.size(); ++i) {
                if (part[i] != Errc::ok) continue;
                creations.push_back({located[i].directory, located[i].name, {.mode = mode}});
                places.push_back(begin + i);
            }
            std::vector<Result<Attributes>> made(creations.size(), Errc::no_memory);
            volume.create_many(caller, creations, made);
            for (std::size_t i = 0; i < places.size(); ++i) {
                codes[places[i]] = made[i].code();
                if (made[i]) handles[places[i]] = made[i]->handle;
            }
        });
    if (strict) raise_first(names, codes);
    return nb::make_tuple(array_of(handles), array_of(codes));
}

Array remove_many(NativeVolume& self, nb::handle given, nb::handle directory, bool directories,
                  bool strict, nb::object progress) {
    const Names names(given, "names");
    const Start start(directory);
    std::vector<Errc> codes(names.size());
    in_parts(
        *self, start, names.size(), std::move(progress),
        [&](Volume& volume, const Caller& caller, Handle from, std::size_t begin, std::size_t end) {
            const auto paths = names.all().subspan(begin, end - begin);
            const auto part = std::span(codes).subspan(begin, end - begin);
            std::vector<LocatedName> located(paths.size());
            const Errc for_directory = directories ? Errc::busy : Errc::is_directory;
            locate_part(volume, caller, from, paths, for_directory, located, part);
            std::vector<Unlink> unlinks;
            std::vector<std::size_t> places;
            for (std::size_t i = 0; i < paths.size(); ++i) {
                if (part[i] != Errc::ok) continue;
                unlinks.push_back({located[i].directory, located[i].name, directories});
                places.push_back(begin + i);
            }
            std::vector<Errc> removed(unlinks.size(), Errc::no_memory);
            volume.remove_many(caller, unlinks, removed);
            for (std::size_t i = 0; i < places.size(); ++i)
                codes[places[i]] = removed[i];
        });
    if (strict) raise_first(names, codes);
    return array_of(codes);
}

Array move_many(NativeVolume& self, nb::handle given, nb::handle given_targets,
                nb::handle directory, bool strict, nb::object progress) {
    const Names names(given, "names");
    const Names targets(given_targets, "targets");
    if (targets.size() != names.size())
        throw nb::value_error("targets: there must be as many as names");
    const Start start(directory);
    std::vector<Errc> codes(names.size());
    in_parts(
        *self, start, names.size(), std::move(progress),
        [&](Volume& volume, const Caller& caller, Handle from, std::size_t begin, std::size_t end) {
            const std::size_t count = end - begin;
            const auto sources = names.all().subspan(begin, count);
            const auto new_names = targets.all().subspan(begin, count);
            const auto part = std::span(codes).subspan(begin, count);
            std::vector<LocatedName> froms(count);
            std::vector<LocatedName> tos(count);
            std::vector<Errc> target_codes(count);
            locate_part(volume, caller, from, sources, Errc::busy, froms, part);
            locate_part(volume, caller, from, new_names, Errc::busy, tos, target_codes);
            std::vector<Move> moves;
            std::vector<std::size_t> places;
            for (std::size_t i = 0; i < count; ++i) {
                if (part[i] == Errc::ok) part[i] = target_codes[i];
                if (part[i] == Errc::ok && new_names[i].ends_with('/')) {
                    Located old, renamed;
                    part[i] = PathWalker(volume, caller)
                                  .locate_move(from, sources[i], new_names[i], old, renamed);
                }
                if (part[i] != Errc::ok) continue;
                moves.push_back({froms[i].directory, froms[i].name, tos[i].directory, tos[i].name});
                places.push_back(begin + i);
            }
            std::vector<Errc> moved(moves.size(), Errc::no_memory);
            volume.move_many(caller, moves, moved);
            for (std::size_t i = 0; i < places.size(); ++i)
                codes[places[i]] = moved[i];
        });
    if (strict) raise_first(names, codes, &targets);
    return array_of(codes);
}

nb::tuple rebuild(NativeVolume& self, nb::handle directory, nb::object progress) {
    const Start start(directory);
    Rebuilt rebuilt;
    LongCall call(std::move(progress));
    const auto goes_on = [&](u64 done) { return call.goes_on(done); };
    const Errc code = with_volume(*self, [&](Volume& volume, const Caller& caller) -> Errc {
        const Result<Handle> found = start.find(volume, caller);
        return found ? volume.rebuild(caller, *found, rebuilt, goes_on) : found.code();
    });
    if (code != Errc::ok && !call.is_stopped()) raise_error(code, start.path());
    call.finish(rebuilt.entries);
    return nb::make_tuple(rebuilt.entries, rebuilt.blocks_before, rebuilt.blocks_after,
                          rebuilt.in_steps);
}

}  // namespace

void add_bulk_names(VolumeClass& volume) {
    using nb::arg;
    volume.def("lookup_many", &lookup_many, arg(), arg().none(), arg(), arg(), arg().none())
        .def("exists_many", &exists_many, arg(), arg().none(), arg().none())
        .def("create_many", &create_many, arg(), arg().none(), arg(), arg(), arg().none())
        .def("remove_many", &remove_many, arg(), arg().none(), arg(), arg(), arg().none())
        .def("move_many", &move_many, arg(), arg(), arg().none(), arg(), arg().none())
        .def("rebuild", &rebuild, arg().none(), arg().none());
}

}  // namespace warren::python
