// SPDX-License-Identifier: Apache-2.0
// A volume on the CUDA engine inside a program that uses the same GPU for itself: the program's
// calls that wait for all kernels return although the server is resident, and a fault in its own
// kernels ends the engine with one line and EIO, with the volume as of the last commit.
#include <cuda_runtime.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <thread>

#include "gpu/device.hpp"
#include "tests/support/memory_volume.hpp"
#include "tests/support/volume_walk.hpp"

namespace warren::device_fault_test {
namespace {

const OpenOptions on_cuda{.workers = 2, .engine = EngineChoice::cuda};
const OpenOptions on_cpu{.workers = 2, .engine = EngineChoice::cpu};

__global__ void count_up(u32* counter) {
    counter[threadIdx.x] += 1;
}

__global__ void break_down() {
    __trap();
}

/// A module as PTX text, loaded while the server runs.
constexpr char module_text[] = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry nothing() { ret; }
)";

/// The longest time of each kind of call.
class CallTimes {
 public:
    template <class Call>
    void take(const std::string& what, const Call& call) {
        const auto begin = std::chrono::steady_clock::now();
        EXPECT_EQ(call(), cudaSuccess) << what;
        const std::chrono::duration<double, std::milli> took =
            std::chrono::steady_clock::now() - begin;
        double& longest = longest_ms_[what];
        longest = std::max(longest, took.count());
    }
    /// Prints all times; no call may have waited for more than some epochs of the server.
    void expect_bounded() const {
        for (const auto& [what, milliseconds] : longest_ms_) {
            std::printf("  %-28s at most %8.2f ms\n", what.c_str(), milliseconds);
            EXPECT_LT(milliseconds, 1000) << what;
        }
    }

 private:
    std::map<std::string, double> longest_ms_;
};

void use_the_gpu(CallTimes& times, std::vector<std::byte>& host) {
    u32* device = nullptr;
    times.take("cudaMalloc", [&] { return cudaMalloc(&device, 64 * mib); });
    times.take("cudaMemset", [&] { return cudaMemset(device, 0, 64 * mib); });
    times.take("legacy kernel", [&] {
        count_up<<<1, 32>>>(device);
        return cudaGetLastError();
    });
    times.take("cudaStreamSynchronize(0)", [] { return cudaStreamSynchronize(nullptr); });
    u32 counted = 0;
    times.take("cudaMemcpy",
               [&] { return cudaMemcpy(&counted, device, sizeof counted, cudaMemcpyDefault); });
    EXPECT_EQ(counted, 1u);
    times.take("cudaDeviceSynchronize", [] { return cudaDeviceSynchronize(); });
    times.take("cudaFree", [&] { return cudaFree(device); });
    times.take("cudaHostRegister",
               [&] { return cudaHostRegister(host.data(), host.size(), cudaHostRegisterDefault); });
    times.take("cudaHostUnregister", [&] { return cudaHostUnregister(host.data()); });
    cudaLibrary_t library = nullptr;
    times.take("cudaLibraryLoadData", [&] {
        return cudaLibraryLoadData(&library, module_text, nullptr, nullptr, 0, nullptr, nullptr, 0);
    });
    times.take("cudaLibraryUnload", [&] { return cudaLibraryUnload(library); });
}

TEST(HostProgram, CallsGetThroughBesideTheServer) {
    if (gpu::device_count() == 0) GTEST_SKIP() << "there is no GPU";
    const auto disk = make_memory_disk(128 * mib);
    auto volume = open_on(*disk, on_cuda);
    ASSERT_TRUE(volume);
    std::atomic<bool> ends{false};
    std::atomic<u64> done{0};
    std::thread worker([&] {
        for (u64 i = 0; !ends; ++i) {
            const std::string name = "f" + std::to_string(i % 50);
            const bool creates = i % 100 < 50;
            const Errc code = creates ? volume->create(anybody, volume->root(), name, {}).code()
                                      : volume->unlink(anybody, volume->root(), name);
            ASSERT_EQ(code, Errc::ok);
            ++done;
        }
    });
    CallTimes times;
    std::vector<std::byte> host(8 * mib);
    for (u32 round = 0; round < 20; ++round)
        use_the_gpu(times, host);
    ends = true;
    worker.join();
    times.expect_bounded();
    EXPECT_GT(done, 100u);
    EXPECT_EQ(volume->close(), Errc::ok);
    ASSERT_TRUE(expect_clean(*disk));
}

/// Captures the standard error stream during its lifetime.
class StandardError {
 public:
    StandardError() : saved_(::dup(STDERR_FILENO)), file_(std::tmpfile()) {
        ::dup2(::fileno(file_), STDERR_FILENO);
    }
    std::string end() {
        ::dup2(saved_, STDERR_FILENO);
        std::rewind(file_);
        std::string text;
        for (int c; (c = std::fgetc(file_)) != EOF;)
            text += static_cast<char>(c);
        std::fclose(file_);
        return text;
    }

 private:
    int saved_;
    std::FILE* file_;
};

/// The volume after the fault: it holds what was synced and nothing else, and is clean.
bool is_as_committed(Disk& disk) {
    auto volume = open_on(disk, on_cpu);
    if (!volume) return false;
    const bool is_right = volume->lookup(anybody, volume->root(), "kept") &&
                          !volume->lookup(anybody, volume->root(), "lost");
    return volume->close() == Errc::ok && is_right && expect_clean(disk);
}

/// Exits with 0 if all is well, otherwise with the number of the failed expectation.
void fault_beside_the_engine() {
    const auto disk = make_memory_disk(64 * mib);
    StandardError errors;
    auto volume = open_on(*disk, on_cuda);
    if (!volume) ::_exit(1);
    if (!volume->create(anybody, volume->root(), "kept", {})) ::_exit(2);
    if (volume->sync() != Errc::ok) ::_exit(3);
    if (!volume->create(anybody, volume->root(), "lost", {})) ::_exit(4);
    break_down<<<1, 1>>>();
    static_cast<void>(cudaDeviceSynchronize());
    for (u32 i = 0; i < 20; ++i) {
        const std::string name = "after" + std::to_string(i);
        if (volume->create(anybody, volume->root(), name, {}).code() != Errc::io) ::_exit(5);
    }
    Removal removal;
    if (volume->remove_tree(anybody, volume->root(), "kept", removal) != Errc::io) ::_exit(6);
    if (volume->sync() != Errc::io) ::_exit(7);
    if (volume->close() != Errc::io) ::_exit(8);
    volume.reset();
    const std::string text = errors.end();
    std::fprintf(stderr, "%s", text.c_str());
    if (std::count(text.begin(), text.end(), '\n') != 1) ::_exit(9);
    ::_exit(is_as_committed(*disk) ? 0 : 10);
}

TEST(DeviceFaultDeathTest, OneLineAndErrorsAndTheLastCommit) {
    if (gpu::device_count() == 0) GTEST_SKIP() << "there is no GPU";
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    EXPECT_EXIT(fault_beside_the_engine(), testing::ExitedWithCode(0),
                "the GPU engine has stopped \\(.+\\); the volume is as its last commit left it");
}

}  // namespace
}  // namespace warren::device_fault_test
