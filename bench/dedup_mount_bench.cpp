// SPDX-License-Identifier: Apache-2.0
// What does deduplication cost and save where programs write through a mount? The evaluation of the
// report on CloudFS: files of 1 MiB to 1 GiB, writes of 4 to 512 KiB, of uniform, random and
// repeated data, by one thread and by all cores, with `-o nodedup` and `-o dedup`.
//
// And what do the steps of a deduplicating layer above a mount take, as CloudFS's was: reading the
// data, dividing them into chunks, hashing these, looking them up in an index, the rest (writing
// what is new to a mount without deduplication)? For blocks of 4 KiB, which Warren shares, and for
// chunks by Rabin fingerprints, which begin at any byte and so can only be stored elsewhere. By one
// thread, by all cores, and by a GPU where there is one.
//
//   dedup_mount_bench [--runs N] [--largest MIB] [--folder DIR (/var/tmp)]
// tools/plot_dedup.py --run [ARGUMENT...] runs it and draws its rows.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "base/temporary_file.hpp"
#include "base/whole_io.hpp"
#include "bench/support/mounts.hpp"
#include "bench/support/places.hpp"
#include "bench/support/report.hpp"
#include "warren/chunk.hpp"
#include "warren/chunk_gpu.hpp"
#include "warren/dedup.hpp"

using namespace warren;
using namespace warren::bench;

namespace {

constexpr u64 written_min = 16 * mib;  // by a thread, in several files if need be
constexpr u64 usual_write = 128 * kib;
constexpr u64 write_sizes[] = {4 * kib, 16 * kib, 64 * kib, 128 * kib, 512 * kib};
constexpr u64 file_sizes[] = {1 * mib, 16 * mib, 64 * mib, 256 * mib, 1024 * mib};

/// Of the rows that differ in something else.
u64 usual_file = 64 * mib;
std::string disk_folder;

enum class Data { uniform, random, repeated };
constexpr Data all_data[] = {Data::uniform, Data::random, Data::repeated};
std::string name_of(Data data) {
    constexpr const char* names[] = {"uniform", "random", "repeated"};
    return names[static_cast<u32>(data)];
}

/// What one thread writes: all blocks equal, or none, or those that another file has.
std::vector<std::byte> make_data(Data data, u64 bytes, u64 seed) {
    std::vector<std::byte> made(bytes, std::byte{1});
    if (data == Data::uniform) return made;
    Random random(seed);
    const std::span<u64> words(reinterpret_cast<u64*>(made.data()), bytes / sizeof(u64));
    for (u64& word : words)
        word = random.next();
    return made;
}

void write_file(const std::string& path, std::span<const std::byte> data, u64 write_bytes) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    require(file >= 0, "cannot create " + path);
    for (u64 at = 0; at < data.size(); at += write_bytes) {
        const auto part = data.subspan(at, std::min<u64>(write_bytes, data.size() - at));
        require(write_fully(file, at, part) == Errc::ok, "cannot write " + path);
    }
    require(::fsync(file) == 0 && ::close(file) == 0, "cannot write " + path);
}

struct Work {
    u64 file_bytes;
    u64 write_bytes;
    Data data;
    u64 threads;

    u64 files_each() const { return std::max<u64>(1, written_min / file_bytes); }
    u64 bytes() const { return file_bytes * files_each() * threads; }
    std::string scenario() const {
        return std::to_string(file_bytes / mib) + " MiB, writes of " +
               std::to_string(write_bytes / kib) + " KiB, " + name_of(data) + ", " +
               (threads == 1 ? "1 thread" : "all cores");
    }
};

/// The time in which all threads write files of their own, one after the other, and make each
/// durable.
double time_writers(const std::string& folder, const Work& work, u64 number) {
    const u64 files = work.threads * work.files_each();
    std::vector<std::vector<std::byte>> data;
    for (u64 i = 0; i < files; ++i)
        data.push_back(make_data(work.data, work.file_bytes, number * files + i));
    const auto path = [&](const std::string& what, u64 i) {
        return folder + "/" + what + std::to_string(i);
    };
    for (u64 i = 0; work.data == Data::repeated && i < files; ++i)
        write_file(path("first", i), data[i], mib);
    const double taken = time_of([&] {
        std::vector<std::jthread> threads;
        for (u64 thread = 0; thread < work.threads; ++thread)
            threads.emplace_back([&, thread] {
                for (u64 i = thread; i < files; i += work.threads)
                    write_file(path("file", i), data[i], work.write_bytes);
            });
    });
    for (u64 i = 0; i < files; ++i) {
        ::unlink(path("first", i).c_str());
        ::unlink(path("file", i).c_str());
    }
    return taken;
}

/// Of the rate with deduplication over that without, which is in bytes a second.
double rate_bound(Data data, double without) {
    constexpr double slow_disk = 500e6;
    if (data == Data::random) return 0.90;
    return without < slow_disk ? 1.3 : 1.0;
}

class MountRows {
 public:
    MountRows(Report& report, u64 largest_bytes) : report_(report) {
        const u64 cores = std::max(2u, std::thread::hardware_concurrency());
        for (const Data data : all_data) {
            for (const u64 size : write_sizes)
                for (const u64 threads : {u64{1}, cores})
                    works_.push_back({usual_file, size, data, threads});
            for (const u64 size : file_sizes)
                if (size <= largest_bytes && size != usual_file)
                    works_.push_back({size, usual_write, data, 1});
        }
    }

    /// One run of each row, one right after the other, and another one first each time.
    void run(u64 number) {
        for (const Work& work : works_) {
            for (const bool is_on : {number % 2 == 0, number % 2 != 0}) {
                const char* how = is_on ? "dedup" : "nodedup";
                const Scratch scratch(disk_folder);
                WarrenMount mount(scratch.path(), 4 * work.bytes() + gib);
                mount.mount_with(how);
                report_.add(work.scenario(), how, time_writers(mount.path(), work, number),
                            static_cast<double>(work.bytes()));
            }
        }
    }

    void finish() {
        for (const Work& work : works_) {
            const std::string scenario = work.scenario();
            report_.set_reference(scenario, "nodedup");
            const double without = report_.median(scenario, "nodedup");
            report_.must("rate with dedup over without, " + scenario,
                         without / report_.median(scenario, "dedup"),
                         rate_bound(work.data, static_cast<double>(work.bytes()) / without));
        }
    }

 private:
    Report& report_;
    std::vector<Work> works_;
};

struct Workers {
    const char* name;
    u32 threads;  // of the CPU; 0: all cores
    hash::Processor processor;
};
constexpr Workers all_workers[] = {{"1 thread", 1, hash::Processor::cpu},
                                   {"all cores", 0, hash::Processor::cpu},
                                   {"GPU", 0, hash::Processor::gpu}};

struct Steps {
    double read = 0;
    double chunk = 0;
    double hash = 0;
    double index = 0;
    double rest = 0;
    double total() const { return read + chunk + hash + index + rest; }
};

/// A deduplicating layer: it reads what is to be written and writes the chunks that are new.
class Layer {
 public:
    Layer(bool is_content_defined, const Workers& workers)
        : is_content_defined_(is_content_defined), workers_(workers), data_(usual_file) {
        const chunk::Rule rule = *chunk::preset("lbfs");
        require(index_.open({}) == Errc::ok, "cannot open an index");
        require(chunker_.open(rule, workers.threads) == Errc::ok, "cannot open a chunker");
        if (is_by_gpu()) require(gpu_.open(rule) == Errc::ok, "cannot open the GPU's chunker");
        base_ = index_.add_source("input", usual_file);
    }

    Steps run(int input, const std::string& path, u64 write_bytes) {
        const int output = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        require(output >= 0, "cannot create " + path);
        for (u64 at = 0; at < usual_file; at += write_bytes) {
            const auto part = std::span(data_).subspan(at, write_bytes);
            steps_.read += time_of([&] {
                const ssize_t got =
                    ::pread(input, part.data(), part.size(), static_cast<off_t>(at));
                require(got == static_cast<ssize_t>(part.size()), "cannot read");
            });
            steps_.chunk += time_of([&] { divide(part, at); });
            store(output);
        }
        if (is_content_defined_) chunker_.finish(ends_);
        store(output);
        steps_.rest += time_of([&] { require(::fsync(output) == 0, "cannot sync"); });
        ::close(output);
        ::unlink(path.c_str());
        return steps_;
    }

 private:
    bool is_by_gpu() const { return workers_.processor == hash::Processor::gpu; }

    void divide(std::span<const std::byte> part, u64 at) {
        if (is_content_defined_ && is_by_gpu()) {
            require(chunker_.feed_by_gpu(gpu_, part, ends_) == Errc::ok, "the GPU failed");
        } else if (is_content_defined_) {
            chunker_.feed(part, ends_);
        } else {
            for (u64 end = at + 4 * kib; end <= at + part.size(); end += 4 * kib)
                ends_.push_back(end);
        }
    }

    /// Hashes the chunks that have ended, and writes those that are new.
    void store(int output) {
        std::vector<hash::Bytes> pieces;
        for (const u64 end : ends_) {
            pieces.push_back(std::span(data_).subspan(begin_, end - begin_));
            begin_ = end;
        }
        ends_.clear();
        constexpr u32 digest_bytes = hash::digest_bytes(hash::Algorithm::blake3);
        std::vector<u8> digests(pieces.size() * digest_bytes);
        steps_.hash += time_of([&] {
            require(hash::hash_many(hash::Algorithm::blake3, pieces, digests,
                                    {workers_.threads, workers_.processor}) == Errc::ok,
                    "cannot hash");
        });
        std::vector<dedup::Entry> found(pieces.size());
        std::vector<dedup::Chunk> chunks;
        steps_.index += time_of([&] {
            for (u64 i = 0; i < pieces.size(); ++i) {
                const auto digest = std::span<const u8>(digests).subspan(i * digest_bytes);
                const u64 at = static_cast<u64>(pieces[i].data() - data_.data());
                chunks.push_back({index_.key_of(digest.first(digest_bytes)), base_ + at,
                                  static_cast<u32>(pieces[i].size())});
            }
            require(index_.add(chunks, found) == Errc::ok, "cannot look up");
        });
        steps_.rest += time_of([&] {
            for (u64 i = 0; i < pieces.size(); ++i) {
                if (found[i].place != chunks[i].place) continue;
                require(write_fully(output, chunks[i].place - base_, pieces[i]) == Errc::ok,
                        "cannot write");
            }
        });
    }

    const bool is_content_defined_;
    const Workers& workers_;
    dedup::Index index_;
    chunk::Chunker chunker_;
    chunk::GpuChunker gpu_;
    std::vector<std::byte> data_;
    std::vector<u64> ends_;
    u64 begin_ = 0;
    u64 base_ = 0;
    Steps steps_;
};

void measure_steps(Report& report, const std::string& folder, int input, Data data,
                   u64 write_bytes) {
    for (const bool is_content_defined : {false, true}) {
        for (const Workers& workers : all_workers) {
            if (workers.processor == hash::Processor::gpu && !hash::has_gpu()) continue;
            const std::string scenario =
                "steps, writes of " + std::to_string(write_bytes / kib) + " KiB, " + name_of(data) +
                (is_content_defined ? ", content-defined, " : ", blocks, ") + workers.name;
            const Steps steps =
                Layer(is_content_defined, workers).run(input, folder + "/file", write_bytes);
            const auto bytes = static_cast<double>(usual_file);
            report.add(scenario, "all", steps.total(), bytes);
            report.add(scenario, "read", steps.read, bytes);
            report.add(scenario, "chunk", steps.chunk, bytes);
            report.add(scenario, "hash", steps.hash, bytes);
            report.add(scenario, "index", steps.index, bytes);
            report.add(scenario, "rest", steps.rest, bytes);
            report.set_reference(scenario, "all");
        }
    }
}

void measure_all_steps(Report& report) {
    const Scratch scratch(disk_folder);
    WarrenMount mount(scratch.path(), 4 * usual_file + gib);
    mount.mount_with("nodedup");
    for (const Data data : {Data::uniform, Data::random}) {
        TemporaryFile input;
        require(input.make("/dev/shm") == Errc::ok, "cannot make a file");
        input.forget_name();
        require(write_fully(input.descriptor(), 0, make_data(data, usual_file, 1)) == Errc::ok,
                "cannot write the input");
        for (const u64 size : write_sizes)
            measure_steps(report, mount.path(), input.descriptor(), data, size);
    }
}

}  // namespace

int main(int argument_count, char** arguments) {
    const u64 runs = option(argument_count, arguments, "runs", 5);
    const u64 largest = option(argument_count, arguments, "largest", 1024) * mib;
    require(runs > 0 && largest >= mib, "--runs and --largest must be at least 1");
    usual_file = std::min(usual_file, largest);
    disk_folder = text_option(argument_count, arguments, "folder", "/var/tmp");
    Report report("dedup_mount_bench", argument_count, arguments);
    std::string load;
    std::getline(std::ifstream("/proc/loadavg"), load);
    report.note("load average at the start: " + load);
    MountRows rows(report, largest);
    for (u64 run = 0; run < runs; ++run) {
        rows.run(run);
        measure_all_steps(report);
    }
    rows.finish();
    return report.finish();
}
