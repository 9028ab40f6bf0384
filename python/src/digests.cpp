// SPDX-License-Identifier: Apache-2.0
// Digests of files, and their content-defined chunks. Files are read on all cores and digested many
// at a time; a file larger than the buffer is processed in parts.
#include "base/workers.hpp"
#include "python/src/files.hpp"
#include "python/src/gpu_memory.hpp"
#include "warren/chunk.hpp"
#include "warren/hash.hpp"

namespace warren::python {
namespace {

using ReadBytes = nb::ndarray<const u8, nb::ndim<1>, nb::c_contig>;

constexpr u64 buffer_bytes_max = 32 * mib;

hash::Algorithm algorithm_of(const std::string& name) {
    const auto algorithm = hash::algorithm_by_name(name);
    if (!algorithm) throw nb::value_error(("algorithm: there is no '" + name + "'").c_str());
    return *algorithm;
}

/// Reads until `target` is full or the file ends. Returns the number of bytes.
Result<u64> read_fully(Volume& volume, Handle file, u64 offset, std::span<std::byte> target) {
    u64 done = 0;
    while (done < target.size()) {
        const Result<u64> got = volume.read(file, offset + done, target.subspan(done));
        if (!got) return got;
        if (*got == 0) break;
        done += *got;
    }
    return done;
}

/// Digests files of a volume, one batch after the other.
class Hasher {
 public:
    Hasher(Volume& volume, hash::Algorithm algorithm, LongCall& call)
        : volume_(volume),
          algorithm_(algorithm),
          digest_bytes_(hash::digest_bytes(algorithm)),
          call_(call) {}

    /// Digests the files whose code is ok. Requires: `codes` has an element for each file, and
    /// `digests` has digest_bytes() bytes for each.
    void run(std::span<const Result<Attributes>> files, std::span<Errc> codes, u8* digests) {
        codes_ = codes;
        digests_ = digests;
        u64 bytes = 0;
        for (u64 i = 0; i < files.size(); ++i) {
            sizes_.push_back(codes[i] == Errc::ok ? files[i]->size : 0);
            bytes = std::min(bytes + std::min(sizes_[i], buffer_bytes_max), buffer_bytes_max);
        }
        buffer_.resize(bytes);
        Workers workers(0);
        for (u64 begin = 0; begin < files.size() && call_.goes_on(begin);) {
            const u64 end = next_batch(begin);
            if (end == begin) {
                hash_long(files[begin]->handle, begin);
                ++begin;
                continue;
            }
            hash_batch(workers, files, begin, end);
            begin = end;
        }
    }

 private:
    /// The end of the longest run of files from `begin` on that fits into the buffer; `begin` if
    /// the first file does not fit.
    u64 next_batch(u64 begin) const {
        u64 bytes = 0;
        u64 end = begin;
        while (end < sizes_.size() && bytes + sizes_[end] <= buffer_.size())
            bytes += sizes_[end++];
        return end;
    }

    void hash_batch(Workers& workers, std::span<const Result<Attributes>> files, u64 begin,
                    u64 end) {
        std::vector<hash::Bytes> pieces(end - begin);
        u64 used = 0;
        for (u64 i = begin; i < end; ++i) {
            pieces[i - begin] = std::span(buffer_).subspan(used, sizes_[i]);
            used += sizes_[i];
        }
        workers.run_ranges(end - begin, 16, [&](u64 first, u64 last, u32) {
            for (u64 i = first; i < last; ++i)
                read_piece(files[begin + i]->handle, begin + i, pieces[i]);
        });
        std::vector<u8> digests((end - begin) * digest_bytes_);
        const Errc code =
            hash::hash_many(algorithm_, pieces, digests, {.processor = hash::Processor::cpu});
        for (u64 i = begin; i < end; ++i) {
            if (codes_[i] == Errc::ok) codes_[i] = code;
            if (codes_[i] != Errc::ok) continue;
            std::copy_n(&digests[(i - begin) * digest_bytes_], digest_bytes_,
                        digests_ + i * digest_bytes_);
        }
    }
    void read_piece(Handle file, u64 i, hash::Bytes& piece) {
        if (codes_[i] != Errc::ok) return;
        codes_[i] = volume_.open_file(file);
        if (codes_[i] != Errc::ok) return;
        const std::span room(const_cast<std::byte*>(piece.data()), piece.size());
        const Result<u64> got = read_fully(volume_, file, 0, room);
        static_cast<void>(volume_.release(file));
        codes_[i] = got.code();
        if (got) piece = piece.first(*got);
    }

    void hash_long(Handle file, u64 i) {
        codes_[i] = volume_.open_file(file);
        if (codes_[i] != Errc::ok) return;
        hash::Stream stream(algorithm_, 0);
        for (u64 offset = 0; call_.goes_on(i);) {
            const Result<u64> got = read_fully(volume_, file, offset, buffer_);
            codes_[i] = got.code();
            if (!got) break;
            stream.update(std::span(buffer_).first(*got));
            offset += *got;
            if (*got == buffer_.size()) continue;
            stream.finish({digests_ + i * digest_bytes_, digest_bytes_});
            break;
        }
        static_cast<void>(volume_.release(file));
    }

    Volume& volume_;
    hash::Algorithm algorithm_;
    u32 digest_bytes_;
    LongCall& call_;
    std::vector<std::byte> buffer_;
    std::span<Errc> codes_;
    u8* digests_ = nullptr;
    std::vector<u64> sizes_;
};

/// Returns uint8[n, w], with zeros where there is an error, and int32[n].
nb::tuple hash_files(NativeVolume& self, nb::handle given, nb::handle directory,
                     const std::string& algorithm_name, bool strict, nb::object progress) {
    const hash::Algorithm algorithm = algorithm_of(algorithm_name);
    const Files files(given);
    const Start start(directory);
    std::vector<Errc> codes(files.size());
    const Array digests = Array::make<u8>(
        {static_cast<i64>(files.size()), static_cast<i64>(hash::digest_bytes(algorithm))});
    std::fill_n(digests.data<u8>(), digests.size_bytes(), u8{0});
    LongCall call(std::move(progress));
    const Errc code = with_volume(*self, [&](Volume& volume, const Caller& caller) -> Errc {
        WARREN_LET(from, start.find(volume, caller));
        std::vector<Result<Attributes>> found(files.size(), Errc::io);
        const auto take = [&](u64 i, const Result<Attributes>& file) {
            found[i] = file;
            codes[i] = check_file(volume, caller, file, 4);
        };
        if (!files.find_each(call, volume, caller, *from, take)) return Errc::ok;
        Hasher(volume, algorithm, call).run(found, codes, digests.data<u8>());
        return Errc::ok;
    });
    if (code != Errc::ok) raise_error(code, start.path());
    call.finish(files.size());
    if (strict) files.raise_first(codes);
    return nb::make_tuple(digests, array_of(codes));
}

/// Returns the ends of the chunks, int64[n], in the memory where the bytes are.
Array chunk_ends(nb::handle given, const std::string& preset) {
    const auto data =
        array_in<ReadBytes>(given, "data", "a contiguous uint8 array of one dimension",
                            Maker::awaited);
    const auto on_gpu = gpu_bytes(data, std::nullopt, "data");
    const Result<chunk::Rule> rule = chunk::preset(preset);
    if (!rule) throw nb::value_error(("preset: there is no '" + preset + "'").c_str());
    const std::string problem = chunk::describe_problem(*rule);
    if (!problem.empty()) throw nb::value_error(("preset: " + problem).c_str());
    const std::span bytes(reinterpret_cast<const std::byte*>(data.data()), data.shape(0));
    std::vector<u64> ends;
    const auto cut = [&] {
        const GilRelease release;
        ends.clear();
        if (on_gpu) return cut_on_gpu(*rule, *on_gpu, ends);
        ends = chunk::cut(*rule, bytes);
        return Errc::ok;
    };
    const Errc code = on_gpu ? take_gpu_memory(cut) : cut();
    if (code != Errc::ok) raise_failure(gpu_failure(code), "");
    const Array cuts = Array::of(std::vector<i64>(ends.begin(), ends.end()));
    return on_gpu ? cuts.on_gpu(on_gpu->gpu) : cuts;
}

}  // namespace

void add_digests(nb::module_& module, VolumeClass& volume) {
    using nb::arg;
    volume.def("hash", &hash_files, arg(), arg().none(), arg(), arg(), arg().none());
    module.def("chunk", &chunk_ends, arg().none(), arg());
}

}  // namespace warren::python
