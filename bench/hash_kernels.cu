// SPDX-License-Identifier: Apache-2.0
// How fast are the kernels of src/hash on data that are in device memory already? Every digest over
// pieces of 4 KiB and others, aligned and not; one BLAKE3 tree; sliding windows at stride 1 and the
// paper's sizes. `items` are bytes of input, so "each" is the time of one byte. Arguments: GiB of
// data (8), runs (5; 1 under a profiler).
#include <cstdio>
#include <cstdlib>
#include <string>

#include "bench/support/report.hpp"
#include "gpu/buffer.hpp"
#include "gpu/device.hpp"
#include "gpu/failure.hpp"
#include "gpu/stream.hpp"
#include "hash/cuda/kernels.hpp"
#include "warren/hash.hpp"

namespace {

using namespace warren;
using namespace warren::hash;

void need(Errc code) {
    bench::require(code == Errc::ok, gpu::last_failure().message);
}

class Bench {
 public:
    Bench(bench::Report& report, u64 bytes, int runs)
        : report_(report), bytes_(bytes), runs_(runs) {
        need(stream_.open());
        need(begin_.open());
        need(end_.open());
        need(data_.allocate(bytes + 64));
        need(output_.allocate(bytes / 8));
        need(stream_.fill(data_.data(), 0x5a, data_.bytes()));
    }

    /// Seconds of the work that `work` enqueues, `runs_` times after one warm-up.
    template <class Work>
    void time(const std::string& scenario, const std::string& subject, double items,
              const Work& work) {
        for (int run = 0; run <= runs_; ++run) {
            need(begin_.record(stream_));
            need(work());
            need(end_.record(stream_));
            need(end_.wait());
            if (run == 0) continue;
            const Result<float> milliseconds = end_.milliseconds_since(begin_);
            need(milliseconds.code());
            report_.add(scenario, subject, double{*milliseconds} / 1e3, items);
        }
        const double rate = items / report_.median(scenario, subject) / 1e12;
        char text[200];
        std::snprintf(text, sizeof text, "%s, %s: %.4f TB/s", scenario.c_str(), subject.c_str(),
                      rate);
        report_.note(text);
    }

    double pieces(Algorithm algorithm, u64 piece_bytes, u64 shift) {
        cuda::DevicePieces pieces;
        pieces.data = data_.data() + shift;
        pieces.data_bytes = bytes_;
        pieces.piece_bytes = piece_bytes;
        pieces.count = bytes_ / piece_bytes;
        const std::string scenario =
            "pieces of " + std::to_string(piece_bytes) + (shift != 0 ? ", not aligned" : "");
        const std::string subject(name(algorithm));
        time(scenario, subject, static_cast<double>(bytes_), [&] {
            return cuda::hash_pieces(algorithm, pieces, {}, output_.data(), stream_.get());
        });
        return static_cast<double>(bytes_) / report_.median(scenario, subject) / 1e12;
    }

    void tree() {
        gpu::DeviceBuffer<u32> words;
        need(words.allocate(cuda::tree_words(bytes_)));
        time("one tree", "blake3", static_cast<double>(bytes_), [&] {
            return cuda::hash_tree(data_.data(), bytes_, 0, true, words.data(), output_.data(),
                                   stream_.get());
        });
    }

    double windows(const Windows& windows, u32 kept_bytes, bool is_staged) {
        const u64 bytes = std::min<u64>(bytes_, 256 * mib);
        const cuda::StreamHandle stream = stream_.get();
        const WindowPlan plan = plan_windows(windows, bytes);
        WindowOutput output;
        output.kept_bytes = kept_bytes;
        output.digests = output_.data();
        output.bitmap = reinterpret_cast<u64*>(output_.data());
        output.match_mask = 0xfffff;
        const std::string scenario = "windows " + std::to_string(windows.window_bytes) + "/" +
                                     std::to_string(windows.stride_bytes) +
                                     (kept_bytes == 0 ? ", bitmap" : ", digests") +
                                     (is_staged ? "" : ", not staged");
        const std::string subject(name(windows.algorithm));
        const u64 count = window_count(windows, bytes);
        if (count * kept_bytes > output_.bytes()) return 0;
        time(scenario, subject, static_cast<double>(bytes), [&] {
            return cuda::hash_windows(windows.algorithm, plan, data_.data(), count, output,
                                      is_staged, stream);
        });
        return static_cast<double>(bytes) / report_.median(scenario, subject) / 1e9;
    }

 private:
    bench::Report& report_;
    u64 bytes_;
    int runs_;
    gpu::Stream stream_;
    gpu::Event begin_;
    gpu::Event end_;
    gpu::DeviceBuffer<u8> data_;
    gpu::DeviceBuffer<u8> output_;
};

}  // namespace

int main(int count, char** words) {
    bench::require(gpu::device_count() > 0, "there is no GPU");
    const u64 size_gib = count > 1 ? std::strtoull(words[1], nullptr, 10) : 8;
    const int runs = count > 2 ? std::atoi(words[2]) : 5;
    bench::Report report("hash_kernels", count, words);
    Bench bench(report, size_gib * gib, runs);
    const double musts[] = {2.3, 1.7, 0.7, 0.9, 1.5};
    for (const Algorithm algorithm : all_algorithms) {
        const double rate = bench.pieces(algorithm, 4096, 0);
        report.must("TB/s of " + std::string(name(algorithm)) + " in pieces of 4 KiB", rate,
                    musts[static_cast<u32>(algorithm)]);
        bench.pieces(algorithm, 4096, 5);
        bench.pieces(algorithm, 512, 0);
        bench.pieces(algorithm, 65536, 0);
    }
    bench.tree();
    for (const Algorithm algorithm : {Algorithm::md5, Algorithm::sha1}) {
        const double rate = bench.windows({algorithm, 48, 1}, 0, true);
        report.must("GB/s of " + std::string(name(algorithm)) + " windows of 48 at stride 1", rate,
                    algorithm == Algorithm::md5 ? 20 : 10);
        const u64 sizes[][2] = {{20, 1}, {20, 4}, {52, 4}, {56, 4}, {20, 20}, {52, 52}, {56, 56}};
        for (const auto& [window, stride] : sizes) {
            bench.windows({algorithm, window, stride}, 0, true);
            bench.windows({algorithm, window, stride}, 0, false);
            bench.windows({algorithm, window, stride}, digest_bytes(algorithm), true);
        }
    }
    return report.finish();
}
