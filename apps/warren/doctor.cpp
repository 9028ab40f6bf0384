// SPDX-License-Identifier: Apache-2.0
// warren doctor: reports what this machine offers Warren and what follows from it, then measures.
//
// Invariant: a figure is printed only if it was measured in this run; a slow or unavailable path is
// reported together with a remedy.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <warren/version.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <future>
#include <thread>
#include <vector>

#include "apps/fuse/fusermount.hpp"
#include "apps/fuse/mount_table.hpp"
#include "apps/warren/arguments.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/doctor.hpp"
#include "apps/warren/json.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/mounts.hpp"
#include "apps/warren/progress.hpp"
#include "apps/warren/units.hpp"
#include "base/last_error.hpp"
#include "base/processors.hpp"
#include "base/temporary_file.hpp"
#include "fs/disk/choose_access.hpp"

namespace warren::cli {

namespace {

constexpr Option doctor_options[] = {
    {'d', "directory", "DIRECTORY",
     "where images are kept, and where to measure (default: $TMPDIR, else /tmp)"},
    {'q', "quick", nullptr, "do not measure"},
    {json_option, "json", nullptr, "print an array of objects"},
};

constexpr ExitCode doctor_exits[] = {
    {"0", "everything that Warren can use is available"},
    {"1", "something is missing"},
};

constexpr Page doctor_page = {
    .usage = "[OPTION]... [MOUNT]...",
    .summary =
        "Report which engine and which kernel interfaces are in use, and measure them: a "
        "small volume in DIRECTORY with each engine, and the round trip of a look-up on each "
        "MOUNT (default: all mounted volumes). Of a mount with a GPU beside its engine it prints "
        "what each of the two is predicted to take, as measured there.",
    .options = doctor_options,
    .exits = doctor_exits,
    .examples =
        "  warren doctor\n"
        "  warren doctor -d /data /mnt/w",
};

class Report {
 public:
    explicit Report(bool json) : json_(json) {
        if (json_) objects_.open_array();
    }
    void add(State state, const std::string& what, const std::string& detail);
    void add(const std::vector<Finding>& findings) {
        for (const Finding& finding : findings)
            add(finding.state, finding.subject, finding.detail);
    }
    int finish() {
        if (json_) print_line({objects_.close_array().result()});
        return bad_ ? 1 : 0;
    }

 private:
    bool json_;
    bool bad_ = false;
    Json objects_;
};

void Report::add(State state, const std::string& what, const std::string& detail) {
    static constexpr std::string_view words[] = {"ok", "note", "missing"};
    const std::string_view word = words[static_cast<size_t>(state)];
    bad_ = bad_ || state == State::bad;
    if (json_) {
        objects_.open_object().member("state", word).member("subject", std::string_view(what));
        objects_.member("detail", std::string_view(detail)).close_object();
        return;
    }
    std::string line(word);
    line.resize(9, ' ');
    line += what + ": ";
    print_line({line, detail});
}

void check_engine(Report& report, const GpuExamination& gpu) {
    const u32 cores = usable_processors();
    const std::string cpu = "cpu, bulk work on " + counted(cores, "core", "cores");
    report.add(
        State::good, "engine",
        gpu.is_usable
            ? "auto is " + cpu +
                  "; a mount takes the GPU for what it does faster, a command on an image ends "
                  "before a GPU is ready (--engine=cuda takes it all the same)"
            : "auto is " + cpu);
    report.add(gpu.findings);
}

void check_fuse(Report& report) {
    const int descriptor = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (descriptor >= 0) {
        ::close(descriptor);
        report.add(State::good, "/dev/fuse", "opens");
    } else if (errno == ENOENT) {
        report.add(State::bad, "/dev/fuse",
                   "is not there, so nothing can be mounted (modprobe fuse; for a container "
                   "--device /dev/fuse --cap-add SYS_ADMIN); IMAGE:/path works all the same");
    } else {
        report.add(State::bad, "/dev/fuse",
                   "cannot be opened: " + reason(last_error()) +
                       ", so nothing can be mounted; IMAGE:/path works all the same");
    }
    const std::string helper = fuse::find_fusermount();
    if (!helper.empty()) {
        report.add(State::good, "fusermount3", helper);
    } else {
        report.add(::geteuid() == 0 ? State::note : State::bad, "fusermount3",
                   fuse::fusermount_missing);
    }
}

void check_kernel(Report& report) {
    utsname names{};
    if (::uname(&names) == 0) {
        report.add(State::good, "kernel", std::string(names.sysname) + " " + names.release);
    }
    char parameters[256] = {};  // larger than struct io_uring_params
    const long ring = ::syscall(SYS_io_uring_setup, 1, parameters);
    if (ring >= 0) {
        ::close(static_cast<int>(ring));
        report.add(State::good, "io_uring", "available");
    } else {
        report.add(State::note, "io_uring",
                   "not available: " + reason(last_error()) +
                       " (a disk is reached by one plain call after the other)");
    }
}

/// Checks what the file system that holds the images can do.
void check_directory(Report& report, const std::string& directory) {
    TemporaryFile file;
    if (const Errc code = file.make(directory); code != Errc::ok) {
        report.add(State::bad, quote(directory), "no file can be made there: " + reason(code));
        return;
    }
    file.forget_name();
    const int descriptor = file.descriptor();
    const std::vector<char> block(64 * kib, 'w');
    bool punches =
        ::write(descriptor, block.data(), block.size()) == static_cast<ssize_t>(block.size()) &&
        ::fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                    static_cast<off_t>(block.size())) == 0;
    struct statfs system {};
    std::string free;
    if (::fstatfs(descriptor, &system) == 0) {
        free = ", " + long_size(system.f_bavail * static_cast<u64>(system.f_bsize)) + " available";
    }
    report.add(punches ? State::good : State::note, quote(directory),
               (punches ? "punches holes, so freed space of a volume goes back"
                        : "punches no holes: freed space of a volume stays with the image") +
                   free);
}

/// Measures, in a temporary file, how images in `directory` are accessed fastest.
void check_disk(Report& report, const std::string& directory) {
    const std::string subject = "disk of " + quote(directory);
    TemporaryFile file;
    if (file.make(directory) != Errc::ok) return;  // check_directory() has reported it
    Failure failure;
    const auto disk = FileDisk::open(file.path(), OpenMode::read_write, failure);
    file.forget_name();
    const bool is_ready = disk != nullptr && disk->resize(4 * mib) == Errc::ok &&
                          disk->Disk::zero(0, disk->size_bytes()) == Errc::ok &&
                          disk->flush() == Errc::ok;
    if (!is_ready) {
        report.add(State::note, subject, "not measured: a file of 4 MiB cannot be written there");
        return;
    }
    const AccessChoice choice = choose_access(*disk, WriteHabit::single, 0, disk->size_bytes());
    report.add(State::good, subject, "a mount takes disk=" + choice.text());
}

std::vector<Finding> examine_mount(const std::string& path, bool measure) {
    const std::string subject = "mount " + quote(path);
    auto connection = fuse::ControlConnection::for_path(path);
    fuse::MountInfo info;
    const Errc code = connection ? connection->info(info) : Errc::no_device;
    if (code != Errc::ok) {
        return {{State::bad, subject,
                 is_on_warren_mount(path)
                     ? "its daemon cannot be reached, so bulk commands do not work there"
                     : "is not on a Warren volume"}};
    }
    std::vector<Finding> findings = {
        {State::good, subject,
         info.image + ", engine " + info.engine + (info.read_only ? ", read-only" : "") +
             ", process " + std::to_string(info.process) + ", bulk commands go to the engine"},
        {State::good, subject, "disk=" + info.disk_note}};
    for (const std::string& line : info.predictions)
        findings.push_back({State::good, subject, "predicted for " + line});
    if (!measure) return findings;
    MountMeasured measured;
    if (measure_mount(path, *connection, measured) != Errc::ok) {
        findings.push_back({State::note, subject, "its round trips could not be measured"});
        return findings;
    }
    findings.push_back({State::good, subject,
                        long_time(measured.lookup_ns) + " a lookup through the kernel (measured)"});
    findings.push_back({State::good, subject,
                        long_time(measured.command_ns) + " a command to the daemon (measured)"});
    return findings;
}

/// A stopped daemon answers nothing, not even requests of the kernel. The thread that sent the
/// request then blocks until the process ends.
void check_mount(Report& report, const std::string& path, bool measure) {
    std::packaged_task<std::vector<Finding>()> examination(
        [path, measure] { return examine_mount(path, measure); });
    std::future<std::vector<Finding>> answer = examination.get_future();
    std::thread(std::move(examination)).detach();
    if (answer.wait_for(doctor_patience) != std::future_status::ready) {
        report.add(State::bad, "mount " + quote(path),
                   "has not answered for " + std::to_string(doctor_patience.count()) +
                       " s; its daemon may be stopped (ps -C warren -o pid,stat,args; "
                       "kill -CONT PID lets it go on)");
        return;
    }
    report.add(answer.get());
}

}  // namespace

std::vector<Finding> measured_findings(const std::string& directory, EngineChoice engine) {
    Measured measured;
    const Failure failure = measure_volume(directory, engine, measured);
    const std::string by = engine == EngineChoice::cpu ? "" : std::string(name_of(engine)) + " ";
    if (failure.code != Errc::ok) {
        return {{State::bad, by + "volume in " + quote(directory), failure.message}};
    }
    const std::string where = " (measured, volume in " + quote(directory) + ")";
    std::vector<Finding> findings;
    const auto add = [&](const std::string& what, const std::string& detail) {
        findings.push_back({State::good, by + what, detail + where});
    };
    if (engine == EngineChoice::cuda) {
        add("opening", long_time(measured.open_ns));
        add("command", long_time(measured.command_ns) +
                           " to the resident server and back, one in a hundred over " +
                           long_time(measured.slow_command_ns));
    }
    add("create", rate_text(measured.create_ns));
    add("lookup", rate_text(measured.lookup_ns));
    add("commit", long_time(measured.commit_ns) + " for one small change");
    add("remove tree",
        long_time(measured.remove_ns) + " a file, in one command for " + grouped(measured.files));
    return findings;
}

namespace {

int command_doctor(std::span<char* const> arguments) {
    const Arguments parsed = parse_arguments(doctor_page, arguments);
    if (parsed.done) return parsed.exit_code;
    const std::string* given = parsed.value('d');
    const std::string directory = given != nullptr ? *given : temporary_folder();
    const bool measure = !parsed.has('q');
    Report report(parsed.has(json_option));
    report.add(State::good, "program", "warren " WARREN_VERSION ", " WARREN_BUILD_NOTE);
    check_engine(report, examine_gpu(directory, measure));
    check_kernel(report);
    check_fuse(report);
    check_directory(report, directory);
    if (measure) {
        const Progress progress("measuring in " + quote(directory));
        check_disk(report, directory);
        report.add(measured_findings(directory, EngineChoice::cpu));
    }
    std::vector<std::string> mounts = parsed.operands;
    if (mounts.empty()) {
        for (const fuse::MountedPlace& place : fuse::read_mount_table()) {
            if (place.is_warren()) mounts.push_back(place.mountpoint);
        }
    }
    for (const std::string& mount : mounts)
        check_mount(report, mount, measure);
    return report.finish();
}

}  // namespace

const Command doctor_command = {"doctor",
                                "check what Warren can use on this machine, and measure it",
                                doctor_page, command_doctor};

}  // namespace warren::cli
