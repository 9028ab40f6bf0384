// SPDX-License-Identifier: Apache-2.0
// How fast does a GPU chunk, with data that lie on it and with data from pinned host memory; what
// does the choosing of cuts cost; and how fast is the index there? Floors and rates are those of
// the goals: they stand on one GPU, without a peer.
//
// Arguments choose parts: candidates, selection, stages, whole, index; without any, all. Rows of
// the CSV that a run leaves out stay in it. `once` times each once, for a profiler. "stages" are
// those of the report on CloudFS, one after the other: its figure 3.6.
#include <algorithm>
#include <cstdio>
#include <string>

#include "base/random.hpp"
#include "bench/support/report.hpp"
#include "chunk/cuda/chunk_digests.hpp"
#include "chunk/cuda/scan_launch.hpp"
#include "chunk/cuda/select_launch.hpp"
#include "chunk/select.hpp"
#include "dedup/cuda/device_index.hpp"
#include "gpu/buffer.hpp"
#include "gpu/device.hpp"
#include "gpu/failure.hpp"
#include "warren/chunk_gpu.hpp"

namespace {

using namespace warren;
using bench::require;

constexpr u64 resident_bytes = 4 * gib;
constexpr u64 selected_bytes = 512 * mib;
int runs = 7;

void need(Errc code, const char* what) {
    require(code == Errc::ok, std::string(what) + ": " + gpu::last_failure().message);
}

__global__ void fill_random(u64* words, u64 count) {
    const u64 stride = static_cast<u64>(gridDim.x) * blockDim.x;
    for (u64 at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += stride) {
        Random random(at);
        words[at] = random.next();
    }
}

struct Bench {
    bench::Report& report;
    gpu::Stream stream;
    gpu::Event begin;
    gpu::Event end;
    gpu::DeviceBuffer<u8> data;
    gpu::PinnedBuffer<u8> host;

    explicit Bench(bench::Report& into) : report(into) {
        need(stream.open(), "stream");
        need(begin.open(), "event");
        need(end.open(), "event");
        need(data.allocate(resident_bytes), "device memory");
        need(host.allocate(resident_bytes), "pinned memory");
        fill_random<<<2048, 256, 0, stream.get()>>>(reinterpret_cast<u64*>(data.data()),
                                                    resident_bytes / 8);
        need(stream.copy(host.data(), data.data(), resident_bytes), "copy");
        need(stream.wait(), "fill");
    }

    /// Device time of the work that `queue` enqueues.
    template <class Queue>
    void device_rows(const std::string& scenario, const std::string& subject, double items,
                     const Queue& queue) {
        for (int run = -1; run < runs; ++run) {
            need(begin.record(stream), "event");
            queue();
            need(end.record(stream), "event");
            need(end.wait(), subject.c_str());
            if (run >= 0)
                report.add(scenario, subject, *end.milliseconds_since(begin) / 1e3, items);
        }
    }

    template <class Work>
    void host_rows(const std::string& scenario, const std::string& subject, double items,
                   const Work& work) {
        for (int run = -1; run < runs; ++run) {
            const double seconds = bench::time_of(work);
            if (run >= 0) report.add(scenario, subject, seconds, items);
        }
    }

    double rate(const std::string& scenario, const std::string& subject, double items) const {
        return items / report.median(scenario, subject);
    }
};

void measure_scan(Bench& bench, const char* name, const chunk::Rule& rule, double must_tb) {
    chunk::cuda::DeviceRule device;
    chunk::cuda::ScanResult result;
    need(device.open(rule, bench.stream), "rule");
    // Below 4 GiB, and 1 GiB for fastcdc.
    const bool has_flags = rule.method == chunk::Method::fastcdc;
    const u64 count = has_flags ? 1 * gib - 16 * mib : resident_bytes - 16 * mib;
    need(result.allocate(rule, count, false), "results");
    const chunk::cuda::ScanStretch stretch{bench.data.data(), count, 0};
    const std::string scenario = "candidates, resident";
    bench.device_rows(scenario, name, static_cast<double>(count), [&] {
        need(chunk::cuda::queue_scan(device, stretch, result, bench.stream), "scan");
    });
    if (must_tb > 0) {
        bench.report.must(std::string(name) + " candidates, resident, TB/s",
                          bench.rate(scenario, name, static_cast<double>(count)) / 1e12, must_tb);
    }
}

/// From the bitmap to the cuts in host memory, chosen by the host and on the device.
void measure_selection(Bench& bench, const char* name, const chunk::Rule& rule) {
    chunk::cuda::DeviceRule device;
    chunk::cuda::ScanResult listed;
    chunk::cuda::ScanResult result;
    chunk::cuda::SelectResult choice;
    gpu::DeviceBuffer<chunk::cuda::SelectState> state;
    need(device.open(rule, bench.stream), "rule");
    need(listed.allocate(rule, selected_bytes, false), "results");
    need(result.allocate(rule, selected_bytes, true), "results");
    need(choice.allocate(rule, selected_bytes), "results");
    need(state.allocate(1), "results");
    const chunk::cuda::ScanStretch stretch{bench.data.data(), selected_bytes, 0};
    const chunk::cuda::SelectStretch whole{bench.data.data(), 0, selected_bytes, selected_bytes};
    for (const chunk::cuda::ScanResult* each : {&listed, &result})
        need(chunk::cuda::queue_scan(device, stretch, *each, bench.stream), "scan");
    need(bench.stream.wait(), "scan");
    const std::string scenario = std::string("selection of cuts, 512 MiB, ") + name;
    std::vector<u64> host_ends;
    if (rule.method != chunk::Method::fastcdc) {
        chunk::CandidateList candidates;
        chunk::CandidateList none;
        bench.host_rows(scenario, "by the host", selected_bytes, [&] {
            host_ends.clear();
            need(chunk::cuda::queue_list(device, stretch, listed, bench.stream), "list");
            need(bench.stream.wait(), "list");
            candidates.assign_list({listed.list.data(), listed.count.data()[0]}, 0, 0);
            chunk::Selector selector(rule);
            selector.run(candidates, none, selected_bytes, {nullptr, 0}, host_ends);
        });
    }
    std::vector<u64> ends;
    auto select = [&] {
        need(chunk::cuda::queue_start(state.data(), bench.stream), "start");
        need(chunk::cuda::queue_list(device, stretch, result, bench.stream), "list");
        need(
            chunk::cuda::queue_selection(device, whole, result, choice, state.data(), bench.stream),
            "selection");
    };
    bench.device_rows(scenario, "on the device, its own time", selected_bytes, select);
    bench.host_rows(scenario, "on the device", selected_bytes, [&] {
        select();
        need(bench.stream.wait(), "selection");
        require(choice.outcome.data()->is_chosen != 0, "the chains meet");
        const std::span<const u32> found(choice.host_ends.data(), choice.outcome.data()->ends);
        ends.assign(found.begin(), found.end());
    });
    if (!host_ends.empty()) require(ends == host_ends, "host and device choose the same cuts");
    bench.report.note(std::string(name) + ": " + std::to_string(result.count.data()[0]) +
                      " candidates, " + std::to_string(ends.size()) + " chunks");
    bench.report.must(scenario + ", runs in 0.5 ms",
                      0.5e-3 / bench.report.median(scenario, "on the device"), 1);
}

/// The steps that GpuChunker overlaps, one at a time: host data are copied to the device and
/// scanned, the candidates are copied back, the host chooses the cuts and digests the chunks.
void measure_stages(Bench& bench, const chunk::Rule& rule) {
    const std::string scenario = "stages of 512 MiB from the host, rabin (lbfs) + md5";
    chunk::cuda::DeviceRule device;
    chunk::cuda::ScanResult result;
    need(device.open(rule, bench.stream), "rule");
    need(result.allocate(rule, selected_bytes, true), "results");
    bench.device_rows(scenario, "copy in", selected_bytes, [&] {
        need(bench.stream.copy(bench.data.data(), bench.host.data(), selected_bytes), "copy in");
    });
    bench.device_rows(scenario, "kernel", selected_bytes, [&] {
        need(chunk::cuda::queue_scan(device, {bench.data.data(), selected_bytes, 0}, result,
                                     bench.stream),
             "scan");
    });
    const u64 found = result.count.data()[0];
    require(found <= result.device_list.count(), "the list holds all candidates");
    gpu::PinnedBuffer<u32> list;
    need(list.allocate(found), "results");
    bench.device_rows(scenario, "copy out", selected_bytes, [&] {
        need(bench.stream.copy(list.data(), result.device_list.data(), found * sizeof(u32)),
             "copy out");
    });
    chunk::CandidateList candidates;
    chunk::CandidateList none;
    std::vector<u64> ends;
    bench.host_rows(scenario, "selection", selected_bytes, [&] {
        ends.clear();
        candidates.assign_list({list.data(), found}, 0, 0);
        chunk::Selector selector(rule);
        selector.run(candidates, none, selected_bytes, {nullptr, 0}, ends);
        selector.finish(selected_bytes, ends);
    });
    const auto* at = reinterpret_cast<const std::byte*>(bench.host.data());
    std::vector<hash::Bytes> pieces;
    for (u64 start = 0; const u64 end : ends) {
        pieces.emplace_back(at + start, end - start);
        start = end;
    }
    std::vector<u8> digests(ends.size() * hash::digest_bytes(hash::Algorithm::md5));
    bench.host_rows(scenario, "md5 by the CPU", selected_bytes, [&] {
        need(hash::hash_many(hash::Algorithm::md5, pieces, digests,
                             {.processor = hash::Processor::cpu}),
             "digests");
    });
    chunk::GpuChunker chunker;
    need(chunker.open(rule), "chunker");
    std::vector<u64> overlapped;
    bench.host_rows(scenario, "all but md5, overlapped", selected_bytes, [&] {
        overlapped.clear();
        need(chunker.cut({at, selected_bytes}, overlapped), "cut");
    });
    require(overlapped == ends, "stages alone and overlapped find the same cuts");
}

void measure_whole(Bench& bench, const char* name, const chunk::Rule& rule,
                   hash::Algorithm algorithm, double must_tb, double must_gb) {
    chunk::GpuChunker chunker;
    need(chunker.open(rule), "chunker");
    chunk::cuda::ChunkDigests digests;
    need(digests.open(algorithm, resident_bytes / rule.minimum_bytes), "digests");
    std::vector<u64> ends;
    std::span<const u8> out;
    const auto items = static_cast<double>(resident_bytes);
    auto hash_ends = [&](std::span<const u64> known) {
        return digests.add(known, !known.empty() && known.back() == resident_bytes);
    };
    auto finish = [&] { need(digests.finish(out), "digests"); };
    const std::string with_digest = std::string(name) + " + " + std::string(hash::name(algorithm));
    bench.host_rows("cuts, resident", name, items, [&] {
        ends.clear();
        need(chunker.cut_device(bench.data.data(), resident_bytes, bench.stream.get(), ends), name);
    });
    bench.host_rows("cuts and digests, resident", with_digest, items, [&] {
        ends.clear();
        digests.begin(bench.data.data(), resident_bytes);
        need(chunker.cut_device(bench.data.data(), resident_bytes, bench.stream.get(), ends,
                                hash_ends),
             name);
        finish();
    });
    const std::span<const std::byte> host(reinterpret_cast<const std::byte*>(bench.host.data()),
                                          resident_bytes);
    bench.host_rows("cuts, from pinned memory", name, items, [&] {
        ends.clear();
        need(chunker.cut(host, ends), name);
    });
    bench.host_rows("cuts and digests, from pinned memory", with_digest, items, [&] {
        ends.clear();
        digests.begin(bench.data.data(), resident_bytes);
        need(chunker.cut(host, ends, hash_ends, bench.data.data()), name);
        finish();
    });
    bench.report.must(with_digest + ", resident, TB/s",
                      bench.rate("cuts and digests, resident", with_digest, items) / 1e12, must_tb);
    bench.report.must(std::string(name) + ", from pinned memory, GB/s",
                      bench.rate("cuts, from pinned memory", name, items) / 1e9, 48);
    bench.report.must(with_digest + ", from pinned memory, GB/s",
                      bench.rate("cuts and digests, from pinned memory", with_digest, items) / 1e9,
                      must_gb);
}

void measure_cuts(Bench& bench, const char* name, const chunk::Rule& rule) {
    chunk::GpuChunker chunker;
    need(chunker.open(rule), "chunker");
    std::vector<u64> ends;
    const auto items = static_cast<double>(resident_bytes);
    bench.host_rows("cuts, resident", name, items, [&] {
        ends.clear();
        need(chunker.cut_device(bench.data.data(), resident_bytes, bench.stream.get(), ends), name);
    });
    bench.host_rows("cuts, from pinned memory", name, items, [&] {
        ends.clear();
        need(chunker.cut({reinterpret_cast<const std::byte*>(bench.host.data()), resident_bytes},
                         ends),
             name);
    });
}

void measure_index(Bench& bench) {
    constexpr u64 keys = u64{32} << 20;
    dedup::cuda::DeviceIndex index;
    gpu::DeviceBuffer<u32> lengths;
    gpu::DeviceBuffer<u64> originals;
    need(lengths.allocate(keys), "lengths");
    need(originals.allocate(keys), "originals");
    // The random data are the keys; places rise.
    gpu::DeviceBuffer<u64> places;
    need(places.allocate(keys), "places");
    std::vector<u64> rising(keys);
    for (u64 place = 0; place < keys; ++place)
        rising[place] = place;
    need(bench.stream.copy(places.data(), rising.data(), keys * 8), "places");
    need(bench.stream.fill(lengths.data(), 1, keys * 4), "lengths");
    const auto* at = reinterpret_cast<const dedup::Key*>(bench.data.data());
    const dedup::cuda::DeviceChunks chunks{at, places.data(), lengths.data(), keys};
    for (int run = 0; run < runs; ++run) {
        need(index.open(keys, bench.stream), "index");
        need(bench.stream.wait(), "index");
        need(bench.begin.record(bench.stream), "event");
        need(index.add(chunks, originals.data(), bench.stream), "insert");
        need(bench.end.record(bench.stream), "event");
        need(bench.end.wait(), "insert");
        if (run > 0) {
            bench.report.add("index, 32 Mi keys", "insert",
                             *bench.end.milliseconds_since(bench.begin) / 1e3, keys);
        }
    }
    bench.device_rows("index, 32 Mi keys", "insert again (all known)", keys,
                      [&] { need(index.add(chunks, originals.data(), bench.stream), "insert"); });
    bench.device_rows("index, 32 Mi keys", "probe, found", keys,
                      [&] { need(index.find(at, keys, originals.data(), bench.stream), "probe"); });
    bench.device_rows("index, 32 Mi keys", "probe, absent", keys, [&] {
        need(index.find(at + keys, keys, originals.data(), bench.stream), "probe");
    });
    for (const char* subject : {"insert", "probe, found", "probe, absent"}) {
        bench.report.must(std::string("index, ") + subject + ", M/s",
                          bench.rate("index, 32 Mi keys", subject, keys) / 1e6, 200);
    }
}

}  // namespace

int main(int argument_count, char** arguments) {
    bench::Report report("chunk_gpu_bench", argument_count, arguments);
    require(gpu::device_count() > 0, "there is no GPU");
    const std::vector<std::string> words(arguments + 1, arguments + argument_count);
    auto has = [&](const char* word) {
        return std::find(words.begin(), words.end(), word) != words.end();
    };
    const bool wants_all =
        !has("candidates") && !has("selection") && !has("stages") && !has("whole") && !has("index");
    if (!wants_all) report.keep_others();
    auto wants = [&](const char* part) { return wants_all || has(part); };
    if (has("once")) runs = 1;
    Bench bench(report);
    chunk::Rule restic = *chunk::preset("restic");
    restic.polynomial = 0x3da3358b4dc173;
    const chunk::Rule lbfs = *chunk::preset("lbfs");
    const chunk::Rule gear = *chunk::preset("gear");
    const chunk::Rule fastcdc = *chunk::fastcdc_rule(8 * kib);
    if (wants("candidates")) {
        measure_scan(bench, "rabin (lbfs)", lbfs, 0.5);
        measure_scan(bench, "rabin (restic)", restic, 0);
        measure_scan(bench, "gear", gear, 0.8);
        measure_scan(bench, "gear (xet)", *chunk::preset("xet"), 0);
        measure_scan(bench, "fastcdc 8 KiB", fastcdc, 0.8);
        measure_scan(bench, "borg", *chunk::preset("borg"), 0);
        measure_scan(bench, "storegpu-md5", *chunk::preset("storegpu-md5"), 0);
    }
    if (wants("selection")) {
        measure_selection(bench, "rabin (lbfs)", lbfs);
        measure_selection(bench, "gear", gear);
        measure_selection(bench, "fastcdc 8 KiB", fastcdc);
    }
    if (wants("stages")) measure_stages(bench, lbfs);
    if (wants("whole")) {
        measure_whole(bench, "rabin (lbfs)", lbfs, hash::Algorithm::md5, 0.35, 45);
        measure_whole(bench, "gear", gear, hash::Algorithm::sha1, 0.35, 45);
        measure_whole(bench, "fastcdc 8 KiB", fastcdc, hash::Algorithm::sha1, 0.35, 45);
        for (const char* name : {"xet", "borg", "storegpu-md5", "storegpu-sha1"})
            measure_cuts(bench, name, *chunk::preset(name));
    }
    if (wants("index")) measure_index(bench);
    return report.finish();
}
