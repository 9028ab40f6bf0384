// SPDX-License-Identifier: Apache-2.0
// Duplicate data: files are split into chunks, chunks are identified by their digests, and an index
// of these digests can be saved.
//
// Invariant: among equal chunks the first in input order is the original, whatever the number of
// threads.
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

/// 128 bits that identify a chunk: the first bits of its digest, or of a keyed hash of the digest.
struct Key {
    u64 low = 0;
    u64 high = 0;
    auto operator<=>(const Key&) const = default;
};

/// An entry of the index.
struct Entry {
    Key key;
    u64 place = 0;  // offset of the first occurrence in the sequence of all inputs
    u32 length = 0;
    u32 count = 0;  // occurrences, the first included; stops at the maximum
    bool operator==(const Entry&) const = default;
};

/// A chunk to be looked up or added.
struct Chunk {
    Key key;
    u64 place = 0;
    u32 length = 0;
};

/// An input to which places refer: its bytes are at [base, base + size).
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
        std::string secret = {};            // key of the index; empty: unkeyed digests
        u64 memory_bytes = 0;               // maximum memory for entries at any time; 0: no limit
        std::string spill_folder = "/tmp";  // for entries beyond the limit
    };

    Index();
    ~Index();
    Index(Index&&) noexcept;
    Index& operator=(Index&&) noexcept;

    /// Creates an empty index. Errc::invalid if memory_bytes is below 1 MiB but not 0.
    Errc open(const Options& options);
    /// Loads an index written by save(). Errc::no_entry: there is no such file. Errc::corrupt: its
    /// bytes have changed since. Errc::access: it was keyed with another secret. Errc::invalid: it
    /// was made with another algorithm.
    Errc load(const std::string& path, const Options& options);
    /// Writes the index and atomically replaces the file: after a crash it holds the old index or
    /// this one.
    Errc save(const std::string& path) const;

    /// The key that corresponds to a digest of this index's algorithm.
    Key key_of(std::span<const u8> digest) const;

    /// Adds the chunks in order. found[i] receives the entry after chunk i was added; its place
    /// equals chunks[i].place if the chunk is the first with its key. Errc::io if the spill file
    /// cannot be written.
    Errc add(std::span<const Chunk> chunks, std::span<Entry> found);
    /// The entry with this key, if there is one.
    std::optional<Entry> find(const Key& key) const;

    u64 entries() const;
    u64 memory_bytes() const;
    u64 spilled_entries() const;
    /// All entries, sorted by key.
    std::vector<Entry> sorted() const;

    /// The inputs so far; the next one begins at next_place().
    const std::vector<Source>& sources() const;
    u64 next_place() const;
    /// Adds an input of `size` bytes and returns its base.
    u64 add_source(std::string path, u64 size);
    /// Forgets sources()[number], before it is read again: from then on chunks first seen in it are
    /// unknown, and neither they nor the source are saved.
    void forget_source(size_t number);
    /// The input that contains a place; null if there is none or it was forgotten.
    const Source* source_of(u64 place) const;

 private:
    class State;
    std::unique_ptr<State> state_;
};

/// How files are split: into equal blocks or by a rule.
struct Splitter {
    u64 block_bytes = 4 * kib;  // 0: split by `rule`
    chunk::Rule rule;
    hash::Algorithm algorithm = hash::Algorithm::blake3;
    u32 threads = 0;
    hash::Processor processor = hash::Processor::cpu;  // cuts and digests
};

/// One chunk of a file, valid during the call.
struct FileChunk {
    u64 offset;
    std::span<const std::byte> bytes;
    std::span<const u8> digest;
    bool is_zero;  // all its bytes are zero
};

/// What a ChunkReader has done so far.
struct ReadWork {
    u64 gpu_bytes = 0;       // cut and digested by the GPU
    double gpu_seconds = 0;  // seconds that this took, including the allocation of memory
    u64 asked_bytes = 0;     // bytes for which the time was predicted
    double predicted_cpu_seconds = 0;
    double predicted_gpu_seconds = 0;
    double startup_seconds = 0;  // until the GPU was ready, before the prediction
    std::string note;            // why the CPU was used although a GPU was requested
};

/// Reads files as chunks, one file after the other, and reuses memory, threads and the GPU. With
/// Processor::automatic the CPU begins. After 128 MiB its rate is known, and the GPU takes over the
/// rest of a file of 256 MiB or more if it is predicted to finish first. An object may be used by
/// one thread at a time.
class ChunkReader {
 public:
    using Visit = std::function<bool(std::span<const FileChunk>)>;

    ChunkReader();
    ~ChunkReader();
    ChunkReader(ChunkReader&&) noexcept;
    ChunkReader& operator=(ChunkReader&&) noexcept;

    /// Errc::invalid: the rule is invalid. Errc::no_device: Processor::gpu without a GPU.
    Errc open(const Splitter& splitter);
    /// Reads `descriptor` from its current position to its end, or `most_bytes` of it, and calls
    /// `visit` with the chunks in order, several per call. Their offsets count from that position.
    /// If `visit` returns false, reading stops and Errc::canceled is returned; otherwise the error
    /// of reading, if any. If the GPU fails, the CPU continues.
    Errc read(int descriptor, const Visit& visit, u64 most_bytes = ~u64{0});
    /// Fills a buffer with the next bytes of a file and returns their number; 0 at the end.
    using Input = std::function<Result<u64>(std::span<std::byte>)>;
    /// Like the above for a file that is read through `input`; `size` is its expected length.
    Errc read(const Input& input, u64 size, const Visit& visit);
    const ReadWork& work() const;

 private:
    class Implementation;
    std::unique_ptr<Implementation> implementation_;
};

/// Opens a ChunkReader and reads one file with it.
Errc read_chunks(int descriptor, const Splitter& splitter, const ChunkReader::Visit& visit,
                 u64 most_bytes = ~u64{0});

/// Whether equal digests do not prove that the bytes are equal: collisions of MD5 and SHA-1 can be
/// made easily, and XXH3 was not designed to resist them.
bool needs_comparison(hash::Algorithm algorithm);

/// Compares chunks with the bytes of their originals.
class Originals {
 public:
    Originals() = default;
    ~Originals();
    Originals(const Originals&) = delete;
    Originals& operator=(const Originals&) = delete;

    /// Whether the source contains these bytes at `offset` at present; false if it cannot be read.
    bool equal(const Source& source, u64 offset, std::span<const std::byte> bytes);

 private:
    void close();

    int file_ = -1;
    std::string path_;
    std::vector<std::byte> buffer_;
};

}  // namespace warren::dedup
