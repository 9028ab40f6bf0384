// SPDX-License-Identifier: Apache-2.0
// Reads many files in one call, on all cores: into one buffer, with the files one after the other,
// and their offsets[n + 1] in it.
#include <algorithm>
#include <array>
#include <compare>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <type_traits>

#include <nanobind/stl/optional.h>

#include "base/check.hpp"
#include "base/workers.hpp"
#include "fs/volume/open_while.hpp"
#include "python/src/files.hpp"
#include "python/src/gpu_memory.hpp"
#include "python/src/kept_threads.hpp"

namespace warren::python {
namespace {

using Bytes = nb::ndarray<u8, nb::ndim<1>, nb::c_contig>;

constexpr u64 small_file_bytes = 128 * kib;  // at most so large a file is read together with others

/// Fills `target` with the file's bytes from `offset` on, and with zeros past its end.
Errc read_file(Volume& volume, Handle handle, u64 offset, std::span<std::byte> target,
               const std::function<bool()>& goes_on) {
    const OpenWhile open(volume, handle);
    WARREN_TRY(open.code());
    u64 done = 0;
    while (done < target.size()) {
        const u64 count = std::min<u64>(bytes_at_once, target.size() - done);
        WARREN_LET(got, volume.read(handle, offset + done, target.subspan(done, count)));
        if (*got == 0 || !goes_on()) break;
        done += *got;
    }
    std::memset(target.data() + done, 0, target.size() - done);
    return Errc::ok;
}

/// Which part of each file is read, with the meaning of Python's slices.
class Ranges {
 public:
    Ranges(nb::handle starts, nb::handle ends, std::size_t count) {
        take(starts, starts_, count, "starts");
        take(ends, ends_, count, "ends");
    }
    /// The offset in file i of `size` bytes from which it is read, and the number of bytes.
    std::pair<u64, u64> of(std::size_t i, u64 size) const {
        const u64 begin = starts_ ? inside(starts_->all()[i], size) : 0;
        const u64 end = ends_ ? inside(ends_->all()[i], size) : size;
        return {begin, end > begin ? end - begin : 0};
    }

 private:
    static void take(nb::handle given, std::optional<Offsets>& array, std::size_t count,
                     const char* what) {
        if (given.is_none()) return;
        array.emplace(given, what);
        if (array->all().size() != count)
            throw nb::value_error((std::string(what) + ": there must be as many as files").c_str());
    }
    static u64 inside(i64 position, u64 size) {
        const auto length = static_cast<i64>(size);
        return static_cast<u64>(
            std::clamp<i64>(position < 0 ? position + length : position, 0, length));
    }

    std::optional<Offsets> starts_;
    std::optional<Offsets> ends_;
};

/// A file and the address on the disk where it begins.
struct Place {
    u64 address;  // 0: unknown, in a hole, or in the inode
    u64 file;
    friend auto operator<=>(const Place&, const Place&) = default;
};

/// Sorts parts on all cores, and merges them. What has no address stays in order.
void sort_places(std::span<Place> places) {
    constexpr u64 part = 8192;
    if (std::ranges::is_sorted(places)) return;
    const auto at = [&](u64 i) { return places.begin() + static_cast<i64>(i); };
    briefly_on_all_cores(places.size(), part,
                         [&](u64 first, u64 last) { std::sort(at(first), at(last)); });
    for (u64 sorted = part; sorted < places.size(); sorted *= 2) {
        briefly_on_all_cores(places.size(), 2 * sorted, [&](u64 first, u64 last) {
            std::inplace_merge(at(first), at(std::min(first + sorted, last)), at(last));
        });
    }
}

/// A file, and where the part begins that is read.
struct FilePart {
    Handle file;
    u64 begin;
};

/// A list that all cores fill: a vector would be cleared first, by one of them.
template <class T>
    requires std::is_trivially_copyable_v<T>
class Unfilled {
 public:
    explicit Unfilled(std::size_t count)
        : memory_(std::make_unique_for_overwrite<std::byte[]>(count * sizeof(T))),
          items_(reinterpret_cast<T*>(memory_.get()), count) {}
    std::span<T> items() const { return items_; }

 private:
    std::unique_ptr<std::byte[]> memory_;
    std::span<T> items_;
};

/// The state of one read call.
struct Reading {
    explicit Reading(std::size_t count)
        : parts(count),
          codes(count),
          places(count),
          offsets(Array::make<i64>({static_cast<i64>(count) + 1})) {}

    Unfilled<FilePart> parts;
    std::vector<Errc> codes;
    Unfilled<Place> places;  // in the order in which they are to be read
    Array offsets;
};

/// Finds the files, and where in the buffer each of them is stored.
Reading measure(Shared& shared, const Files& files, const Ranges& ranges, const Start& start,
                LongCall& call) {
    const std::size_t count = files.size();
    Reading reading(count);
    i64* offsets = reading.offsets.data<i64>();
    offsets[0] = 0;
    const std::span<Place> places = reading.places.items();
    const Errc code = with_volume(shared, [&](Volume& volume, const Caller& caller) -> Errc {
        WARREN_LET(from, start.find(volume, caller));
        const auto take = [&](u64 i, const Result<Attributes>& file) {
            reading.codes[i] = check_file(volume, caller, file, 4);
            places[i] = {0, i};
            offsets[i + 1] = 0;
            if (reading.codes[i] != Errc::ok) return;
            const auto [begin, bytes] = ranges.of(i, file->size);
            reading.parts.items()[i] = {file->handle, begin};
            offsets[i + 1] = static_cast<i64>(bytes);
            if (file->blocks == 0) return;  // it is not on the disk by itself
            const Result<u64> address = volume.address_of(file->handle, begin);
            if (address) places[i].address = *address;
        };
        if (!files.find_each(call, volume, caller, *from, take)) return Errc::ok;
        sort_places(places);
        std::partial_sum(offsets, offsets + count + 1, offsets);
        return Errc::ok;
    });
    if (code != Errc::ok) raise_error(code, start.path());
    if (call.is_stopped()) call.finish(0);  // raises what has stopped it
    return reading;
}

/// Reads files: large ones one by one, small ones together.
void read_range(Volume& volume, Reading& reading, std::span<const Place> places, std::byte* base,
                const std::function<bool()>& goes_on) {
    const i64* offsets = reading.offsets.data<i64>();
    WARREN_CHECK(places.size() <= files_at_once);
    std::array<FileRead, files_at_once> small;
    std::array<u64, files_at_once> files;
    std::size_t count = 0;
    for (const auto [address, i] : places) {
        if (reading.codes[i] != Errc::ok || !goes_on()) continue;
        const auto [file, begin] = reading.parts.items()[i];
        const std::span target(base + offsets[i], static_cast<u64>(offsets[i + 1] - offsets[i]));
        if (target.size() > small_file_bytes) {
            reading.codes[i] = read_file(volume, file, begin, target, goes_on);
        } else {
            small[count] = {.file = file, .offset = begin, .target = target};
            files[count++] = i;
        }
    }
    volume.read_many(std::span(small).first(count));
    for (std::size_t k = 0; k < count; ++k) {
        const FileRead& read = small[k];
        reading.codes[files[k]] = read.done.code();
        if (!read.done) continue;
        const std::span rest = read.target.subspan(*read.done);  // the file has become shorter
        std::memset(rest.data(), 0, rest.size());
    }
}

void read_to_host(Shared& shared, Reading& reading, std::byte* base, LongCall& call) {
    with_volume(shared, [&](Volume& volume, const Caller&) {
        const std::span<const Place> places = reading.places.items();
        ranges_on_all_cores(call, places.size(), [&](u64 first, u64 last, bool is_caller) {
            read_range(volume, reading, places.subspan(first, last - first), base,
                       [&] { return is_caller ? call.goes_on(0) : !call.is_stopped(); });
        });
        return 0;
    });
}

/// Reads to the memory of a GPU.
void read_to_gpu(Shared& shared, Reading& reading, const GpuBytes& target, LongCall& call) {
    const Errc code = with_volume(shared, [&](Volume& volume, const Caller&) -> Errc {
        const i64* offsets = reading.offsets.data<i64>();
        const std::span<const Place> places = reading.places.items();
        const Unfilled<StagedRead> room(places.size());
        const std::span<StagedRead> reads = room.items();
        const auto for_each = [&](const auto& work) {
            briefly_on_all_cores(places.size(), 1024, [&](u64 first, u64 last) {
                for (u64 k = first; k < last; ++k)
                    work(reads[k], places[k]);
            });
        };
        for_each([&](StagedRead& read, const Place& place) {
            const u64 i = place.file;
            // Files that cannot be read have no bytes.
            const auto bytes = static_cast<u64>(offsets[i + 1] - offsets[i]);
            read = {};
            if (bytes == 0) return;
            const auto [file, begin] = reading.parts.items()[i];
            read.file = file;
            read.offset = begin;
            read.target = target.data + offsets[i];
            read.bytes = bytes;
            read.may_be_held = place.address != 0;
        });
        WARREN_TRY(read_many_to_gpu(volume, reads, target.gpu, target.stream, call));
        if (target.stream == own_stream) WARREN_TRY(wait_for_stream(target.gpu, own_stream));
        for_each([&](const StagedRead& read, const Place& place) {
            if (read.bytes > 0) reading.codes[place.file] = read.code;
        });
        return Errc::ok;
    });
    if (code != Errc::ok) raise_failure(gpu_failure(code), "");
}

/// An array of bytes in host memory, or in that of a GPU.
Array make_bytes(i64 count, std::optional<i32> gpu) {
    if (!gpu) return Array::make<u8>({count});
    Array made;
    const Errc code = take_gpu_memory([&] {
        const GilRelease release;
        return make_on_gpu(*gpu, type_of<u8>(), {count}, made);
    });
    if (code != Errc::ok) raise_failure(gpu_failure(code), "");
    return made;
}

nb::tuple read_many(NativeVolume& self, nb::handle given, nb::handle directory, nb::handle starts,
                    nb::handle ends, nb::object out, std::optional<i32> gpu,
                    std::optional<u64> stream, bool strict, nb::object progress) {
    (*self).refuse_forked();  // before torch is asked for its arrays, which fails there as well
    const Files files(given);
    const Start start(directory);
    Bytes room;
    if (!out.is_none())
        room = array_in<Bytes>(out, "out", "a writable, contiguous uint8 array of one dimension");
    const Ranges ranges(starts, ends, files.size());
    std::optional<GpuBytes> target;
    if (!out.is_none()) target = gpu_bytes(room, stream, "out");
    if (out.is_none() && stream) throw nb::value_error("stream: it needs `out` on a GPU");
    LongCall call(std::move(progress));
    Reading reading = measure(*self, files, ranges, start, call);
    const i64 total = reading.offsets.data<i64>()[files.size()];
    if (!out.is_none() && static_cast<i64>(room.shape(0)) < total)
        throw nb::value_error(("out: the files have " + std::to_string(total) +
                               " bytes, there is "
                               "room for " +
                               std::to_string(room.shape(0)))
                                  .c_str());
    const Array values = out.is_none() ? make_bytes(total, gpu) : Array();
    auto* base =
        out.is_none() ? values.data<std::byte>() : reinterpret_cast<std::byte*>(room.data());
    if (out.is_none() && gpu) target = GpuBytes{base, values.size_bytes(), *gpu, own_stream};
    if (target) {
        read_to_gpu(*self, reading, *target, call);
    } else {
        read_to_host(*self, reading, base, call);
    }
    call.finish(files.size());
    if (strict) files.raise_first(reading.codes);
    const nb::object shown = out.is_none() ? nb::cast(values) : out;
    return nb::make_tuple(shown, reading.offsets, array_of(reading.codes));
}

}  // namespace

void add_bulk_contents(VolumeClass& volume) {
    using nb::arg;
    volume.def("read_many", &read_many, arg(), arg().none(), arg().none(), arg().none(),
               arg().none(), arg().none(), arg().none(), arg(), arg().none());
}

}  // namespace warren::python
