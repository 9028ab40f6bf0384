// SPDX-License-Identifier: Apache-2.0
// How fast does the CPU hash many pieces, and how far is that from the best libraries in the same
// run? OpenSSL, Intel's Multi-Buffer Crypto where it is installed, xxHash as the distribution
// compiles it, and through Python (WARREN_PYTHON names an interpreter with the packages blake3 and
// xxhash) the reference implementation of BLAKE3 and the newest xxHash. One core, then all. `items`
// are bytes, for sliding windows windows.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "bench/support/multi_buffer_peer.hpp"
#include "bench/support/report.hpp"
#include "hash/alone.hpp"
#include "hash/blake3_tree.hpp"
#include "hash/lanes.hpp"
#include "warren/hash.hpp"

#if __has_include(<openssl/evp.h>)
#include <openssl/evp.h>
#define HAS_OPENSSL 1
#endif

namespace {

using namespace warren;
using namespace warren::hash;

constexpr u64 data_bytes = 32 * mib;
constexpr u64 piece_bytes = 4096;
constexpr int runs = 7;

/// Rows of one core use the thread's CPU time, so that other processes do not count.
enum class Clock { of_thread, of_wall };

double seconds_of(Clock clock) {
    if (clock == Clock::of_wall) return bench::now_seconds();
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// The work of each subject of a scenario; subjects alternate, so that a disturbance hits all.
using Subjects = std::vector<std::pair<std::string, std::function<void()>>>;

void measure(bench::Report& report, const std::string& scenario, double items,
             const Subjects& subjects, Clock clock) {
    bench::require(!subjects.empty(), "there is something to measure in " + scenario);
    for (int run = 0; run <= runs; ++run) {
        for (const auto& [subject, work] : subjects) {
            const double start = seconds_of(clock);
            work();
            const double seconds = seconds_of(clock) - start;
            if (run > 0) report.add(scenario, subject, seconds, items);
        }
    }
    report.set_reference(scenario, subjects.front().first);
}

/// How many times faster than the peer.
double gain(const bench::Report& report, const std::string& scenario, const std::string& peer,
            const std::string& subject) {
    return report.median(scenario, peer) / report.median(scenario, subject);
}

#if defined(HAS_OPENSSL)

const EVP_MD* openssl_of(Algorithm algorithm) {
    static const EVP_MD* const digests[] = {EVP_MD_fetch(nullptr, "MD5", nullptr),
                                            EVP_MD_fetch(nullptr, "SHA1", nullptr),
                                            EVP_MD_fetch(nullptr, "SHA256", nullptr)};
    return digests[static_cast<u32>(algorithm)];
}

/// OpenSSL, one message after the other, with a context that is used again.
class Openssl {
 public:
    explicit Openssl(Algorithm algorithm) : context_(EVP_MD_CTX_new()) {
        EVP_DigestInit_ex2(context_, openssl_of(algorithm), nullptr);
    }
    ~Openssl() { EVP_MD_CTX_free(context_); }
    Openssl(const Openssl&) = delete;
    Openssl& operator=(const Openssl&) = delete;

    void hash(Bytes message, u8* digest) {
        EVP_DigestInit_ex2(context_, nullptr, nullptr);
        EVP_DigestUpdate(context_, message.data(), message.size());
        EVP_DigestFinal_ex(context_, digest, nullptr);
    }

 private:
    EVP_MD_CTX* context_;
};

void hash_by_openssl(Algorithm algorithm, Bytes data, u64 width, u64 stride, u64 count) {
    Openssl openssl(algorithm);
    u8 digest[most_digest_bytes];
    for (u64 i = 0; i < count; ++i)
        openssl.hash(data.subspan(i * stride, width), digest);
}

/// The same, the pieces divided among all cores.
void hash_by_openssl_threads(Algorithm algorithm, Bytes data, u32 threads) {
    std::vector<std::jthread> workers;
    const u64 share = data.size() / piece_bytes / threads;
    for (u32 i = 0; i < threads; ++i) {
        workers.emplace_back([=] {
            hash_by_openssl(algorithm, data.subspan(i * share * piece_bytes), piece_bytes,
                            piece_bytes, share);
        });
    }
}

#endif

void hash_in_lanes(const LaneSet& lanes, Algorithm algorithm, std::span<const Bytes> pieces,
                   u8* digests) {
    if (algorithm == Algorithm::blake3) return hash_blake3_many(lanes, pieces, digests);
    lanes.many[static_cast<u32>(algorithm)](pieces, digests, {}, finish_alone(algorithm),
                                            alone_at_most(algorithm, lanes.lanes));
}

/// Seconds of thread time that a Python package takes for the data in pieces and as one message,
/// run by run; empty if it is not installed.
struct PythonRuns {
    std::vector<double> pieces;
    std::vector<double> one_message;
};

PythonRuns ask_python(const std::string& function) {
    const char* python = std::getenv("WARREN_PYTHON");
    const std::string program =
        "import random, time\n"
        "data = random.Random(1).randbytes(" +
        std::to_string(data_bytes) +
        ")\n"
        "pieces = [data[i:i + 4096] for i in range(0, len(data), 4096)]\n" +
        function +
        "for part in (pieces, [data]):\n"
        "    for run in range(" +
        std::to_string(runs) +
        "):\n"
        "        start = time.thread_time()\n"
        "        for piece in part: digest(piece)\n"
        "        print(time.thread_time() - start)\n";
    const std::string command =
        std::string(python != nullptr ? python : "python3") + " -c '" + program + "' 2>/dev/null";
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
    PythonRuns answer;
    double value = 0;
    while (pipe != nullptr && std::fscanf(pipe.get(), "%lf", &value) == 1) {
        (answer.pieces.size() < runs ? answer.pieces : answer.one_message).push_back(value);
    }
    return answer;
}

class HashBench {
 public:
    HashBench(bench::Report& report) : report_(report), data_(data_bytes) {
        Random random(1);
        for (std::byte& byte : data_)
            byte = static_cast<std::byte>(random.next());
        for (u64 at = 0; at < data_bytes; at += piece_bytes)
            pieces_.push_back(Bytes(data_).subspan(at, piece_bytes));
        digests_.resize(pieces_.size() * most_digest_bytes);
    }

    void sequential_digest(Algorithm algorithm, double bound) {
        const std::string scenario = std::string(name(algorithm)) + " of 4 KiB, one core";
        Subjects subjects;
#if defined(HAS_OPENSSL)
        subjects.emplace_back("OpenSSL", [=, this] {
            hash_by_openssl(algorithm, data_, piece_bytes, piece_bytes, pieces_.size());
        });
#endif
        add_multi_buffer(algorithm, subjects);
        add_lanes(algorithm, subjects);
        measure(report_, scenario, data_bytes, subjects, Clock::of_thread);
        if (multi_buffer_.has(algorithm)) {
            const double over = gain(report_, scenario, multi_buffer_name, widest_lanes().name);
            report_.note(scenario + ": " + std::to_string(over) + " times as fast as " +
                         multi_buffer_name);
        }
        if (has_openssl) {
            report_.must(std::string(name(algorithm)) + " against OpenSSL, one core",
                         gain(report_, scenario, "OpenSSL", widest_lanes().name), bound);
        }
        all_cores(algorithm);
    }

    void blake3() {
        const std::string scenario = "blake3 of 4 KiB, one core";
        Subjects subjects;
        add_lanes(Algorithm::blake3, subjects);
        subjects.emplace_back("one message", [this] {
            need(hash_one(Algorithm::blake3, data_, std::span(digests_).first(32),
                          {1, Processor::cpu}));
        });
        measure(report_, scenario, data_bytes, subjects, Clock::of_thread);
        const PythonRuns peer = ask_python(
            "import blake3\n"
            "digest = lambda piece: blake3.blake3(piece, max_threads=1).digest()\n");
        if (add_peer(scenario, peer)) {
            report_.must("blake3 against its own library on one message, one core",
                         gain(report_, scenario, library_one, widest_lanes().name), 0.85);
        }
        all_cores(Algorithm::blake3);
    }

    void xxh3() {
        const std::string scenario = "xxh3-128 of 4 KiB, one core";
        const std::string own = "widest vectors";
        measure(report_, scenario, data_bytes,
                {{own,
                  [this] {
                      need(hash_pieces(Algorithm::xxh3_128, data_, piece_bytes,
                                       std::span(digests_).first(pieces_.size() * 16),
                                       {1, Processor::cpu}));
                  }},
                 {"one message",
                  [this] {
                      need(hash_one(Algorithm::xxh3_128, data_, std::span(digests_).first(16),
                                    {1, Processor::cpu}));
                  }}},
                Clock::of_thread);
        const PythonRuns peer = ask_python("import xxhash\ndigest = xxhash.xxh3_128_digest\n");
        if (add_peer(scenario, peer)) {
            report_.must("xxh3-128 against its own library on the same pieces, one core",
                         gain(report_, scenario, library_pieces, own), 0.9);
            report_.must("xxh3-128 against its own library on one message, one core",
                         gain(report_, scenario, library_one, "one message"), 0.9);
        }
        all_cores(Algorithm::xxh3_128);
    }

    void windows(Algorithm algorithm) {
        constexpr u64 part_bytes = 4 * mib;
        const Bytes part = Bytes(data_).first(part_bytes);
        for (const auto& [width, stride] :
             {std::pair<u64, u64>{48, 1}, {20, 4}, {52, 4}, {56, 4}, {52, 52}}) {
            const Windows windows = {algorithm, width, stride};
            const u64 count = window_count(windows, part_bytes);
            const std::string scenario = std::string(name(algorithm)) + " windows " +
                                         std::to_string(width) + "/" + std::to_string(stride);
            std::vector<u64> bitmap((count + 63) / 64);
            Subjects subjects;
#if defined(HAS_OPENSSL)
            subjects.emplace_back("OpenSSL",
                                  [=] { hash_by_openssl(algorithm, part, width, stride, count); });
#endif
            subjects.emplace_back("Warren, bitmap", [&] {
                need(match_windows(windows, part, 20, bitmap, {1, Processor::cpu}));
            });
            measure(report_, scenario, static_cast<double>(count), subjects, Clock::of_thread);
            const Subjects all = {
                {"Warren", [&] {
                     need(match_windows(windows, part, 20, bitmap, {0, Processor::cpu}));
                 }}};
            measure(report_, scenario + ", all cores", static_cast<double>(count), all,
                    Clock::of_wall);
            if (has_openssl && stride == 1) {
                report_.must(scenario + " against OpenSSL, one core",
                             gain(report_, scenario, "OpenSSL", "Warren, bitmap"), 4);
            }
        }
    }

 private:
    static constexpr const char* multi_buffer_name = "Intel multi-buffer";

    /// After a check that its digests are right.
    void add_multi_buffer(Algorithm algorithm, Subjects& subjects) {
        if (!multi_buffer_.has(algorithm)) {
            report_.note(std::string(name(algorithm)) + ": no Intel multi-buffer library for it");
            return;
        }
        const u64 size = pieces_.size() * digest_bytes(algorithm);
        multi_buffer_.hash(algorithm, pieces_, digests_.data());
        const std::vector<u8> theirs(digests_.begin(), digests_.begin() + static_cast<i64>(size));
        hash_in_lanes(widest_lanes(), algorithm, pieces_, digests_.data());
        bench::require(std::equal(theirs.begin(), theirs.end(), digests_.begin()),
                       std::string(multi_buffer_name) + " computes the same digests");
        std::function<void()> work = [=, this] {
            multi_buffer_.hash(algorithm, pieces_, digests_.data());
        };
        subjects.insert(subjects.end(), {multi_buffer_name, std::move(work)});
    }

#if defined(HAS_OPENSSL)
    static constexpr bool has_openssl = true;
#else
    static constexpr bool has_openssl = false;
#endif

    static void need(Errc code) {
        bench::require(code == Errc::ok, "hashing failed");
    }

    void add_lanes(Algorithm algorithm, Subjects& subjects) {
        for (const LaneSet* lanes : lane_sets()) {
            subjects.emplace_back(lanes->name, [=, this] {
                hash_in_lanes(*lanes, algorithm, pieces_, digests_.data());
            });
        }
    }

    static constexpr const char* library_pieces = "its own library, pieces from Python";
    static constexpr const char* library_one = "its own library, one message";

    bool add_peer(const std::string& scenario, const PythonRuns& peer) {
        if (peer.one_message.size() != runs) {
            report_.note(scenario + ": no peer was measured (set WARREN_PYTHON)");
            return false;
        }
        for (const double seconds : peer.pieces)
            report_.add(scenario, library_pieces, seconds, data_bytes);
        for (const double seconds : peer.one_message)
            report_.add(scenario, library_one, seconds, data_bytes);
        return true;
    }

    void all_cores(Algorithm algorithm) {
        const std::string scenario = std::string(name(algorithm)) + " of 4 KiB, all cores";
        Subjects subjects;
#if defined(HAS_OPENSSL)
        if (algorithm <= Algorithm::sha256) {
            subjects.emplace_back("OpenSSL", [=, this] {
                hash_by_openssl_threads(algorithm, data_, std::thread::hardware_concurrency());
            });
        }
#endif
        subjects.emplace_back("Warren", [=, this] {
            const u64 bytes = pieces_.size() * digest_bytes(algorithm);
            need(hash_pieces(algorithm, data_, piece_bytes, std::span(digests_).first(bytes),
                             {0, Processor::cpu}));
        });
        measure(report_, scenario, data_bytes, subjects, Clock::of_wall);
    }

    bench::Report& report_;
    bench::MultiBufferPeer multi_buffer_;
    std::vector<std::byte> data_;
    std::vector<Bytes> pieces_;
    std::vector<u8> digests_;
};

}  // namespace

int main(int count, char** words) {
    bench::Report report("hash_bench", count, words);
    HashBench bench(report);
    bench.sequential_digest(Algorithm::md5, 6);
    bench.sequential_digest(Algorithm::sha1, 1.8);
    bench.sequential_digest(Algorithm::sha256, 1.1);
    bench.blake3();
    bench.xxh3();
    bench.windows(Algorithm::md5);
    bench.windows(Algorithm::sha1);
    return report.finish();
}
