// SPDX-License-Identifier: Apache-2.0
// What does a volume on the CUDA engine cost another process on the same GPU? The bandwidth of
// copies in one process, alone, beside a volume whose resident server has parked because nobody
// asks it anything, and beside one that is given command after command; without MPS and, where its
// control program is installed, with it. Then a process faults, and what becomes of the other one's
// volume is told.
//
//   neighbour_bench [--runs N]
//
// This process never touches the GPU: the others are this program once more, in a role.
#include <cuda_runtime.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "bench/support/places.hpp"
#include "bench/support/report.hpp"

using namespace warren;
using namespace warren::bench;

namespace {

enum Role : u64 { main_role, copy_on_device, copy_from_host, idle_volume, busy_volume, fault };

constexpr u64 device_copy_bytes = 4 * gib;
constexpr u64 host_copy_bytes = 1 * gib;
constexpr u64 device_copies = 64;
constexpr u64 host_copies = 8;
const Caller anybody{.check = false};

/// This program in a role. It ends by itself, or with this object, which closes its standard input.
class Companion {
 public:
    explicit Companion(Role role, u64 runs = 0) {
        int ends[2];
        int input[2];
        require(::pipe2(ends, O_CLOEXEC) == 0 && ::pipe2(input, O_CLOEXEC) == 0,
                "cannot make a pipe");
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
        posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
        std::string words[] = {"neighbour_bench", "--role", std::to_string(role), "--runs",
                               std::to_string(runs)};
        char* pointers[6] = {};
        for (u32 i = 0; i < 5; ++i)
            pointers[i] = words[i].data();
        require(::posix_spawn(&child_, "/proc/self/exe", &actions, nullptr, pointers, environ) == 0,
                "cannot start a process");
        posix_spawn_file_actions_destroy(&actions);
        ::close(ends[1]);
        ::close(input[0]);
        input_ = input[1];
        output_ = ::fdopen(ends[0], "r");
    }
    ~Companion() {
        ::close(input_);
        wait();
        std::fclose(output_);
    }
    Companion(const Companion&) = delete;
    Companion& operator=(const Companion&) = delete;

    /// The next line that it prints; empty at the end.
    std::string line() {
        char text[200];
        return std::fgets(text, sizeof text, output_) == nullptr ? "" : text;
    }
    /// Whether a line, or the end of input, arrives within this time.
    bool has_line(int milliseconds) {
        pollfd waiting{::fileno(output_), POLLIN, 0};
        return ::poll(&waiting, 1, milliseconds) > 0;
    }
    int wait() {
        if (child_ == 0) return 0;
        int status = 0;
        ::waitpid(child_, &status, 0);
        child_ = 0;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }

 private:
    pid_t child_ = 0;
    int input_ = -1;
    std::FILE* output_ = nullptr;
};

/// Prints the seconds of each run of many copies.
int be_copier(bool from_host, u64 runs) {
    const u64 bytes = from_host ? host_copy_bytes : device_copy_bytes;
    const u64 copies = from_host ? host_copies : device_copies;
    void* from = nullptr;
    void* to = nullptr;
    const cudaError_t taken = from_host ? cudaMallocHost(&from, bytes) : cudaMalloc(&from, bytes);
    require(taken == cudaSuccess && cudaMalloc(&to, bytes) == cudaSuccess, "no memory to copy");
    cudaStream_t stream = nullptr;
    require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess, "no stream");
    for (u64 run = 0; run <= runs; ++run) {
        const double seconds = time_of([&] {
            for (u64 i = 0; i < copies; ++i)
                cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
            require(cudaStreamSynchronize(stream) == cudaSuccess, "a copy failed");
        });
        if (run > 0) std::printf("%.9f\n", seconds);
    }
    return 0;
}

/// Gives command after command, or none, until the input ends; the first error.
Errc work(Volume& volume, Handle file, bool is_busy) {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    while (::poll(&input, 1, is_busy ? 0 : -1) == 0) {
        for (u32 i = 0; i < 100; ++i)
            WARREN_TRY(volume.attributes(file).code());
    }
    return Errc::ok;
}

/// Opens a volume, reports that, and works on it or not until it is stopped or a call fails.
int be_volume(bool is_busy) {
    const Scratch memory("/dev/shm");
    const std::string image = memory.path() + "/volume.img";
    Failure failure = make_volume(image, {.size_bytes = gib, .label = "", .force = true});
    require(failure.code == Errc::ok, failure.message);
    auto volume = Volume::open(image, {.engine = EngineChoice::cuda}, failure);
    require(volume != nullptr, failure.message);
    const auto made = volume->create(anybody, volume->root(), "file", {});
    require(made && volume->sync() == Errc::ok, "cannot write to the volume");
    std::printf("ready\n");
    std::fflush(stdout);
    const Errc code = work(*volume, made->handle, is_busy);
    if (code != Errc::ok) std::printf("error %d\n", static_cast<int>(code));
    static_cast<void>(volume->close());
    volume.reset();
    volume = Volume::open(image, {.engine = EngineChoice::cpu}, failure);
    const bool is_there = volume && volume->lookup(anybody, volume->root(), "file");
    std::printf("%s\n", is_there ? "opened again, sound" : "cannot be opened again");
    return 0;
}

__global__ void break_down() {
    __trap();
}

int be_faulty() {
    break_down<<<1, 1>>>();
    return cudaDeviceSynchronize() == cudaSuccess ? 1 : 0;
}

void measure_copies(Report& report, const std::string& scenario, const std::string& beside,
                    u64 runs) {
    for (const Role role : {copy_on_device, copy_from_host}) {
        const bool from_host = role == copy_from_host;
        Companion copier(role, runs);
        const double bytes = static_cast<double>(from_host ? host_copy_bytes * host_copies
                                                           : device_copy_bytes * device_copies);
        const std::string what = from_host ? "copy from the host, " : "copy on the device, ";
        for (std::string line; !(line = copier.line()).empty();)
            report.add(what + scenario, beside, std::strtod(line.c_str(), nullptr), bytes);
        require(copier.wait() == 0, "the copying process failed");
    }
}

const std::string alone = "alone";
const std::string beside_parked = "beside a volume that nobody uses";
const std::string beside_busy = "beside a volume at work";

const std::string without_mps = "without MPS";
const std::string with_mps = "under MPS";

/// The fate of a busy volume when another process faults on its GPU.
void report_fault(Report& report, const std::string& scenario) {
    Companion volume(busy_volume);
    require(volume.line() == "ready\n", "the volume's process failed");
    Companion faulty(fault);
    require(faulty.wait() == 0, "the fault did not happen");
    std::string told = "goes on";
    if (volume.has_line(2000)) {
        told = "met ";
        for (std::string line; !(line = volume.line()).empty();)
            told += line.substr(0, line.size() - 1) + "; ";
    }
    report.note(scenario + ", another process faults: the volume at work " + told);
}

void measure(Report& report, const std::string& scenario, u64 runs) {
    measure_copies(report, scenario, alone, runs);
    for (const Role role : {idle_volume, busy_volume}) {
        Companion volume(role);
        require(volume.line() == "ready\n", "the volume's process failed");
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        measure_copies(report, scenario, role == idle_volume ? beside_parked : beside_busy, runs);
    }
    report_fault(report, scenario);
}

/// An MPS daemon, through which processes share the GPU, during its lifetime.
class MpsDaemon {
 public:
    MpsDaemon() {
        ::setenv("CUDA_MPS_PIPE_DIRECTORY", (folder_.path() + "/pipes").c_str(), 1);
        ::setenv("CUDA_MPS_LOG_DIRECTORY", (folder_.path() + "/log").c_str(), 1);
        run_or_die({"mkdir", folder_.path() + "/pipes", folder_.path() + "/log"});
        runs_ = run_program({"nvidia-cuda-mps-control", "-d"}) == 0;
    }
    ~MpsDaemon() {
        if (runs_) run_program({"sh", "-c", "echo quit | nvidia-cuda-mps-control"});
        ::unsetenv("CUDA_MPS_PIPE_DIRECTORY");
        ::unsetenv("CUDA_MPS_LOG_DIRECTORY");
    }
    MpsDaemon(const MpsDaemon&) = delete;
    MpsDaemon& operator=(const MpsDaemon&) = delete;
    bool runs() const { return runs_; }

 private:
    Scratch folder_{"/tmp"};
    bool runs_ = false;
};

/// By what fraction the copies of a scenario are slower beside another process than alone.
double slowdown(const Report& report, const std::string& scenario, const std::string& beside) {
    return report.median(scenario, beside) / report.median(scenario, alone) - 1;
}

void hold_bounds(Report& report, const std::string& behind, double parked, double busy) {
    for (const char* what : {"copy on the device, ", "copy from the host, "}) {
        const std::string scenario = what + behind;
        report.set_reference(scenario, alone);
        report.must(scenario + ", parked: bound over slowdown",
                    parked / std::max(slowdown(report, scenario, beside_parked), 1e-6), 1);
        if (busy == 0) continue;
        report.must(scenario + ", at work: bound over slowdown",
                    busy / std::max(slowdown(report, scenario, beside_busy), 1e-6), 1);
    }
}

int compare(u64 runs, int argument_count, char** arguments) {
    Report report("neighbour_bench", argument_count, arguments);
    measure(report, without_mps, runs);
    hold_bounds(report, without_mps, 0.05, 0);
    if (run_program({"sh", "-c", "command -v nvidia-cuda-mps-control"}) != 0) {
        report.note("MPS was not measured: nvidia-cuda-mps-control is not installed");
        return report.finish();
    }
    const MpsDaemon daemon;
    if (daemon.runs()) {
        measure(report, with_mps, runs);
        hold_bounds(report, with_mps, 0.03, 0.03);
    } else {
        report.note("MPS was not measured: nvidia-cuda-mps-control -d failed");
    }
    return report.finish();
}

}  // namespace

int main(int argument_count, char** arguments) {
    const u64 runs = option(argument_count, arguments, "runs", 5);
    switch (option(argument_count, arguments, "role", main_role)) {
        case copy_on_device:
            return be_copier(false, runs);
        case copy_from_host:
            return be_copier(true, runs);
        case idle_volume:
            return be_volume(false);
        case busy_volume:
            return be_volume(true);
        case fault:
            return be_faulty();
        default:
            return compare(runs, argument_count, arguments);
    }
}
