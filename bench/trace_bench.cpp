// SPDX-License-Identifier: Apache-2.0
// What do limits on memory cost programs? The seven traces of the seed's table 5.2 through a mount
// whose buffers are limited, beside the same volume with everything resident; and with less memory
// than they need in all, daemon included, beside ext4 under the same limit. Images lie in /var/tmp,
// on the machine's disk, past its page cache (ext4: a loop device with direct I/O).
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
#include "bench/support/daemon_counts.hpp"
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
constexpr size_t warm_repeats = 3;  // in each run

const std::string cold = "cold";
const std::string warm_buffers = "warm, not in the kernel";
const std::string warm = "warm";
const std::string net = ", without the program's own time";
const std::string small = " in 64 MiB";

/// A place where traces run.
struct Subject {
    std::string name;
    std::string path;
    std::function<void()> restart;  // throws away what is in memory
    bool has_daemon = true;
    const MemoryLimit* limit = nullptr;
};

/// The measurements of a trace in a state on a subject, run by run.
struct Measured {
    std::string row;
    std::string subject;
    std::vector<Took> took;
    std::vector<DaemonCounts> counts;  // none where there is no daemon
};

template <class Entry, class Number>
double median_of(const std::vector<Entry>& entries, const Number& number) {
    Sample sample;
    for (const Entry& entry : entries)
        sample.add(static_cast<double>(number(entry)));
    return sample.median();
}

/// Keeps what was measured until the parts in the kernel of all runs are known.
///
/// A trace takes a tenth of a second, in which two mounts that do the same differ by a third. So
/// what each daemon did is counted too, which differs only where work does, in trace_counts.csv.
///
/// What the program computes by itself is left out. The system knows exactly how long it had a
/// core, but only to a tick of 4 ms how much of that was spent in the kernel: so this part is the
/// mean of all runs of a trace in a state, on both mounts, for which the kernel does the same.
class Ledger {
 public:
    explicit Ledger(Report& report) : report_(report) {}

    void add(const Subject& subject, const Trace& trace, const std::string& state, bool is_first);
    /// Adds the times without the programs' own to the report, and what the daemons did.
    void finish();

 private:
    Measured& entry_of(const Subject& subject, const Trace& trace, const std::string& state);
    double system_seconds(const Measured& like) const;
    void write_counts(const Measured& one);

    Report& report_;
    std::ofstream csv_;
    std::vector<Measured> all_;
};

Measured& Ledger::entry_of(const Subject& subject, const Trace& trace, const std::string& state) {
    const std::string row = trace.name + (subject.limit == nullptr ? "" : small) + ", " + state;
    for (Measured& one : all_) {
        if (one.row == row && one.subject == subject.name) return one;
    }
    return all_.emplace_back(Measured{row, subject.name, {}, {}});
}

/// Runs a trace; `is_first`: this subject has done something else before.
void Ledger::add(const Subject& subject, const Trace& trace, const std::string& state,
                 bool is_first) {
    remove_output(trace);
    if (state != warm) {
        drop_caches(3);
        run_or_die(trace.wake);
        // The kernel informs the daemon later of what it forgets.
        ::usleep(200'000);
    }
    const std::vector<std::string> words =
        subject.limit == nullptr ? trace.words : subject.limit->with(trace.words);
    if (state == warm) {
        // Twice more, because the kernel forgets everybody's caches at once, and asks again for the
        // attributes of a directory that it has just listed.
        for (int i = 0; is_first && i < 2; ++i) {
            run_or_die(words);
            remove_output(trace);
        }
        ::sync();
    }
    Measured& entry = entry_of(subject, trace, state);
    const DaemonCounts before = subject.has_daemon ? daemon_counts(subject.path) : DaemonCounts{};
    const Took took = time_program(words);
    if (subject.has_daemon) {
        entry.counts.push_back(counted_since(before, daemon_counts(subject.path)));
    }
    entry.took.push_back(took);
    report_.add(entry.row, subject.name, took.seconds, 1);
}

double Ledger::system_seconds(const Measured& like) const {
    double sum = 0;
    double runs = 0;
    for (const Measured& one : all_) {
        const bool is_like = one.row == like.row && one.counts.empty() == like.counts.empty();
        for (size_t i = 0; is_like && i < one.took.size(); ++i, ++runs)
            sum += one.took[i].system_seconds;
    }
    return sum / runs;
}

void Ledger::write_counts(const Measured& one) {
    if (!csv_.is_open()) {
        csv_.open(results_folder() / "trace_counts.csv");
        csv_ << "scenario,subject,runs,requests,read_bytes,written_bytes,page_faults,switches,"
                "daemon_cpu_seconds,program_cpu_seconds\n";
    }
    csv_ << '"' << one.row << "\",\"" << one.subject << "\"," << one.counts.size();
    for (const auto number :
         {&DaemonCounts::requests, &DaemonCounts::read_bytes, &DaemonCounts::written_bytes,
          &DaemonCounts::page_faults, &DaemonCounts::switches}) {
        csv_ << ','
             << median_of(one.counts, [&](const DaemonCounts& counts) { return counts.*number; });
    }
    const auto daemon = [](const DaemonCounts& counts) { return counts.cpu_seconds; };
    const auto program = [](const Took& took) { return took.cpu_seconds; };
    csv_ << ',' << median_of(one.counts, daemon) << ',' << median_of(one.took, program) << '\n';
}

void Ledger::finish() {
    for (const Measured& one : all_) {
        const double system = system_seconds(one);
        for (const Took& took : one.took) {
            const double left = took.seconds - took.cpu_seconds + system;
            report_.add(one.row + net, one.subject, std::max(left, 1e-6), 1);
        }
        if (!one.counts.empty()) write_counts(one);
    }
    all_.clear();
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

/// Each trace in each state on each subject, one subject right behind the other; the first subject
/// changes with the state, the trace and the run.
void measure(Report& report, Ledger& ledger, const std::vector<Subject>& subjects, const Plan& plan,
             const std::vector<std::string>& states) {
    std::string absent;
    for (const Subject& subject : subjects)
        make_trace_inputs(subject.path);
    const size_t count = plan.traces("", absent).size();
    if (!absent.empty()) report.note("left out, because something is not here:" + absent);
    // Runs each subject once in a state, or again; `turn` chooses the first.
    const auto round = [&](size_t trace, const std::string& state, size_t turn, bool is_first) {
        for (size_t i = 0; i < subjects.size(); ++i) {
            const Subject& subject = subjects[(turn + i) % subjects.size()];
            ledger.add(subject, plan.traces(subject.path, absent)[trace], state, is_first);
        }
    };
    for (u64 run = 0; run < plan.runs; ++run) {
        for (size_t i = 0; i < count; ++i) {
            for (const Subject& subject : subjects)
                subject.restart();
            for (size_t state = 0; state < states.size(); ++state) {
                const size_t repeats = states[state] == cold ? 1 : warm_repeats;
                for (size_t repeat = 0; repeat < repeats; ++repeat)
                    round(i, states[state], run + i + state + repeat, repeat == 0);
            }
            for (const Subject& subject : subjects)
                remove_output(plan.traces(subject.path, absent)[i]);
        }
    }
    ledger.finish();
}

void measure_limits(Report& report, Ledger& ledger, const Plan& plan) {
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
    measure(report, ledger,
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

void measure_memory(Report& report, Ledger& ledger, const Plan& plan) {
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
    measure(report, ledger,
            {{"Warren", limited.path(),
              [&] {
                  limited.unmount();
                  limited.mount_with(options, ours.words());
              },
              true, &ours},
             {"ext4", ext4.path(), restart_ext4, false, &theirs}},
            plan, {cold, warm});
    std::string absent;
    for (const Trace& trace : plan.traces("", absent)) {
        for (const std::string& state : {cold, warm})
            report.set_reference(trace.name + small + ", " + state, "ext4");
    }
}

/// Records how many requests a mount's daemon has had, two hundred times a second.
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

/// The seed's figure 5.2: the requests that reach the daemon over time, its buffers warm and the
/// kernel's caches empty, where the kernel asks for 2 blocks at a time and where it asks for more
/// as long as a reader goes on. Writes trace_requests.csv.
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
    Ledger ledger(report);
    if (part != 0 || !plan.only.empty()) report.keep_others();
    if (part == 0 || part == 1) measure_limits(report, ledger, plan);
    if (part == 0 || part == 2) measure_memory(report, ledger, plan);
    if (part == 0 || part == 3) measure_requests(report, plan);
    return report.finish();
}
