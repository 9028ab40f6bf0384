// SPDX-License-Identifier: Apache-2.0
// Makes many files or replaces their contents in one call, on all cores.
#include <algorithm>
#include <atomic>
#include <functional>
#include <unordered_set>

#include "fs/volume/open_while.hpp"
#include "python/src/files.hpp"
#include "python/src/gpu_memory.hpp"

namespace warren::python {
namespace {

using ReadBytes = nb::ndarray<const u8, nb::ndim<1>, nb::c_contig>;

/// Like ranges_on_all_cores(), with work(i, is_caller) for each item.
template <class Work>
void on_all_cores(LongCall& call, u64 count, const Work& work) {
    const bool is_alone = count <= files_at_once;
    ranges_on_all_cores(call, count, [&](u64 first, u64 last, bool is_caller) {
        for (u64 i = first; i < last && (!is_alone || call.goes_on(i)); ++i)
            work(i, is_caller);
    });
}

/// Finds the existing files whose names could not be created, or creates what links lead to.
void find_existing(Volume& volume, const Caller& caller, Handle from, const Names& names, u32 mode,
                   std::span<Result<Attributes>> found) {
    for (std::size_t i = 0; i < found.size(); ++i) {
        if (found[i].code() != Errc::exists) continue;
        bool is_new = false;
        const auto file = PathWalker(volume, caller)
                              .find_or_create(from, names[i], {.mode = mode}, is_new);
        const Errc code = is_new ? Errc::ok : check_file(volume, caller, file, 2);
        found[i] = code == Errc::ok ? file : Result<Attributes>(code);
    }
}

/// Which files are written again by a later item of the call. Only those can be that were found.
std::vector<bool> find_replaced(std::span<const Result<Attributes>> found) {
    std::vector<bool> replaced(found.size());
    std::unordered_set<u64> later;
    for (std::size_t i = found.size(); i-- > 0;)
        replaced[i] = found[i] && !later.insert(found[i]->handle.inode).second;
    return replaced;
}

/// Creates the files that do not exist. found[i] receives file i. Returns find_replaced().
std::vector<bool> make_files(Volume& volume, const Caller& caller, Handle from, const Names& names,
                             u32 mode, std::span<Result<Attributes>> found) {
    std::vector<LocatedName> located(names.size());
    locate_many(volume, caller, from, names.all(), located, Slash::refused);
    std::vector<Creation> creations;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < names.size(); ++i) {
        found[i] = located[i].code != Errc::ok ? located[i].code : Errc::exists;
        if (located[i].code != Errc::ok || located[i].name.empty()) continue;
        creations.push_back({located[i].directory, located[i].name, {.mode = mode}});
        places.push_back(i);
    }
    std::vector<Result<Attributes>> made(creations.size(), Errc::no_memory);
    volume.create_many(caller, creations, made);
    for (std::size_t i = 0; i < places.size(); ++i)
        found[places[i]] = made[i];
    const bool all_are_new =
        std::ranges::none_of(found, [](const auto& one) { return one.code() == Errc::exists; });
    if (all_are_new) return std::vector<bool>(found.size());
    find_existing(volume, caller, from, names, mode, found);
    return find_replaced(found);
}

/// The state of a write call. File i gets the values from offsets[i] to offsets[i + 1], unless a
/// later item replaces it.
struct Writing {
    Volume& volume;
    const Caller& caller;
    LongCall& call;
    std::span<const i64> offsets;
    std::span<const Result<Attributes>> found;
    const std::vector<bool>& replaced;
    std::span<Errc> codes;

    u64 begin(u64 i) const { return static_cast<u64>(offsets[i]); }
    /// The number of bytes of files [first, last).
    u64 bytes(u64 first, u64 last) const { return begin(last) - begin(first); }
    bool goes_on(bool is_caller, u64 done = 0) const {
        return is_caller ? call.goes_on(done) : !call.is_stopped();
    }
    /// Empties file i, if it is there, and calls write(handle) while it is open.
    template <class Write>
    void replace(u64 i, const Write& write) const {
        codes[i] = found[i].code();
        if (found[i] && !replaced[i]) codes[i] = emptied(*found[i], write);
    }
    /// Replaces the contents of file i.
    void put(u64 i, std::span<const std::byte> source, const std::function<bool()>& goes_on) const {
        replace(i, [&](Handle file) -> Errc {
            for (u64 done = 0; done < source.size();) {
                const u64 count = std::min<u64>(bytes_at_once, source.size() - done);
                WARREN_LET(put, volume.write(file, done, source.subspan(done, count)));
                done += *put;
                if (!goes_on()) break;
            }
            return Errc::ok;
        });
    }

 private:
    template <class Write>
    Errc emptied(const Attributes& file, const Write& write) const {
        const OpenWhile open(volume, file.handle);
        WARREN_TRY(open.code());
        if (file.size > 0) {
            const AttributeChange change{.which = AttributeChange::size, .new_size = 0};
            WARREN_TRY(volume.set_attributes(caller, file.handle, change).code());
        }
        return write(file.handle);
    }
};

void write_from_host(const Writing& writing, const std::byte* base) {
    on_all_cores(writing.call, writing.codes.size(), [&](u64 i, bool is_caller) {
        writing.put(i, std::span(base + writing.begin(i), writing.bytes(i, i + 1)),
                    [&] { return writing.goes_on(is_caller); });
    });
}

/// Fetches small files together, and large ones one by one on all cores. Returns the error of the
/// GPU.
Errc write_from_gpu(const Writing& writing, const GpuBytes& values) {
    constexpr u64 files_max = 256;  // in a piece, so that there are pieces for all cores
    std::vector<StagedWrite::Piece> pieces;
    std::vector<u64> firsts;  // files of the pieces
    std::vector<u64> lasts;
    std::vector<u64> large;
    const u64 count = writing.codes.size();
    for (u64 first = 0, last = 0; first < count; first = last) {
        for (last = first + 1; last < count && last - first < files_max; ++last)
            if (writing.bytes(first, last + 1) > staged_bytes_max) break;
        const u64 bytes = writing.bytes(first, last);
        if (bytes > staged_bytes_max) {
            large.push_back(first);
            continue;
        }
        pieces.push_back({pieces.size(), writing.begin(first), bytes});
        firsts.push_back(first);
        lasts.push_back(last);
    }
    std::atomic<u64> done{0};
    const auto goes_on = [&](u32 worker) { return writing.goes_on(worker == 0, done); };
    WARREN_TRY(fetch_pieces(values, pieces, goes_on, [&](const auto& piece, auto bytes) {
        for (u64 i = firsts[piece.number]; i < lasts[piece.number]; ++i) {
            const u64 begin = writing.begin(i) - piece.begin;
            writing.put(i, bytes.subspan(begin, writing.bytes(i, i + 1)), [] { return true; });
        }
        done += lasts[piece.number] - firsts[piece.number];
    }));
    Errc failed = Errc::ok;
    for (const u64 i : large) {
        if (failed != Errc::ok || !goes_on(0)) break;
        const GpuBytes part{values.data + writing.begin(i), writing.bytes(i, i + 1), values.gpu,
                            values.stream};
        writing.replace(i, [&](Handle file) {
            const Errc code =
                python::write_from_gpu(writing.volume, file, 0, part, writing.call).code();
            if (is_of_gpu(code)) failed = code;
            return code;
        });
        ++done;
    }
    return failed;
}

nb::tuple write_many(NativeVolume& self, nb::handle given, nb::handle given_values,
                     nb::handle given_offsets, nb::handle directory, u32 mode, bool strict,
                     nb::object progress) {
    const Names names(given, "names");
    const auto values =
        array_in<ReadBytes>(given_values, "values", "a contiguous uint8 array of one dimension",
                            Maker::awaited);
    const Offsets given_ends(given_offsets, "offsets");
    const std::span<const i64> offsets = given_ends.all();
    const Start start(directory);
    if (offsets.size() != names.size() + 1)
        throw nb::value_error("offsets: there must be one more than names");
    const bool is_good = offsets.front() >= 0 && std::ranges::is_sorted(offsets) &&
                         offsets.back() <= static_cast<i64>(values.shape(0));
    if (!is_good) throw nb::value_error("offsets: they must rise from 0 to the length of values");
    const auto on_gpu = gpu_bytes(values, std::nullopt, "values");
    Errc fetched = Errc::ok;
    if (on_gpu) {  // no file is made for values that cannot be read
        const GilRelease release;
        fetched = wait_for_stream(on_gpu->gpu, on_gpu->stream);
    }
    if (fetched != Errc::ok) raise_failure(gpu_failure(fetched), "");
    std::vector<Result<Attributes>> found(names.size(), Errc::io);
    std::vector<Errc> codes(names.size());
    Failure failure;
    LongCall call(std::move(progress));
    const Errc code = with_volume(*self, [&](Volume& volume, const Caller& caller) -> Errc {
        WARREN_LET(from, start.find(volume, caller));
        const std::vector<bool> replaced =
            make_files(volume, caller, *from, names, mode, found);
        const Writing writing{volume, caller, call, offsets, found, replaced, codes};
        if (on_gpu && on_gpu->bytes > 0) {
            fetched = write_from_gpu(writing, *on_gpu);
            if (fetched != Errc::ok) failure = gpu_failure(fetched);
        } else {
            write_from_host(writing, reinterpret_cast<const std::byte*>(values.data()));
        }
        return Errc::ok;
    });
    if (code != Errc::ok) raise_error(code, start.path());
    if (call.is_stopped() || fetched == Errc::ok) call.finish(names.size());
    if (fetched != Errc::ok) raise_failure(failure, "");
    if (strict) raise_first(names, codes);
    std::vector<Handle> handles(names.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (found[i]) handles[i] = found[i]->handle;
    }
    return nb::make_tuple(array_of(handles), array_of(codes));
}

}  // namespace

void add_bulk_writes(VolumeClass& volume) {
    using nb::arg;
    volume.def("write_many", &write_many, arg(), arg().none(), arg().none(), arg().none(), arg(),
               arg(), arg().none());
}

}  // namespace warren::python
