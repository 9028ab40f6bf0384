// SPDX-License-Identifier: Apache-2.0
// What do limits on memory cost programs? The seven traces of the seed's table 5.2 through a mount
// whose buffers are limited, beside the same volume with everything resident; and with less memory
// than they need in all, daemon included, beside ext4 under the same limit. Images lie in /var/tmp,
// on the machine's disk, past its page cache (ext4: a loop device with direct I/O).
//
// The third part is the seed's figure 5.2: the requests that reach the daemon over time, its
// buffers warm and the kernel's caches empty, where the kernel asks for 2 blocks at a time and
// where it asks for more as long as a reader goes on. It writes trace_requests.csv.
//
//   trace_bench [--runs N] [--part P] [--trace NAME]
//       N runs (5); P: 1 limits against resident, 2 against ext4 with the same memory, 3 requests,
//       0 all (the default); NAME: one trace alone
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <functional>
#include <string_view>
#include <thread>

#include "apps/fuse/control.hpp"
#include "bench/support/memory_limit.hpp"
#include "bench/support/mounts.hpp"
#include "bench/support/places.hpp"
#include "bench/support/report.hpp"
#include "bench/support/traces.hpp"

using namespace warren;
using namespace warren::bench;

namespace {

constexpr const char* disk_folder = "/var/tmp";
constexpr u64 volume_bytes = 2 * gib;

const std::string cold = "cold";
const std::string warm_buffers = "warm, not in the kernel";
const std::string warm = "warm";
const std::string net = ", without the program's own time";
const std::string small = " in 64 MiB";

/// Somewhere that traces run.
struct Subject {
    std::string name;
    std::string path;
    std::function<void()> restart;  // throws away what is in memory
    const MemoryLimit* limit = nullptr;
};

void add(Report& report, const Subject& subject, const Trace& trace, const std::string& state) {
    remove_output(trace);
    if (state != warm) {
        drop_caches(3);
        run_or_die(trace.wake);
        // What the kernel forgets it tells the daemon afterwards.
        ::usleep(200'000);
    }
    const std::vector<std::string> words =
        subject.limit == nullptr ? trace.words : subject.limit->with(trace.words);
    if (state == warm) {
        // Twice more, because the kernel forgets everybody's caches at once, and asks again for the
        // attributes of a directory that it has just listed.
        for (int i = 0; i < 2; ++i) {
            run_or_die(words);
            remove_output(trace);
        }
        ::sync();
    }
    const Took took = time_program(words);
    const std::string row = trace.name + (subject.limit == nullptr ? "" : small) + ", " + state;
    report.add(row, subject.name, took.seconds, 1);
    report.add(row + net, subject.name, std::max(took.seconds - took.own_seconds, 1e-6), 1);
}

/// What runs: all traces or one, and how often.
struct Plan {
    u64 runs;
    std::string only;  // empty: all

    std::vector<Trace> traces(const std::string& folder, std::string& absent) const {
        std::vector<Trace> chosen = traces_in(folder, absent);
        if (!only.empty()) {
            std::erase_if(chosen, [&](const Trace& trace) { return trace.name != only; });
        }
        return chosen;
    }
};

/// Each trace in each state on each subject, one subject right behind the other; who begins changes
/// with the state, the trace and the run.
void measure(Report& report, const std::vector<Subject>& subjects, const Plan& plan,
             const std::vector<std::string>& states) {
    std::string absent;
    for (const Subject& subject : subjects)
        make_trace_inputs(subject.path);
    const size_t count = plan.traces("", absent).size();
    if (!absent.empty()) report.note("left out, because something is not here:" + absent);
    for (u64 run = 0; run < plan.runs; ++run) {
        for (size_t i = 0; i < count; ++i) {
            for (const Subject& subject : subjects)
                subject.restart();
            for (size_t state = 0; state < states.size(); ++state) {
                for (size_t turn = 0; turn < subjects.size(); ++turn) {
                    const Subject& subject = subjects[(run + i + state + turn) % subjects.size()];
                    add(report, subject, plan.traces(subject.path, absent)[i], states[state]);
                }
            }
            for (const Subject& subject : subjects)
                remove_output(plan.traces(subject.path, absent)[i]);
        }
    }
}

void measure_limits(Report& report, const Plan& plan) {
    const Scratch scratch(disk_folder);
    const Scratch resident_scratch(disk_folder);
    WarrenMount limited(scratch.path(), volume_bytes);
    WarrenMount resident(resident_scratch.path(), volume_bytes);
    const std::string limited_options = "engine=cpu,disk=direct,meta_buffer=24M,file_buffer=128M";
    const std::string resident_options = "engine=cpu,disk=direct,file_buffer=1G";
    limited.mount_with(limited_options);
    resident.mount_with(resident_options);
    const auto again = [](WarrenMount& mount, const std::string& options) {
        mount.unmount();
        mount.mount_with(options);
    };
    measure(report,
            {{"resident", resident.path(), [&] { again(resident, resident_options); }},
             {"limited", limited.path(), [&] { again(limited, limited_options); }}},
            plan, {cold, warm_buffers, warm});
    std::string absent;
    for (const Trace& trace : plan.traces("", absent)) {
        for (const std::string& state : {warm_buffers, warm}) {
            const std::string row = trace.name + ", " + state;
            report.set_reference(row, "resident");
            report.set_reference(row + net, "resident");
            report.must("time resident over time limited, " + row + net,
                        report.median(row + net, "resident") / report.median(row + net, "limited"),
                        1 / 1.1);
        }
    }
}

void measure_memory(Report& report, const Plan& plan) {
    if (const std::string why = MemoryLimit::why_not(); !why.empty()) {
        report.note("no comparison with ext4 under a memory limit: " + why);
        return;
    }
    constexpr u64 memory_bytes = 64 * mib;
    const Scratch scratch(disk_folder);
    const MemoryLimit ours("warren", memory_bytes);
    const MemoryLimit theirs("ext4", memory_bytes);
    LoopExt4 ext4(scratch.path(), volume_bytes, 60'000);
    WarrenMount limited(scratch.path(), volume_bytes);
    const std::string options = "engine=cpu,disk=direct,threads=4,meta_buffer=20M,file_buffer=8M";
    limited.mount_with(options, ours.words());
    const auto restart_ext4 = [&] {
        ext4.unmount();
        ext4.mount(true);
    };
    restart_ext4();
    measure(report,
            {{"Warren", limited.path(),
              [&] {
                  limited.unmount();
                  limited.mount_with(options, ours.words());
              },
              &ours},
             {"ext4", ext4.path(), restart_ext4, &theirs}},
            plan, {cold, warm});
    std::string absent;
    for (const Trace& trace : plan.traces("", absent)) {
        for (const std::string& state : {cold, warm})
            report.set_reference(trace.name + small + ", " + state, "ext4");
    }
}

/// Writes down how many requests a mount's daemon has had, two hundred times a second.
class RequestWatch {
 public:
    struct Seen {
        double seconds;
        u64 requests;
    };

    explicit RequestWatch(const std::string& path) {
        auto connection = fuse::ControlConnection::for_path(path);
        require(connection.has_value(), "no daemon answers for " + path);
        thread_ = std::thread([this, own = std::move(*connection)]() mutable {
            const double start = now_seconds();
            u64 first = 0;
            while (!stop_.load(std::memory_order_relaxed)) {
                fuse::MountInfo info;
                require(own.info(info) == Errc::ok, "the daemon has gone");
                if (seen_.empty()) first = info.requests;
                seen_.push_back({now_seconds() - start, info.requests - first});
                ::usleep(5'000);
            }
        });
    }
    ~RequestWatch() { stop(); }
    RequestWatch(const RequestWatch&) = delete;
    RequestWatch& operator=(const RequestWatch&) = delete;
    const std::vector<Seen>& stop() {
        stop_.store(true, std::memory_order_relaxed);
        if (thread_.joinable()) thread_.join();
        return seen_;
    }

 private:
    std::atomic<bool> stop_{false};
    std::vector<Seen> seen_;
    std::thread thread_;
};

/// How far the kernel reads ahead in the files of a mount.
void set_read_ahead(const std::string& path, u64 kibibytes) {
    struct stat facts {};
    require(::stat(path.c_str(), &facts) == 0, "cannot look at " + path);
    const std::string device =
        std::to_string(major(facts.st_dev)) + ":" + std::to_string(minor(facts.st_dev));
    std::ofstream file("/sys/class/bdi/" + device + "/read_ahead_kb");
    file << kibibytes << std::flush;
    require(file.good(), "cannot set the read-ahead of " + path);
}

void measure_requests(Report& report, const Plan& plan) {
    const Scratch scratch(disk_folder);
    WarrenMount mount(scratch.path(), volume_bytes);
    mount.mount_with("engine=cpu,disk=direct,file_buffer=1G");
    make_trace_inputs(mount.path());
    std::ofstream csv(results_folder() / "trace_requests.csv");
    csv << "trace,way,seconds,requests\n";
    std::string absent;
    for (const Trace& trace : plan.traces(mount.path(), absent)) {
        for (const auto& [way, kibibytes] :
             {std::pair("2 blocks", u64{8}), std::pair("growing", mib / kib)}) {
            remove_output(trace);
            set_read_ahead(mount.path(), kibibytes);
            drop_caches(3);
            run_or_die(trace.wake);
            ::usleep(200'000);
            RequestWatch watch(mount.path());
            const Took took = time_program(trace.words);
            u64 last = 0;
            for (const auto& [seconds, requests] : watch.stop()) {
                if (requests == last) continue;
                csv << trace.name << ',' << way << ',' << seconds << ',' << requests << '\n';
                last = requests;
            }
            report.add(trace.name + ", requests watched", way, took.seconds, 1);
            report.note(trace.name + ", " + way + ": " + std::to_string(last) +
                        " requests to the daemon");
        }
        remove_output(trace);
    }
}

}  // namespace

int main(int argument_count, char** arguments) {
    if (argument_count == 3 && std::string_view(arguments[1]) == "--leveldb") {
        return run_leveldb(arguments[2]);
    }
    if (argument_count == 2 && std::string_view(arguments[1]) == "--nothing") return 0;
    Plan plan{option(argument_count, arguments, "runs", 5), ""};
    for (int i = 1; i + 1 < argument_count; ++i) {
        if (std::string_view(arguments[i]) == "--trace") plan.only = arguments[i + 1];
    }
    std::string absent;
    require(!plan.traces("", absent).empty(), "no trace '" + plan.only + "'; absent:" + absent);
    const u64 part = option(argument_count, arguments, "part", 0);
    Report report("trace_bench", argument_count, arguments);
    if (part == 0 || part == 1) measure_limits(report, plan);
    if (part == 0 || part == 2) measure_memory(report, plan);
    if (part == 0 || part == 3) measure_requests(report, plan);
    return report.finish();
}
