// SPDX-License-Identifier: Apache-2.0
// Which bytes of files are also in other files, chunk by chunk, and sharing of equal blocks.
//
// Files are processed one after the other; among equal chunks the first is the original. Chunks of
// zeros are counted separately: they are common everywhere and do not indicate similarity.
#include <algorithm>
#include <unordered_set>

#include "python/src/files.hpp"
#include "warren/dedup.hpp"

namespace warren::python {
namespace {

constexpr u64 block_bytes = 4096;
/// Shorter runs of equal blocks are not shared, because they would divide files into many extents.
constexpr u64 run_bytes_min = 32 * kib;

/// How many bytes of a file are found elsewhere.
struct Likeness {
    u64 bytes = 0;
    u64 zero_bytes = 0;
    u64 in_previous = 0;  // in the file before it
    u64 in_earlier = 0;   // in any file before it
    u64 in_self = 0;      // in an earlier part of the file, and in no file before it
    u64 shared_bytes = 0;
    i64 most_like = -1;  // the file with most of the originals
};

/// Bytes of a file that are equal to those of an earlier one.
struct Run {
    u64 file = 0;
    u64 offset = 0;
    u64 original = 0;
    u64 original_offset = 0;
    u64 length = 0;

    bool continues(const Run& last) const {
        return last.file == file && last.original == original &&
               last.offset + last.length == offset &&
               last.original_offset + last.length == original_offset;
    }
};

struct HashKey {
    std::size_t operator()(const dedup::Key& key) const { return key.low; }
};
using Keys = std::unordered_set<dedup::Key, HashKey>;

class Comparison {
 public:
    Comparison(Volume& volume, const dedup::Splitter& splitter, LongCall& call)
        : volume_(volume), splitter_(splitter), call_(call) {}

    Errc open() {
        WARREN_TRY(reader_.open(splitter_));
        return index_.open({.algorithm = splitter_.algorithm});
    }

    /// Reads the next file.
    Errc add(Handle file, u64 size, Likeness& likeness) {
        base_ = index_.next_place();
        likeness_ = &likeness;
        votes_.assign(bases_.size() + 1, 0);
        own_.clear();
        bases_.push_back(base_);
        Errc code = volume_.open_file(file);
        if (code == Errc::ok) {
            code = read(file, size);
            static_cast<void>(volume_.release(file));
        }
        index_.add_source({}, likeness.bytes);
        std::swap(own_, previous_);
        const auto most = std::ranges::max_element(votes_);
        if (*most > 0) likeness.most_like = most - votes_.begin();
        return code;
    }
    const std::vector<Run>& runs() const { return runs_; }

 private:
    Errc read(Handle file, u64 size) {
        u64 offset = 0;
        const auto input = [&](std::span<std::byte> target) -> Result<u64> {
            const Result<u64> count = volume_.read(file, offset, target);
            if (count) offset += *count;
            return count;
        };
        Errc failure = Errc::ok;
        const Errc code = reader_.read(input, size, [&](std::span<const dedup::FileChunk> chunks) {
            failure = call_.goes_on(bases_.size() - 1) ? look_up(chunks) : Errc::canceled;
            return failure == Errc::ok;
        });
        return failure != Errc::ok ? failure : code;
    }

    Errc look_up(std::span<const dedup::FileChunk> chunks) {
        std::vector<dedup::Chunk> wanted;
        for (const dedup::FileChunk& chunk : chunks) {
            likeness_->bytes += chunk.bytes.size();
            if (chunk.is_zero) {
                likeness_->zero_bytes += chunk.bytes.size();
                continue;
            }
            wanted.push_back({index_.key_of(chunk.digest), base_ + chunk.offset,
                              static_cast<u32>(chunk.bytes.size())});
        }
        std::vector<dedup::Entry> found(wanted.size());
        WARREN_TRY(index_.add(wanted, found));
        for (u64 i = 0; i < wanted.size(); ++i)
            note(wanted[i], found[i]);
        return Errc::ok;
    }

    void note(const dedup::Chunk& chunk, const dedup::Entry& entry) {
        if (previous_.contains(chunk.key)) likeness_->in_previous += chunk.length;
        own_.insert(chunk.key);
        if (entry.place == chunk.place || entry.length != chunk.length) return;
        if (entry.place >= base_) {
            likeness_->in_self += chunk.length;
            return;
        }
        likeness_->in_earlier += chunk.length;
        const auto after = std::ranges::upper_bound(bases_, entry.place);
        const auto original = static_cast<u64>(after - bases_.begin()) - 1;
        votes_[original] += chunk.length;
        if (chunk.length != block_bytes) return;
        const Run run{bases_.size() - 1, chunk.place - base_, original,
                      entry.place - bases_[original], chunk.length};
        if (!runs_.empty() && run.continues(runs_.back())) {
            runs_.back().length += run.length;
        } else {
            runs_.push_back(run);
        }
    }

    Volume& volume_;
    const dedup::Splitter& splitter_;
    LongCall& call_;
    dedup::ChunkReader reader_;
    dedup::Index index_;
    std::vector<u64> bases_;  // of the files so far
    std::vector<Run> runs_;
    Keys previous_;
    // State of the current file.
    u64 base_ = 0;
    Likeness* likeness_ = nullptr;
    std::vector<u64> votes_;
    Keys own_;
};

/// Makes both files of a run refer to the same blocks.
Errc share_run(Volume& volume, const Run& run, Handle original, Handle file, u64& shared) {
    WARREN_TRY(volume.open_file(original));
    Errc code = volume.open_file(file);
    if (code == Errc::ok) {
        const auto done = volume.share_range(original, run.original_offset, file, run.offset,
                                             run.length, Stamp::no);
        if (done) shared += *done;
        code = done.code();
        static_cast<void>(volume.release(file));
    }
    static_cast<void>(volume.release(original));
    return code;
}

dedup::Splitter splitter_of(u64 fixed_bytes, const std::string& preset) {
    dedup::Splitter splitter;
    splitter.block_bytes = fixed_bytes;
    if (fixed_bytes > gib) throw nb::value_error("block_bytes: at most 1 GiB");
    if (preset.empty()) {
        if (fixed_bytes == 0) throw nb::value_error("block_bytes: 1 or more are needed");
        return splitter;
    }
    const Result<chunk::Rule> rule = chunk::preset(preset);
    if (!rule) throw nb::value_error(("preset: there is no '" + preset + "'").c_str());
    const std::string problem = chunk::describe_problem(*rule);
    if (!problem.empty()) throw nb::value_error(("preset: " + problem).c_str());
    splitter.block_bytes = 0;
    splitter.rule = *rule;
    return splitter;
}

nb::dict columns_of(std::span<const Likeness> rows, std::span<const Errc> codes) {
    nb::dict answer;
    const auto add = [&](const char* name, auto member) {
        const Array array = Array::make<i64>({static_cast<i64>(rows.size())});
        std::ranges::transform(rows, array.data<i64>(),
                               [&](const Likeness& row) { return static_cast<i64>(row.*member); });
        answer[name] = array;
    };
    add("bytes", &Likeness::bytes);
    add("zero_bytes", &Likeness::zero_bytes);
    add("in_previous", &Likeness::in_previous);
    add("in_earlier", &Likeness::in_earlier);
    add("in_self", &Likeness::in_self);
    add("most_like", &Likeness::most_like);
    add("shared_bytes", &Likeness::shared_bytes);
    answer["errno"] = array_of(codes);
    return answer;
}

nb::dict compare(NativeVolume& self, nb::handle given, nb::handle directory, u64 fixed_bytes,
                 const std::string& preset, bool shares, bool strict, nb::object progress) {
    const dedup::Splitter splitter = splitter_of(fixed_bytes, preset);
    const Files files(given);
    const Start start(directory);
    std::vector<Likeness> rows(files.size());
    std::vector<Errc> codes(files.size());
    LongCall call(std::move(progress));
    const auto work = [&](Volume& volume, const Caller& caller) -> Errc {
        WARREN_LET(from, start.find(volume, caller));
        std::vector<Result<Attributes>> found(files.size(), Errc::io);
        const auto take = [&](u64 i, const Result<Attributes>& file) {
            found[i] = file;
            codes[i] = check_file(volume, caller, file, shares ? 6 : 4);
        };
        if (!files.find_each(call, volume, caller, *from, take)) return Errc::ok;
        Comparison comparison(volume, splitter, call);
        WARREN_TRY(comparison.open());
        for (u64 i = 0; i < found.size() && call.goes_on(i); ++i) {
            const Handle file = codes[i] == Errc::ok ? found[i]->handle : Handle{};
            const u64 size = codes[i] == Errc::ok ? found[i]->size : 0;
            // A file that cannot be opened counts as empty, so that rows and files correspond.
            const Errc code = comparison.add(file, size, rows[i]);
            if (codes[i] == Errc::ok) codes[i] = code;
        }
        for (const Run& run : comparison.runs()) {
            if (!shares || !call.goes_on(files.size())) break;
            if (run.length < run_bytes_min || codes[run.original] != Errc::ok ||
                codes[run.file] != Errc::ok ||
                found[run.original]->handle == found[run.file]->handle)
                continue;
            codes[run.file] = share_run(volume, run, found[run.original]->handle,
                                        found[run.file]->handle, rows[run.file].shared_bytes);
        }
        return Errc::ok;
    };
    const Errc code = with_volume(*self, work);
    if (code != Errc::ok) raise_error(code, start.path());
    call.finish(files.size());
    if (strict) files.raise_first(codes);
    return columns_of(rows, codes);
}

}  // namespace

void add_similar(VolumeClass& volume) {
    using nb::arg;
    volume.def("compare", &compare, arg(), arg().none(), arg(), arg(), arg(), arg(), arg().none());
}

}  // namespace warren::python
