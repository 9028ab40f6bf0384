// SPDX-License-Identifier: Apache-2.0
// A check is a parallel quick check of all metadata and, unless that finds them sound, one pass of
// the full check. A repair is a check, the repair of the problems found, and further such rounds
// until one finds nothing. Problems that the last round still finds count as not repaired.
#include "fs/check/check.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/quote.hpp"
#include "fs/check/check_directories.hpp"
#include "fs/check/check_files.hpp"
#include "fs/check/examine_volume.hpp"
#include "fs/check/guarded_disk.hpp"
#include "fs/check/repair.hpp"
#include "fs/commit/journal.hpp"
#include "fs/commit/overlay_disk.hpp"
#include "fs/commit/superblock_io.hpp"
#include "fs/disk/file_disk.hpp"

namespace warren {
namespace {

using check::Context;
using check::Report;
using format::Superblock;

constexpr int rounds_max = 4;

Failure check_failure(const std::string& path, Errc code) {
    if (code == Errc::overflow) {
        return {code, path + ": has more inodes than this check can hold"};
    }
    return {code, path + ": I/O error; check the device and the system's log"};
}

/// Whether both copies agree in the fields that a commit never changes.
bool is_same_volume(const Superblock& a, const Superblock& b) {
    constexpr std::size_t from = offsetof(Superblock, magic);
    constexpr std::size_t to = offsetof(Superblock, clean);
    const auto* first = reinterpret_cast<const std::byte*>(&a);
    const auto* second = reinterpret_cast<const std::byte*>(&b);
    return std::memcmp(first + from, second + from, to - from) == 0;
}

class Checker {
 public:
    Checker(Disk& disk, const std::string& path, const CheckOptions& options, CheckResult& result,
            u64 hash_mask)
        : overlay_(disk),
          disk_(options.repair ? disk : overlay_),
          path_(path),
          options_(options),
          result_(result),
          hash_mask_(hash_mask) {}

    Failure run() {
        WARREN_TRY(check());
        const Errc counted = count_orphans();
        return counted == Errc::ok ? Failure{} : check_failure(path_, counted);
    }

 private:
    Failure check() {
        result_ = {};
        WARREN_TRY(open());
        Report report(options_, result_);
        check_copies(report);
        bool is_done = false;
        WARREN_TRY(run_quick_check(is_done));
        if (is_done) return {};
        result_.was_full = true;
        WARREN_TRY(round(report, options_.repair));
        return options_.repair ? repair_until_clean() : Failure{};
    }

    /// Counts the entries of the orphan directory.
    Errc count_orphans() {
        const u64 place = superblock_.orphan_directory * format::inode_size;
        format::Inode directory{};
        WARREN_TRY(disk_.read(place, std::as_writable_bytes(std::span(&directory, 1))));
        result_.orphans = directory.entries & ~format::entries_dying;
        return Errc::ok;
    }

    /// Reads the superblock and replays the journal; without a repair it overlays the journal.
    Failure open() {
        WARREN_TRY(read_superblock(disk_, path_, superblock_));
        if (must_stay_read_only(superblock_)) {
            return {Errc::not_supported, path_ +
                                             ": uses features that this program cannot check; "
                                             "use a newer warren"};
        }
        const Result<u64> replayed = options_.repair ? Journal::replay(disk_, superblock_)
                                                     : overlay_.show_logged(superblock_);
        if (!replayed) return check_failure(path_, replayed.code());
        transaction_ = std::max(*replayed, superblock_.header.transaction);
        if (*replayed == 0) return {};
        return read_superblock(disk_, path_, superblock_);
    }

    void check_copies(Report& report) {
        Superblock first;
        Superblock second;
        const bool has_first =
            read_superblock_copy(disk_, format::superblock_offset, first) == Errc::ok;
        const bool has_second =
            read_superblock_copy(disk_, format::superblock_copy_offset, second) == Errc::ok;
        if (!has_first) report.volume("superblock: the first copy is damaged");
        if (!has_second) report.volume("superblock: the second copy is damaged");
        if (!has_first || !has_second) return;
        // A newer second copy is not an error: both copies are written second copy first, and that
        // was interrupted.
        if (second.header.transaction <= first.header.transaction &&
            !is_same_volume(first, second)) {
            report.volume("superblock: its two copies disagree");
        }
    }

    /// Runs the quick check. `is_done`: all metadata are sound, so there is nothing to repair.
    Failure run_quick_check(bool& is_done) {
        if (result_.problems > 0 || options_.is_full) return {};
        const Result<bool> looked =
            check::examine_volume(disk_, superblock_, hash_mask_, options_.engine, result_);
        if (!looked) {
            return {looked.code(), path_ + ": cannot check the volume with the CUDA engine: " +
                                       result_.note + "; use the CPU engine"};
        }
        is_done = *looked;
        return is_done && options_.repair ? mark_closed() : Failure{};
    }

    /// Marks the volume as closed. Otherwise readers would still take a sound volume for one that
    /// was not closed, and look for transactions in its journal. The next opening for writing frees
    /// orphans.
    Failure mark_closed() {
        if (superblock_.clean == 1) return {};
        superblock_.clean = 1;
        const Errc code = write_superblock(disk_, superblock_, ++transaction_);
        return code == Errc::ok ? Failure{} : check_failure(path_, code);
    }

    /// Runs the full check once, and repairs the problems found if `repairs`.
    Failure round(Report& report, bool repairs) {
        Context context(disk_, superblock_, hash_mask_, report);
        Errc code = context.frames.load();
        if (code == Errc::ok) context.frames.load_counts();
        if (code == Errc::ok) code = check::scan_inodes(context);
        if (code != Errc::ok) return check_failure(path_, code);
        check::scan_directories(context);
        check::find_lost(context);
        check::scan_files(context);
        check::compare_directories(context);
        context.frames.compare();
        check::compare_inode_count(context);
        if (disk_.has_failed()) report.volume("the disk: some blocks cannot be read (I/O error)");
        report.flush([&](u32 ordinal) { return check::path_of(context, ordinal); });
        count(context);
        if (!repairs) return {};
        if (result_.problems == 0) return mark_closed();
        if (!disk_.has_failed()) return repair(context);
        return {Errc::io, path_ +
                              ": some blocks cannot be read, so nothing was repaired; copy the "
                              "volume to a sound disk and repair the copy"};
    }

    void count(Context& context) {
        result_.inodes = result_.directories = 0;
        for (u32 ordinal = 0; ordinal < context.inodes.count(); ++ordinal) {
            if (!context.inodes.exists(ordinal)) continue;
            ++result_.inodes;
            if (context.inodes.is_directory(ordinal)) ++result_.directories;
        }
        result_.blocks_used = context.frames.blocks_owned();
    }

    Failure repair(Context& context) {
        superblock_.clean = 0;
        Errc code = write_superblock(disk_, superblock_, ++transaction_);
        if (code == Errc::ok) code = check::Repair(context, transaction_).run(superblock_);
        return code == Errc::ok ? mark_closed() : check_failure(path_, code);
    }

    /// Checks again after a repair without reporting, and repairs problems that only show now.
    Failure repair_until_clean() {
        const u64 problems = result_.problems;
        const CheckOptions silent{};
        for (int i = 1; i < rounds_max && result_.problems > 0; ++i) {
            result_.problems = 0;
            Report report(silent, result_);
            WARREN_TRY(round(report, i + 1 < rounds_max));
        }
        const u64 left = std::min(result_.problems, problems);
        result_.problems = problems;
        result_.repaired = problems - left;
        return {};
    }

    OverlayDisk overlay_;  // shows the blocks of the journal; without a repair, below `disk_`
    GuardedDisk disk_;
    const std::string& path_;
    const CheckOptions& options_;
    CheckResult& result_;
    const u64 hash_mask_;
    Superblock superblock_;
    u64 transaction_ = 0;  // the highest number in use
};

}  // namespace

Failure check_disk(Disk& disk, const std::string& path, const CheckOptions& options,
                   CheckResult& result, u64 hash_mask) {
    return Checker(disk, path, options, result, hash_mask).run();
}

Failure check_volume(const std::string& path, const CheckOptions& options, CheckResult& result) {
    Failure failure;
    const OpenMode mode = options.repair ? OpenMode::read_write : OpenMode::read_only;
    const auto disk = FileDisk::open(path, mode, failure);
    if (!disk) return failure;
    return check_disk(*disk, quoted_if_needed(path), options, result);
}

}  // namespace warren
