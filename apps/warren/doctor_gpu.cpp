// SPDX-License-Identifier: Apache-2.0
// The child writes its findings into a pipe, one a line. If the next line takes longer than
// `doctor_patience`, the parent kills the child and reports it.
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>

#include "apps/warren/doctor.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/units.hpp"
#include "base/descriptor.hpp"
#include "gpu/device.hpp"
#include "gpu/failure.hpp"

namespace warren::cli {

namespace {

using Tell = std::function<void(const Finding&)>;

constexpr const char* gpu_subject = "gpu";
constexpr const char* usable_subject = "usable";  // read by the parent, not printed

struct GpuFacts {
    bool is_built = false;  // this program has the CUDA engine
    std::string reason;     // why there is no GPU for it; empty: there is one
    int count = 0;          // of GPUs; the engine uses the first
    gpu::DeviceInfo first;
};

/// Starts the CUDA runtime, so a process that has called this must not fork and use a GPU in the
/// child.
GpuFacts gpu_facts() {
    GpuFacts facts;
#if defined(WARREN_CUDA)
    facts.is_built = true;
    facts.count = gpu::device_count();
    if (facts.count == 0) {
        facts.reason = "this machine has no GPU that CUDA can use";
    } else if (gpu::describe_device(0, facts.first) != Errc::ok) {
        facts.reason = gpu::last_failure().message;
    }
#else
    facts.reason = "this program was built without it";
#endif
    return facts;
}

/// The version of the kernel's driver, from /proc; empty if there is none.
std::string driver_version() {
    std::ifstream file("/proc/driver/nvidia/version");
    std::string line;
    std::getline(file, line);
    std::istringstream words(line);
    for (std::string word; words >> word;) {
        if (word.find_first_not_of("0123456789.") == std::string::npos) return word;
    }
    return "";
}

Finding mps_finding(const gpu::DeviceInfo& gpu) {
    if (gpu.shares_through_mps) {
        return {State::good, "mps",
                "runs, and this program shares the GPU through it; a fault in one of its "
                "processes ends the work of all of them on that GPU"};
    }
    const char* variable = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
    const std::string pipes = variable != nullptr ? variable : "/tmp/nvidia-mps";
    if (::access((pipes + "/control").c_str(), F_OK) == 0) {
        return {State::note, "mps",
                "a control daemon has its pipes in " + quote(pipes) +
                    ", but this program is not its client: is it another user's, or has it ended?"};
    }
    return {State::note, "mps",
            "does not run: processes take turns on the GPU, and while the resident server of one "
            "is awake the copies of others are slower. 'nvidia-cuda-mps-control -d' starts it; "
            "then a fault in one process ends the work of all that share the GPU"};
}

/// Runs in the child.
void examine(const std::string& directory, bool measure, const Tell& tell) {
    const GpuFacts facts = gpu_facts();
    if (!facts.reason.empty()) {
        const bool has_driver = ::access("/dev/nvidiactl", F_OK) == 0;
        std::string advice;
        if (!facts.is_built && has_driver) {
            advice = "; an NVIDIA driver is here: build with cmake --preset cuda";
        } else if (facts.is_built && has_driver) {
            advice =
                "; an NVIDIA driver is here: nvidia-smi shows whether it works, and CUDA 13 "
                "needs driver 580 or later";
        }
        tell({State::note, gpu_subject, "no CUDA engine: " + facts.reason + advice});
        return;
    }
    const std::string driver = driver_version();
    const int cuda = facts.first.driver_version;
    tell({State::good, gpu_subject,
          facts.first.name + ", " + long_size(facts.first.memory_bytes) + " (" +
              long_size(facts.first.memory_free_bytes) + " free), " +
              std::to_string(facts.first.multiprocessors) + " multiprocessors, " +
              (driver.empty() ? "" : "driver " + driver + ", ") + "CUDA " +
              std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10) +
              (facts.count > 1 ? ", the first of " + std::to_string(facts.count) : "")});
    tell(mps_finding(facts.first));
    tell({State::good, usable_subject, ""});
    if (!measure) return;
    for (const Finding& finding : measured_findings(directory, EngineChoice::cuda))
        tell(finding);
}

[[noreturn]] void be_child(int output, const std::string& directory, bool measure) {
    examine(directory, measure, [&](const Finding& finding) {
        const std::string line = std::to_string(static_cast<int>(finding.state)) + "\t" +
                                 finding.subject + "\t" + finding.detail + "\n";
        static_cast<void>(!::write(output, line.data(), line.size()));
    });
    ::_exit(EXIT_SUCCESS);
}

void take_line(const std::string& line, GpuExamination& examination) {
    const std::size_t first = line.find('\t');
    const std::size_t second = line.find('\t', first + 1);
    if (second == std::string::npos) return;
    const auto state = static_cast<State>(line[0] - '0');
    const std::string subject = line.substr(first + 1, second - first - 1);
    if (subject == usable_subject) {
        examination.is_usable = true;
    } else {
        examination.findings.push_back({state, subject, line.substr(second + 1)});
    }
}

/// Reads the child's lines until the end; false if it stopped answering.
bool read_lines(int input, GpuExamination& examination) {
    constexpr auto patience = std::chrono::milliseconds(doctor_patience);
    std::string text;
    for (;;) {
        pollfd waiting{input, POLLIN, 0};
        if (::poll(&waiting, 1, static_cast<int>(patience.count())) <= 0) return false;
        char part[4096];
        const ssize_t got = ::read(input, part, sizeof part);
        if (got <= 0) return true;
        text.append(part, static_cast<std::size_t>(got));
        for (std::size_t end; (end = text.find('\n')) != std::string::npos;) {
            take_line(text.substr(0, end), examination);
            text.erase(0, end + 1);
        }
    }
}

}  // namespace

GpuExamination examine_gpu(const std::string& directory, bool measure) {
    GpuExamination examination;
    int ends[2];
    if (::pipe(ends) != 0) return examination;
    Descriptor input(ends[0]);
    Descriptor output(ends[1]);
    const pid_t child = ::fork();
    if (child < 0) return examination;
    if (child == 0) be_child(output.get(), directory, measure);
    output.close();
    const bool answered = read_lines(input.get(), examination);
    int status = 0;
    if (answered) {
        ::waitpid(child, &status, 0);
        if (!WIFEXITED(status)) {
            examination.findings.push_back(
                {State::bad, gpu_subject, "using it ended a process: nvidia-smi may tell why"});
        }
        return examination;
    }
    // A process that hangs in the driver may ignore even SIGKILL, so do not wait for it.
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, WNOHANG);
    examination.is_usable = false;
    examination.findings.push_back({State::bad, gpu_subject,
                                    "has not answered for " +
                                        std::to_string(doctor_patience.count()) +
                                        " s: nvidia-smi may tell why; --engine=cpu does without"});
    return examination;
}

}  // namespace warren::cli
