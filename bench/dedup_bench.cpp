// SPDX-License-Identifier: Apache-2.0
// What does a write cost in the deduplication module of the report on CloudFS, step by step:
// reading the bytes, cutting them by Rabin fingerprints, digesting the chunks that ended by MD5? By
// the size of a write, and by the threads used: one; all for the cuts, as in the report; or all for
// the digests too. Its figures 3.3 to 3.5 are these rows.
//
// Ratios are to the whole module, so they are the shares of the steps.
//
// Invariant: all three give the same digests.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "base/temporary_file.hpp"
#include "bench/support/report.hpp"
#include "warren/chunk.h"
#include "warren/hash.hpp"

namespace {

using namespace warren;
using bench::require;
using bench::time_of;

constexpr u64 file_bytes = 64 * mib;
constexpr u64 smallest_write = 4 * kib;
constexpr u64 largest_write = 512 * kib;
constexpr int runs = 5;
constexpr u32 digest_size = hash::digest_bytes(hash::Algorithm::md5);

struct Workers {
    const char* name;
    size_t (*compute)(rabinpoly_t*, const void*, size_t, size_t*);
    u32 digest_threads;  // 0: all
};
constexpr Workers all_workers[] = {
    {"serial", compute_rabin_segments_serial, 1},
    {"cuts by all threads", compute_rabin_segments_cpu, 1},
    {"all by all threads", compute_rabin_segments_cpu, 0},
};

struct Steps {
    double read = 0;
    double rabin = 0;
    double md5 = 0;
};

/// A file that is written: the state that the module keeps from one write to the next.
class Module {
 public:
    Module(const Workers& workers, u64 write_bytes)
        : workers_(workers),
          write_bytes_(write_bytes),
          rabin_(rabin_init(48, 8, 2, 64)),
          data_(file_bytes, std::byte{1}) {
        require(rabin_ != nullptr, "rabin_init");
        markers_.resize(rabin_marker_limit(rabin_, write_bytes));
        const u64 most = file_bytes / (2 * kib) + 1;
        pieces_.reserve(most);
        digests_.assign(most * digest_size, 0);
    }
    ~Module() { rabin_free(rabin_); }
    Module(const Module&) = delete;
    Module& operator=(const Module&) = delete;

    void run(int file) {
        require(::lseek(file, 0, SEEK_SET) == 0, "seek");
        for (u64 at = 0; at < file_bytes; at += write_bytes_)
            write(file, at);
        pieces_.push_back(std::span(data_).subspan(open_chunk_));
        steps_.md5 += time_of([&] { digest(); });
    }

    const Steps& steps() const { return steps_; }
    const std::vector<u8>& digests() const { return digests_; }

 private:
    void write(int file, u64 at) {
        steps_.read += time_of([&] {
            const ssize_t count = ::read(file, &data_[at], write_bytes_);
            require(count == static_cast<ssize_t>(write_bytes_), "read");
        });
        size_t found = 0;
        steps_.rabin += time_of(
            [&] { found = workers_.compute(rabin_, &data_[at], write_bytes_, markers_.data()); });
        require(found != RABIN_NO_MEMORY, "cut");
        steps_.md5 += time_of([&] {
            for (size_t index = 0; index < found; ++index) {
                const u64 end = at + markers_[index];
                pieces_.push_back(std::span(data_).subspan(open_chunk_, end - open_chunk_));
                open_chunk_ = end;
            }
            digest();
        });
    }

    /// Digests the complete chunks.
    void digest() {
        const std::span<u8> into(&digests_[done_ * digest_size], pieces_.size() * digest_size);
        done_ += pieces_.size();
        const hash::Options options{.threads = workers_.digest_threads,
                                    .processor = hash::Processor::cpu};
        if (workers_.digest_threads != 1) {
            require(hash::hash_many(hash::Algorithm::md5, pieces_, into, options) == Errc::ok,
                    "digest");
        } else {
            for (size_t index = 0; index < pieces_.size(); ++index) {
                require(hash::hash_one(hash::Algorithm::md5, pieces_[index],
                                       into.subspan(index * digest_size, digest_size),
                                       options) == Errc::ok,
                        "digest");
            }
        }
        pieces_.clear();
    }

    const Workers& workers_;
    const u64 write_bytes_;
    rabinpoly_t* rabin_;
    std::vector<std::byte> data_;  // what has been read
    std::vector<size_t> markers_;
    std::vector<hash::Bytes> pieces_;  // that ended and have no digest yet
    std::vector<u8> digests_;
    u64 done_ = 0;
    u64 open_chunk_ = 0;
    Steps steps_;
};

std::string scenario_of(u64 write_bytes, const char* kind, const Workers& workers) {
    return "writes of " + std::to_string(write_bytes / kib) + " KiB, " + kind + ", " + workers.name;
}

void measure(bench::Report& report, int file, u64 write_bytes, const char* kind) {
    std::vector<u8> expected;
    for (int run = 0; run < runs; ++run) {
        for (const Workers& workers : all_workers) {
            Module module(workers, write_bytes);
            module.run(file);
            const Steps& steps = module.steps();
            const std::string scenario = scenario_of(write_bytes, kind, workers);
            report.add(scenario, "module", steps.read + steps.rabin + steps.md5, file_bytes);
            report.add(scenario, "read", steps.read, file_bytes);
            report.add(scenario, "rabin", steps.rabin, file_bytes);
            report.add(scenario, "md5", steps.md5, file_bytes);
            report.set_reference(scenario, "module");
            if (expected.empty()) expected = module.digests();
            require(module.digests() == expected, scenario + ": the digests are those of serial");
        }
    }
}

/// The speedup over serial, the two numbers that the report gives.
void note_gains(bench::Report& report, u64 write_bytes, const char* kind) {
    const std::string serial = scenario_of(write_bytes, kind, all_workers[0]);
    for (const Workers& workers : {all_workers[1], all_workers[2]}) {
        const std::string scenario = scenario_of(write_bytes, kind, workers);
        std::string text = scenario + ", over serial:";
        for (const char* step : {"rabin", "module"}) {
            char gain[64];
            std::snprintf(gain, sizeof gain, " %s %.2f", step,
                          report.median(serial, step) / report.median(scenario, step));
            text += gain;
        }
        report.note(text);
    }
}

/// In memory, so that "read" is the system call and no disk.
void fill(const TemporaryFile& file, bool is_random) {
    std::vector<u64> words(file_bytes / 8, 0x0101010101010101);
    Random random(0);
    for (u64& word : words)
        word = is_random ? random.next() : word;
    const ssize_t count = ::pwrite(file.descriptor(), words.data(), file_bytes, 0);
    require(count == static_cast<ssize_t>(file_bytes), "write the data");
}

}  // namespace

int main(int argument_count, char** arguments) {
    bench::Report report("dedup_bench", argument_count, arguments);
    for (const char* kind : {"uniform", "random"}) {
        TemporaryFile file;
        require(file.make("/dev/shm") == Errc::ok, "make a file");
        file.forget_name();
        fill(file, std::string(kind) == "random");
        for (u64 size = smallest_write; size <= largest_write; size *= 2) {
            measure(report, file.descriptor(), size, kind);
            note_gains(report, size, kind);
        }
    }
    return report.finish();
}
