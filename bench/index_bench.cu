// SPDX-License-Identifier: Apache-2.0
// Should the commands' chunk index be in device memory? A batch of chunks as `warren dedup` makes
// one is added to indexes of different sizes: by the CPU's index; by the device's, with keys that
// come from the host and answers that go back; and by the device's with all of it in place. Beside
// them what digesting that batch takes on the CPU, since that is what an index adds to. `items` are
// chunks of 4 KiB, half of them known.
#include <string>
#include <vector>

#include "base/random.hpp"
#include "bench/support/report.hpp"
#include "dedup/cuda/device_index.hpp"
#include "gpu/device.hpp"
#include "gpu/failure.hpp"
#include "warren/hash.hpp"

namespace {

using namespace warren;
using namespace warren::dedup;

constexpr u64 batch_chunks = 32 * kib;  // the 128 MiB that a command gives a GPU at a time
constexpr u64 chunk_bytes = 4 * kib;
constexpr int runs = 7;

void need(Errc code, const char* what) {
    bench::require(code == Errc::ok, std::string(what) + ": " + gpu::last_failure().message);
}

/// The chunk at a place, the same whenever it is asked for; its key does not depend on neighbours.
Chunk chunk_at(u64 place) {
    Random random(place);
    return {{random.next(), random.next()}, place, chunk_bytes};
}

/// Both indexes, filled alike.
class Pair {
 public:
    explicit Pair(u64 entries) : known_(entries), next_(entries) {
        const u64 most = entries + runs * batch_chunks;
        need(stream_.open(), "stream");
        need(host_.open({}), "index");
        need(device_.open(most, stream_), "device index");
        need(keys_.allocate(batch_chunks), "keys");
        need(places_.allocate(batch_chunks), "places");
        need(lengths_.allocate(batch_chunks), "lengths");
        need(originals_.allocate(batch_chunks), "originals");
        std::vector<Chunk> chunks;
        for (u64 place = 0; place < entries; ++place) {
            chunks.push_back(chunk_at(place));
            if (chunks.size() < batch_chunks && place + 1 < entries) continue;
            add_to_host(chunks);
            add_to_device(chunks);
            chunks.clear();
        }
    }

    /// Half of the chunks are known ones from all over the index.
    std::vector<Chunk> next_batch() {
        std::vector<Chunk> chunks;
        Random random(next_);
        for (u64 at = 0; at < batch_chunks; ++at) {
            Chunk chunk = chunk_at(at % 2 == 0 ? next_ + at : random.below(known_));
            chunk.place = next_ + at;
            chunks.push_back(chunk);
        }
        next_ += batch_chunks;
        return chunks;
    }

    void add_to_host(const std::vector<Chunk>& chunks) {
        found_.resize(chunks.size());
        need(host_.add(chunks, found_), "adding");
    }

    void add_to_device(const std::vector<Chunk>& chunks) {
        split(chunks);
        const u64 count = chunks.size();
        need(stream_.copy(keys_.data(), host_keys_.data(), count * sizeof(Key)), "keys");
        need(stream_.copy(places_.data(), host_places_.data(), count * sizeof(u64)), "places");
        need(stream_.copy(lengths_.data(), host_lengths_.data(), count * sizeof(u32)), "lengths");
        add_in_place(count);
        host_originals_.resize(count);
        need(stream_.copy(host_originals_.data(), originals_.data(), count * sizeof(u64)),
             "result");
        need(stream_.wait(), "adding");
    }

    /// What the last batch left in device memory, once more.
    void add_in_place(u64 count) {
        need(device_.add({keys_.data(), places_.data(), lengths_.data(), count}, originals_.data(),
                         stream_),
             "adding");
    }

    void wait() { need(stream_.wait(), "adding"); }

    /// Whether both gave the same answers for the last batch.
    bool is_same() const {
        for (u64 at = 0; at < found_.size(); ++at) {
            if (found_[at].place != host_originals_[at]) return false;
        }
        return true;
    }

 private:
    void split(const std::vector<Chunk>& chunks) {
        host_keys_.clear();
        host_places_.clear();
        host_lengths_.clear();
        for (const Chunk& chunk : chunks) {
            host_keys_.push_back(chunk.key);
            host_places_.push_back(chunk.place);
            host_lengths_.push_back(chunk.length);
        }
    }

    u64 known_;
    u64 next_;
    gpu::Stream stream_;
    Index host_;
    dedup::cuda::DeviceIndex device_;
    std::vector<Entry> found_;
    std::vector<Key> host_keys_;
    std::vector<u64> host_places_;
    std::vector<u32> host_lengths_;
    std::vector<u64> host_originals_;
    gpu::DeviceBuffer<Key> keys_;
    gpu::DeviceBuffer<u64> places_;
    gpu::DeviceBuffer<u32> lengths_;
    gpu::DeviceBuffer<u64> originals_;
};

void measure(bench::Report& report, u64 entries) {
    const std::string scenario = "index of " + std::to_string(entries / mib) + " Mi chunks";
    Pair pair(entries);
    for (int run = 0; run < runs; ++run) {
        const std::vector<Chunk> batch = pair.next_batch();
        const auto add = [&](const char* subject, double seconds) {
            report.add(scenario, subject, seconds, batch_chunks);
        };
        add("CPU", bench::time_of([&] { pair.add_to_host(batch); }));
        add("device, keys from the host", bench::time_of([&] { pair.add_to_device(batch); }));
        bench::require(pair.is_same(), "both indexes say the same");
        add("device, in place, all known", bench::time_of([&] {
                pair.add_in_place(batch_chunks);
                pair.wait();
            }));
    }
    report.set_reference(scenario, "CPU");
}

void measure_digests(bench::Report& report) {
    const std::vector<std::byte> data(batch_chunks * chunk_bytes, std::byte{0x5a});
    std::vector<u8> digests(batch_chunks * hash::digest_bytes(hash::Algorithm::blake3));
    for (int run = 0; run < runs; ++run) {
        const double seconds = bench::time_of([&] {
            need(hash::hash_pieces(hash::Algorithm::blake3, data, chunk_bytes, digests,
                                   {.processor = hash::Processor::cpu}),
                 "digests");
        });
        report.add("digests of a batch, BLAKE3", "CPU, all cores", seconds, batch_chunks);
    }
}

}  // namespace

int main(int count, char** words) {
    bench::Report report("index_bench", count, words);
    bench::require(gpu::device_count() > 0, "there is no GPU");
    for (const u64 entries : {mib, 8 * mib, 32 * mib})
        measure(report, entries);
    measure_digests(report);
    return report.finish();
}
