// SPDX-License-Identifier: Apache-2.0
// What does it cost a kernel to read a file that is mapped in device memory, beside a buffer of
// cudaMalloc with the same bytes? Both are read by the same kernel, in turns, and the sums must
// agree with the host's. Then what it takes to get there and back: mapping a file (disk to device),
// writing through the volume to a mapped file, writing the mapping back.
//
//   device_read_bench IMAGE [--gib N] [--runs N]    a file of N GiB (4), N runs (9); IMAGE is made
//                                                   and removed, in a file system in memory at best
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/random.hpp"
#include "bench/support/places.hpp"
#include "bench/support/report.hpp"
#include "gpu/buffer.hpp"
#include "gpu/failure.hpp"
#include "gpu/stream.hpp"
#include "warren/volume.hpp"

using namespace warren;
using namespace warren::bench;

namespace {

const Caller anybody{.check = false};
constexpr u64 piece_bytes = 16 * mib;
const char* const in_place = "mapped file, read by a kernel";
const char* const raw = "cudaMalloc, read by the same kernel";

/// Adds up all words; sixteen bytes a load, four loads under way in a thread.
__global__ void add_up(FileView view, u64* sum) {
    const uint4* words = view.as<const uint4>();
    const u64 count = view.count<uint4>();
    const u64 step = u64{gridDim.x} * blockDim.x;
    u64 mine = 0;
    u64 i = u64{blockIdx.x} * blockDim.x + threadIdx.x;
    for (; i + 3 * step < count; i += 4 * step) {
        uint4 four[4];
#pragma unroll
        for (u32 k = 0; k < 4; ++k)
            four[k] = __ldcs(words + i + k * step);
#pragma unroll
        for (u32 k = 0; k < 4; ++k)
            mine += u64{four[k].x} + four[k].y + four[k].z + four[k].w;
    }
    for (; i < count; i += step)
        mine += u64{words[i].x} + words[i].y + words[i].z + words[i].w;
    for (u32 lanes = 16; lanes > 0; lanes /= 2)
        mine += __shfl_down_sync(~0u, mine, lanes);
    if (threadIdx.x % 32 == 0) device_atomic<u64>(*sum).fetch_add(mine, hd::memory_order_relaxed);
}

__global__ void add_one(FileView view) {
    const u64 step = u64{gridDim.x} * blockDim.x;
    for (u64 i = u64{blockIdx.x} * blockDim.x + threadIdx.x; i < view.count<u32>(); i += step)
        view.as<u32>()[i] += 1;
}

/// Runs add_up() with a stopwatch on the device.
class Reader {
 public:
    Reader() {
        require(stream_.open() == Errc::ok && begin_.open() == Errc::ok &&
                    end_.open() == Errc::ok && sum_.allocate(1) == Errc::ok,
                "no GPU: " + gpu::last_failure().message);
        cudaDeviceProp device;
        require(cudaGetDeviceProperties(&device, 0) == cudaSuccess, "no GPU");
        blocks_ = static_cast<u32>(device.multiProcessorCount) * 4;
    }

    double read(const FileView& view, u64 expected) {
        require(stream_.fill(sum_.data(), 0, sum_.bytes()) == Errc::ok, "fill");
        require(begin_.record(stream_) == Errc::ok, "record");
        add_up<<<blocks_, 512, 0, stream_.get()>>>(view, sum_.data());
        require(cudaGetLastError() == cudaSuccess && end_.record(stream_) == Errc::ok, "launch");
        u64 sum = 0;
        require(
            stream_.copy(&sum, sum_.data(), sizeof sum) == Errc::ok && stream_.wait() == Errc::ok,
            "read");
        require(sum == expected, "the kernel read other bytes than were written");
        return static_cast<double>(*end_.milliseconds_since(begin_)) / 1000;
    }
    void change(const FileView& view) {
        add_one<<<blocks_, 512, 0, stream_.get()>>>(view);
        require(stream_.wait() == Errc::ok, "change");
    }

 private:
    gpu::Stream stream_;
    gpu::Event begin_;
    gpu::Event end_;
    gpu::DeviceBuffer<u64> sum_;
    u32 blocks_ = 0;
};

/// A volume in an image of its own, with one file.
class File {
 public:
    File(const std::string& image, u64 bytes) : image_(image) {
        FormatOptions format;
        format.size_bytes = bytes + bytes / 8 + gib;
        format.force = true;
        Failure failure = make_volume(image, format);
        require(failure.code == Errc::ok, failure.message);
        volume_ = Volume::open(image, {.engine = EngineChoice::cuda}, failure);
        require(volume_ != nullptr, failure.message);
        CreateOptions options;
        options.open = true;
        const auto made = volume_->create(anybody, volume_->root(), "data", options);
        require(bool(made), "create");
        file_ = made->handle;
    }
    ~File() {
        static_cast<void>(volume_->release(file_));
        volume_.reset();
        std::remove(image_.c_str());
    }

    Volume& volume() { return *volume_; }
    Handle handle() const { return file_; }
    /// Writes `bytes` from `offset` on, sixteen MiB a call.
    void write(u64 offset, const std::vector<u32>& words) {
        const auto bytes = std::as_bytes(std::span(words));
        const auto put = volume_->write(file_, offset, bytes);
        require(put && *put == bytes.size(), "write");
    }

 private:
    const std::string image_;
    std::unique_ptr<Volume> volume_;
    Handle file_;
};

/// Fills the file; the sum of its words.
u64 fill(File& file, u64 bytes) {
    Random random(1);
    std::vector<u32> words(piece_bytes / sizeof(u32));
    u64 sum = 0;
    for (u64 at = 0; at < bytes; at += piece_bytes) {
        for (u32& word : words)
            sum += word = static_cast<u32>(random.next());
        file.write(at, words);
    }
    return sum;
}

/// Reads the mapping and a raw buffer with the same bytes in turns.
void measure_reading(const MappedFile& mapped, u64 sum, u64 runs, Report& report) {
    const FileView& view = mapped.view();
    const auto size = static_cast<double>(view.bytes);
    gpu::DeviceBuffer<std::byte> buffer;
    require(buffer.allocate(view.bytes) == Errc::ok, "no memory for the raw buffer");
    require(cudaMemcpy(buffer.data(), view.data, view.bytes, cudaMemcpyDefault) == cudaSuccess,
            "copy");
    Reader reader;
    for (u64 run = 0; run < runs + 1; ++run) {
        const double first = reader.read(view, sum);
        const double second = reader.read({buffer.data(), view.bytes, 0}, sum);
        if (run == 0) continue;  // loads the kernel
        report.add("reading", in_place, first, size);
        report.add("reading", raw, second, size);
    }
    report.set_reference("reading", raw);
    const double speed = size / report.median("reading", in_place);
    report.must("TB/s of a kernel that reads a mapped file", speed / 1e12, 3.8);
    report.note("time over a raw buffer / time over the mapped file (goal 0.99): " +
                std::to_string(report.median("reading", raw) / report.median("reading", in_place)));
    reader.change(view);
}

/// Writes back what the kernel changed, and checks that it has arrived.
void measure_writing_back(File& file, MappedFile& mapped, Report& report) {
    const double seconds =
        time_of([&] { require(mapped.write_back() == Errc::ok, "cannot write back"); });
    report.add("writing back", "device to disk, by pinned staging", seconds,
               static_cast<double>(mapped.view().bytes));
    std::vector<u32> words(piece_bytes / sizeof(u32));
    const auto got = file.volume().read(file.handle(), 0, std::as_writable_bytes(std::span(words)));
    require(got && *got == piece_bytes, "read");
    Random random(1);
    for (const u32 word : words)
        require(word == static_cast<u32>(random.next()) + 1, "the kernel's change is not there");
}

}  // namespace

int main(int argument_count, char** arguments) {
    require(argument_count > 1 && arguments[1][0] != '-', "usage: device_read_bench IMAGE");
    const u64 bytes = option(argument_count, arguments, "gib", 4) * gib;
    const u64 runs = option(argument_count, arguments, "runs", 9);
    Report report("device_read_bench", argument_count, arguments);
    File file(arguments[1], bytes);
    const u64 sum = fill(file, bytes);
    std::unique_ptr<MappedFile> mapped;
    for (u64 run = 0; run < 3; ++run) {
        mapped.reset();
        const double seconds = time_of([&] {
            require(file.volume().map_file(file.handle(), {}, mapped) == Errc::ok,
                    "cannot map: " + gpu::last_failure().message);
        });
        report.add("mapping", "disk to device, by pinned staging", seconds,
                   static_cast<double>(bytes));
    }
    require(mapped->is_on_device(), "the file is not on the device");
    measure_reading(*mapped, sum, runs, report);
    measure_writing_back(file, *mapped, report);
    const std::vector<u32> words(piece_bytes / sizeof(u32));
    for (const char* subject : {"to a mapped file", "to a file that is not mapped"}) {
        for (u64 run = 0; run < runs; ++run) {
            report.add("16 MiB written", subject,
                       time_of([&] { file.write(run * piece_bytes, words); }),
                       static_cast<double>(piece_bytes));
        }
        mapped.reset();
    }
    return report.finish();
}
