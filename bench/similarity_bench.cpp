// SPDX-License-Identifier: Apache-2.0
// How fast is it seen how much of a version is in the version before it, and how much is that? The
// tables 3 and 4 of StoreGPU on real input (tools/fetch_inputs.py makes it): fixed and variable
// blocks, MD5 and SHA-1, OpenSSL on one core as the paper's reference, Warren on one core, on all,
// and on a GPU; Rabin and Gear as further rows. A measurement is the whole of it: cuts, digests,
// and the look-up among those of the version before.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/processors.hpp"
#include "bench/support/openssl.hpp"
#include "bench/support/report.hpp"
#include "warren/chunk.hpp"
#include "warren/chunk_gpu.hpp"
#include "warren/hash.hpp"

namespace {

using namespace warren;
using hash::Algorithm;
using hash::Bytes;

constexpr u64 block_bytes = 4096;
constexpr u64 sample_bytes = 16 * mib;  // of what the reference takes minutes for

/// The first 16 bytes of a digest.
using Key = std::array<u64, 2>;

struct KeyHash {
    size_t operator()(const Key& key) const { return key[0]; }
};

using Keys = std::unordered_set<Key, KeyHash>;

/// A cutting method, and the subject that digests its chunks.
struct Way {
    std::string name;
    Algorithm algorithm;
    bool is_fixed = false;
    chunk::Rule rule;
};

enum class Worker { reference, one_core, all_cores, gpu };

constexpr const char* worker_names[] = {"OpenSSL, one core", "Warren, one core",
                                        "Warren, all cores", "Warren, GPU"};

std::vector<std::byte> read_file(const std::filesystem::path& path) {
    std::vector<std::byte> bytes(std::filesystem::file_size(path));
    std::ifstream file(path, std::ios::binary);
    file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    bench::require(file.good(), "cannot read " + path.string());
    return bytes;
}

/// The low `bits` of a digest read as a big-endian number, as the windows of warren::hash are.
bool ends_in_zeros(const u8* digest, u32 bytes, u64 mask) {
    u32 low = 0;
    for (u32 i = bytes - 4; i < bytes; ++i)
        low = low << 8 | digest[i];
    return (low & mask) == 0;
}

/// The paper's reference: a digest of every window by OpenSSL, the plain rule for the cuts.
std::vector<u64> cut_by_openssl(const Way& way, Bytes bytes) {
    const chunk::Rule& rule = way.rule;
    bench::Openssl openssl(way.algorithm);
    u8 digest[hash::most_digest_bytes];
    std::vector<u64> ends;
    u64 begin = 0;
    for (u64 at = 0; at + rule.window_bytes <= bytes.size(); at += rule.stride_bytes) {
        openssl.hash(bytes.subspan(at, rule.window_bytes), digest);
        const u64 end = at + rule.window_bytes;
        const bool matches = ends_in_zeros(digest, hash::digest_bytes(way.algorithm), rule.mask);
        if (end - begin < rule.minimum_bytes) continue;
        if (!matches && end - begin < rule.maximum_bytes) continue;
        ends.push_back(end);
        begin = end;
    }
    if (begin < bytes.size()) ends.push_back(bytes.size());
    return ends;
}

/// The same cuts from the windows that a GPU finds.
std::vector<u64> cut_windows_by_gpu(const Way& way, Bytes bytes) {
    const chunk::Rule& rule = way.rule;
    const hash::Windows windows{way.algorithm, rule.window_bytes, rule.stride_bytes};
    const u64 count = hash::window_count(windows, bytes.size());
    std::vector<u64> bitmap((count + 63) / 64);
    const auto bits = static_cast<u32>(std::popcount(rule.mask));
    bench::require(
        hash::match_windows(windows, bytes, bits, bitmap, {0, hash::Processor::gpu}) == Errc::ok,
        "the GPU could not hash windows");
    std::vector<u64> ends;
    u64 begin = 0;
    for (u64 word = 0; word < bitmap.size(); ++word) {
        for (u64 left = bitmap[word]; left != 0; left &= left - 1) {
            const u64 window = word * 64 + static_cast<u64>(std::countr_zero(left));
            const u64 end = window * rule.stride_bytes + rule.window_bytes;
            while (end - begin > rule.maximum_bytes) {
                begin += rule.maximum_bytes;
                ends.push_back(begin);
            }
            if (end - begin < rule.minimum_bytes) continue;
            ends.push_back(begin = end);
        }
    }
    while (begin < bytes.size()) {
        begin = std::min<u64>(begin + rule.maximum_bytes, bytes.size());
        ends.push_back(begin);
    }
    return ends;
}

class Series {
 public:
    Series(bench::Report& report, std::string name, bool has_gpu, int runs)
        : report_(report), name_(std::move(name)), has_gpu_(has_gpu), runs_(runs) {}

    void load(const std::filesystem::path& folder) {
        std::vector<std::filesystem::path> paths;
        for (const auto& entry : std::filesystem::directory_iterator(folder))
            paths.push_back(entry.path());
        std::sort(paths.begin(), paths.end());
        for (const std::filesystem::path& path : paths)
            files_.push_back(read_file(path));
    }

    size_t count() const { return files_.size(); }

    /// A row of the tables for each worker that supports it.
    void measure(const Way& way) {
        double found = 0;
        for (const Worker worker :
             {Worker::reference, Worker::one_core, Worker::all_cores, Worker::gpu}) {
            if (!can(way, worker)) continue;
            const double share = measure(way, worker);
            if (worker == Worker::one_core) found = share;
            // All workers must find the same; the reference sees a sample only.
            if (worker == Worker::all_cores || worker == Worker::gpu) {
                bench::require(share == found, way.name + ": other chunks than one core's");
            }
        }
        print(way, found);
    }

 private:
    static constexpr u32 digest_room = hash::most_digest_bytes;

    bool can(const Way& way, Worker worker) const {
        const bool is_window_digest =
            way.rule.method == chunk::Method::md5 || way.rule.method == chunk::Method::sha1;
        if (worker == Worker::reference) {
            return bench::has_openssl && (way.is_fixed || is_window_digest);
        }
        if (worker != Worker::gpu) return true;
        return has_gpu_ &&
               (way.is_fixed || is_window_digest || chunk::GpuChunker::has_kernel(way.rule));
    }

    std::string scenario(const Way& way) const { return name_ + ": " + way.name; }

    double measure(const Way& way, Worker worker) {
        u64 found = 0;
        u64 counted = 0;
        for (int run = 0; run < runs_; ++run) {
            double seconds = 0;
            u64 bytes = 0;
            found = counted = 0;
            Keys before;
            for (size_t number = 0; number < files_.size(); ++number) {
                Bytes file = files_[number];
                if (worker == Worker::reference && !way.is_fixed) {
                    file = file.first(std::min<u64>(file.size(), sample_bytes));
                }
                Keys own;
                const double start = bench::now_seconds();
                look(way, worker, file, before, own, number == 0 ? nullptr : &found, counted);
                if (number > 0) {
                    seconds += bench::now_seconds() - start;
                    bytes += file.size();
                } else {
                    counted = 0;
                }
                before = std::move(own);
            }
            report_.add(scenario(way), worker_names[static_cast<int>(worker)], seconds,
                        static_cast<double>(bytes));
            if (worker == Worker::reference) sample_[way.name] = bytes;
        }
        total_[way.name] = 0;
        for (size_t number = 1; number < files_.size(); ++number)
            total_[way.name] += files_[number].size();
        return counted == 0 ? 0 : static_cast<double>(found) / static_cast<double>(counted);
    }

    std::vector<u64> cut(const Way& way, Worker worker, Bytes file) {
        if (worker == Worker::reference) return cut_by_openssl(way, file);
        const bool is_window_digest =
            way.rule.method == chunk::Method::md5 || way.rule.method == chunk::Method::sha1;
        if (worker == Worker::gpu && is_window_digest) return cut_windows_by_gpu(way, file);
        if (worker != Worker::gpu) {
            return chunk::cut(way.rule, file, worker == Worker::one_core ? 1 : 0);
        }
        chunk::GpuChunker gpu;
        std::vector<u64> ends;
        bench::require(gpu.open(way.rule) == Errc::ok && gpu.cut(file, ends) == Errc::ok,
                       "the GPU could not cut");
        return ends;
    }

    /// Cuts and digests a file and looks its chunks up; blocks of zeros are not counted.
    void look(const Way& way, Worker worker, Bytes file, const Keys& before, Keys& own, u64* found,
              u64& counted) {
        std::vector<u64> ends;
        if (way.is_fixed) {
            for (u64 end = block_bytes; end < file.size(); end += block_bytes)
                ends.push_back(end);
            ends.push_back(file.size());
        } else {
            ends = cut(way, worker, file);
        }
        const u32 width = hash::digest_bytes(way.algorithm);
        std::vector<u8> digests(ends.size() * width);
        digest(way, worker, file, ends, digests);
        own.reserve(ends.size());
        u64 begin = 0;
        for (size_t i = 0; i < ends.size(); ++i) {
            const Bytes chunk = file.subspan(begin, ends[i] - begin);
            begin = ends[i];
            if (is_zero(chunk)) continue;
            Key key;
            std::memcpy(key.data(), digests.data() + i * width, sizeof key);
            own.insert(key);
            counted += chunk.size();
            if (found != nullptr && before.contains(key)) *found += chunk.size();
        }
    }

    static bool is_zero(Bytes chunk) {
        return chunk[0] == std::byte{} &&
               std::memcmp(chunk.data(), chunk.data() + 1, chunk.size() - 1) == 0;
    }

    void digest(const Way& way, Worker worker, Bytes file, const std::vector<u64>& ends,
                std::span<u8> digests) {
        const u32 width = hash::digest_bytes(way.algorithm);
        if (worker == Worker::reference) {
            bench::Openssl openssl(way.algorithm);
            u64 begin = 0;
            for (size_t i = 0; i < ends.size(); begin = ends[i++])
                openssl.hash(file.subspan(begin, ends[i] - begin), digests.data() + i * width);
            return;
        }
        const hash::Options options = {
            worker == Worker::one_core ? 1u : 0u,
            worker == Worker::gpu ? hash::Processor::gpu : hash::Processor::cpu};
        Errc code = Errc::ok;
        if (way.is_fixed) {
            code = hash::hash_pieces(way.algorithm, file, block_bytes, digests, options);
        } else {
            std::vector<Bytes> pieces;
            u64 begin = 0;
            for (const u64 end : ends) {
                pieces.push_back(file.subspan(begin, end - begin));
                begin = end;
            }
            // One GPU thread hashes a chunk: the CPU is faster for few large ones.
            const bool are_large = file.size() / ends.size() > 256 * kib;
            hash::Options choice = options;
            if (are_large) choice.processor = hash::Processor::cpu;
            code = hash::hash_many(way.algorithm, pieces, digests, choice);
        }
        bench::require(code == Errc::ok, "the digests could not be made");
    }

    double rate(const Way& way, Worker worker) const {
        const u64 bytes = worker == Worker::reference ? sample_.at(way.name) : total_.at(way.name);
        return static_cast<double>(bytes) /
               report_.median(scenario(way), worker_names[static_cast<int>(worker)]) / 1e6;
    }

    void print(const Way& way, double found) {
        char text[200];
        std::string line = scenario(way) + ": ";
        const double reference =
            rate(way, can(way, Worker::reference) ? Worker::reference : Worker::one_core);
        for (const Worker worker :
             {Worker::reference, Worker::one_core, Worker::all_cores, Worker::gpu}) {
            if (!can(way, worker)) continue;
            const double own = rate(way, worker);
            std::snprintf(text, sizeof text, "%s %.1f MB/s (%.1fx), ",
                          worker_names[static_cast<int>(worker)], own, own / reference);
            line += text;
        }
        std::snprintf(text, sizeof text, "similarity %.1f %%", found * 100);
        report_.note(line + text);
    }

    bench::Report& report_;
    std::string name_;
    bool has_gpu_;
    int runs_;
    std::vector<std::vector<std::byte>> files_;
    std::map<std::string, u64> sample_;
    std::map<std::string, u64> total_;
};

chunk::Rule rule_of(std::string_view name) {
    const auto rule = chunk::preset(name);
    bench::require(static_cast<bool>(rule), "there is no such preset");
    return *rule;
}

std::vector<Way> all_ways() {
    std::vector<Way> ways;
    for (const Algorithm algorithm : {Algorithm::sha1, Algorithm::md5}) {
        const std::string name(hash::name(algorithm));
        ways.push_back({"fixed 4 KiB, " + name, algorithm, true, {}});
        chunk::Rule rule = rule_of("storegpu-" + name);
        ways.push_back({"variable, " + name + " of windows 20/4, 20 bits", algorithm, false, rule});
        rule.mask = 0x7ff;  // 8 KiB on average
        ways.push_back({"variable, " + name + " of windows 20/4, 11 bits", algorithm, false, rule});
    }
    ways.push_back({"rabin (lbfs), md5", Algorithm::md5, false, rule_of("lbfs")});
    ways.push_back({"gear, sha1", Algorithm::sha1, false, rule_of("gear")});
    ways.push_back({"fastcdc, sha1", Algorithm::sha1, false, rule_of("fastcdc")});
    return ways;
}

}  // namespace

int main(int count, char** words) {
    if (count < 2) {
        std::fprintf(stderr,
                     "usage: similarity_bench FOLDER [RUNS [SERIES...]]\n"
                     "FOLDER holds a folder for each series: tools/fetch_inputs.py FOLDER\n");
        return 2;
    }
    bench::Report report("similarity_bench", count, words);
    const int runs = count > 2 ? std::atoi(words[2]) : 3;
    bench::require(runs > 0, "RUNS is a number from 1 on");
    const u8 probe[64] = {};
    std::vector<u8> digest(32);
    const bool has_gpu =
        hash::hash_pieces(Algorithm::md5, std::as_bytes(std::span(probe)), 64,
                          std::span(digest).first(16), {0, hash::Processor::gpu}) == Errc::ok;
    report.note("all cores are " + std::to_string(usable_processors()) +
                (has_gpu ? "; data from pageable memory to the GPU" : "; no GPU here"));
    std::vector<std::filesystem::path> folders;
    for (const auto& entry : std::filesystem::directory_iterator(words[1]))
        folders.push_back(entry.path());
    std::sort(folders.begin(), folders.end());
    for (const std::filesystem::path& folder : folders) {
        const std::string name = folder.filename().string();
        if (count > 3 && std::find(words + 3, words + count, name) == words + count) continue;
        Series series(report, name, has_gpu, runs);
        series.load(folder);
        if (series.count() < 2) continue;
        for (const Way& way : all_ways())
            series.measure(way);
    }
    return report.finish();
}
