// SPDX-License-Identifier: Apache-2.0
// Duplicate data: files cut into chunks, chunks identified by their digests, and an index of them
// that can be saved.
//
// Invariant: of equal chunks the first in the order of the input is the original, whatever the
// number of threads.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "warren/chunk.hpp"
#include "warren/hash.hpp"

namespace warren::dedup {

/// 128 bits that identify a chunk: the beginning of its digest, or of a keyed hash of the digest.
struct Key {
    u64 low = 0;
    u64 high = 0;
    auto operator<=>(const Key&) const = default;
};

/// An entry of the index.
struct Entry {
    Key key;
    u64 place = 0;  // of the first occurrence, in the order of all input
    u32 length = 0;
    u32 count = 0;  // of occurrences, the first included; it saturates
    bool operator==(const Entry&) const = default;
};

/// A chunk to be looked up or added.
struct Chunk {
    Key key;
    u64 place = 0;
    u32 length = 0;
};

/// One input that places refer to: [base, base + size) are its bytes.
struct Source {
    u64 base = 0;
    u64 size = 0;
    std::string path;
    bool is_forgotten = false;  // see Index::forget_source()
    bool operator==(const Source&) const = default;
};

class Index {
 public:
    struct Options {
        hash::Algorithm algorithm = hash::Algorithm::blake3;
        std::string secret = {};            // keys the index; empty: keys are truncated digests
        u64 memory_bytes = 0;               // for entries, at any time; 0: no limit
        std::string spill_folder = "/tmp";  // for entries beyond the limit
    };

    Index();
    ~Index();
    Index(Index&&) noexcept;
    Index& operator=(Index&&) noexcept;

    /// An empty index. Errc::invalid for a limit below 1 MiB that is not 0.
    Errc open(const Options& options);
    /// Loads an index that save() wrote. Errc::no_entry if there is no file, Errc::corrupt if its
    /// bytes have changed since, Errc::access if it was keyed with another secret, Errc::invalid if
    /// its algorithm is another.
    Errc load(const std::string& path, const Options& options);
    /// Replaces the file atomically: after a crash it holds the old index or this one.
    Errc save(const std::string& path) const;

    /// The key of a digest of this index's algorithm.
    Key key_of(std::span<const u8> digest) const;

    /// Adds the chunks in their order. found[i] is the entry including chunk i: its place is
    /// chunks[i].place if the chunk is the first of its key. Errc::io if the spill cannot be
    /// written.
    Errc add(std::span<const Chunk> chunks, std::span<Entry> found);
    /// The entry of a key.
    std::optional<Entry> find(const Key& key) const;

    u64 entries() const;
    u64 memory_bytes() const;
    u64 spilled_entries() const;
    /// All entries, by key.
    std::vector<Entry> sorted() const;

    /// The inputs so far; places of the next one begin at next_place().
    const std::vector<Source>& sources() const;
    u64 next_place() const;
    /// Adds an input of `size` bytes and returns its base.
    u64 add_source(std::string path, u64 size);
    /// Forgets sources()[number], before it is read again: chunks first seen there are unknown from
    /// now on, and neither they nor the source are saved.
    void forget_source(size_t number);
    /// The input that a place lies in; null if it is in none, or in a forgotten one.
    const Source* source_of(u64 place) const;

 private:
    class State;
    std::unique_ptr<State> state_;
};

/// How files are cut: into equal blocks, or by a rule.
struct Splitter {
    u64 block_bytes = 4 * kib;  // 0: by the rule
    chunk::Rule rule;
    hash::Algorithm algorithm = hash::Algorithm::blake3;
    u32 threads = 0;
    hash::Processor processor = hash::Processor::cpu;  // that cuts and digests
};

/// One chunk of a file, valid during the call.
struct FileChunk {
    u64 offset;
    std::span<const std::byte> bytes;
    std::span<const u8> digest;
    bool is_zero;  // all its bytes are zero
};

/// The work of a ChunkReader so far.
struct ReadWork {
    u64 gpu_bytes = 0;       // cut and digested by the GPU
    double gpu_seconds = 0;  // that it took, its memory included
    u64 asked_bytes = 0;     // for which the model was asked, and what it said
    double predicted_cpu_seconds = 0;
    double predicted_gpu_seconds = 0;
    double startup_seconds = 0;  // that the process waited for the GPU before it was asked
    std::string note;            // why the CPU worked although a GPU was asked for
};

/// Reads files into chunks, one after the other; memory, threads and the GPU are kept between
/// files. With Processor::automatic the CPU begins; after 128 MiB its rate is known, and the GPU
/// takes the rest of a file of 256 MiB or more if it is predicted to finish first.
class ChunkReader {
 public:
    using Visit = std::function<bool(std::span<const FileChunk>)>;

    ChunkReader();
    ~ChunkReader();
    ChunkReader(ChunkReader&&) noexcept;
    ChunkReader& operator=(ChunkReader&&) noexcept;

    /// Errc::invalid for a bad rule, Errc::no_device for Processor::gpu without a GPU.
    Errc open(const Splitter& splitter);
    /// Reads `descriptor` from its position to its end, or `most_bytes` of it, and calls `visit`
    /// with its chunks, several at a time, in order; offsets count from that position. `visit`
    /// returns whether to continue. Errc::canceled if it returned false, else the error of reading.
    /// If the GPU fails the CPU continues.
    Errc read(int descriptor, const Visit& visit, u64 most_bytes = ~u64{0});
    /// Fills a buffer with the next bytes of a file and returns how many; 0: there are no more.
    using Input = std::function<Result<u64>(std::span<std::byte>)>;
    /// The same for a file that `input` reads; `size` is how long it is expected to be.
    Errc read(const Input& input, u64 size, const Visit& visit);
    const ReadWork& work() const;

 private:
    class Implementation;
    std::unique_ptr<Implementation> implementation_;
};

/// The same for one file.
Errc read_chunks(int descriptor, const Splitter& splitter, const ChunkReader::Visit& visit,
                 u64 most_bytes = ~u64{0});

/// Whether equal digests do not prove equal bytes: collisions of MD5 and SHA-1 are easy to make,
/// and XXH3 was never meant to resist them.
bool needs_comparison(hash::Algorithm algorithm);

/// Compares chunks with the bytes of their originals.
class Originals {
 public:
    Originals() = default;
    ~Originals();
    Originals(const Originals&) = delete;
    Originals& operator=(const Originals&) = delete;

    /// Whether the source has these bytes at `offset` now; false if it cannot be read.
    bool equal(const Source& source, u64 offset, std::span<const std::byte> bytes);

 private:
    void close();

    int file_ = -1;
    std::string path_;
    std::vector<std::byte> buffer_;
};

}  // namespace warren::dedup
