// SPDX-License-Identifier: Apache-2.0
// Lines are printed as each directory finishes, after those of its contents, so none are kept in
// memory; unrelated directories are printed in the order in which threads finish them.
#include "apps/warren/du_host.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <filesystem>

#include "apps/warren/messages.hpp"
#include "apps/warren/place.hpp"
#include "apps/warren/progress.hpp"
#include "apps/warren/ranks.hpp"
#include "apps/warren/units.hpp"
#include "walk/bytes.hpp"

namespace warren::cli {

namespace {

constexpr u32 fields = STATX_TYPE | STATX_NLINK | STATX_INO | STATX_SIZE | STATX_BLOCKS;

}  // namespace

struct HostUsage::Sum {
    u64 own;    // the directory and its entries other than directories
    u64 below;  // the directories in it, with everything below them
};

HostUsage::HostUsage(const UsageChoices& choices, const WalkSetup& setup, Print print)
    : choices_(choices),
      setup_(setup),
      print_(std::move(print)),
      workers_(walk_threads(setup.options)) {
    setup_.options.result_bytes = sizeof(Sum);
    setup_.options.links = &links_;
}

bool HostUsage::may_span_ranks(const UsageChoices& choices, const WalkSetup& setup,
                               const std::vector<std::string>& operands) {
    if (choices.all || choices.top != 0 || choices.histogram) return false;
    if (setup.options.follow == walk::Follow::all) return false;
    std::vector<std::string> places;
    for (const std::string& operand : operands) {
        std::error_code error;
        places.push_back(std::filesystem::canonical(operand, error).string() + "/");
    }
    std::sort(places.begin(), places.end());
    for (size_t at = 1; at < places.size(); ++at) {
        if (places[at].starts_with(places[at - 1])) return false;
    }
    return true;
}

bool HostUsage::is_excluded(std::string_view path) const {
    for (const std::string& pattern : choices_.excluded) {
        std::string rest(path);
        while (true) {
            if (::fnmatch(pattern.c_str(), rest.c_str(), 0) == 0) return true;
            const size_t slash = rest.find('/');
            if (slash == rest.npos) break;
            rest.erase(0, slash + 1);
        }
    }
    return false;
}

bool HostUsage::is_counted(const walk::Entry& entry, const struct statx& status) {
    if (choices_.count_links) return true;
    const u64 device = walk::device_of(status);
    if (choices_.counts_once) return links_.is_new(device, status.stx_ino);
    if (entry.type() == walk::Type::directory) return true;
    return links_.is_first(device, status.stx_ino, status.stx_nlink);
}

walk::Next HostUsage::visit(const walk::Entry& entry) {
    if (!choices_.excluded.empty() && is_excluded(entry.path())) return walk::Next::prune;
    const struct statx* status = entry.status(fields);
    if (status == nullptr) return walk::Next::prune;
    if (entry.type() == walk::Type::link && setup_.options.follow == walk::Follow::all) {
        entry.fail("stat", ENOENT);  // a dangling link
        return walk::Next::prune;
    }
    if (setup_.options.one_file_system && walk::device_of(*status) != root_device_) {
        return walk::Next::prune;
    }
    const bool is_directory = entry.type() == walk::Type::directory;
    const bool asks_ranks = setup_.options.group != nullptr && !is_directory;
    if (!asks_ranks && !is_counted(entry, *status)) return walk::Next::prune;
    const u64 amount = choices_.inodes     ? 1
                       : choices_.apparent ? status->stx_size
                                           : status->stx_blocks * 512;
    if (is_directory) {
        entry.own_result<Sum>().own = amount;
        return walk::Next::go_on;
    }
    if (asks_ranks) {
        const Sum sum{amount, 0};
        entry.add_once(walk::device_of(*status), status->stx_ino,
                       choices_.count_links ? 1 : status->stx_nlink, &sum);
    } else {
        entry.result<Sum>().own += amount;
    }
    if (choices_.top != 0 || choices_.histogram) note_file(entry, amount);
    const bool has_line = entry.depth() == 0 || choices_.all;
    if (has_line && entry.depth() <= choices_.max_depth) {
        std::lock_guard lock(mutex_);
        print_(amount, std::string(entry.path()));
    }
    return walk::Next::go_on;
}

void HostUsage::note_file(const walk::Entry& entry, u64 bytes) {
    Worker& worker = workers_[entry.worker()];
    const size_t bits = static_cast<size_t>(std::bit_width(bytes));
    ++worker.files[bits];
    worker.bytes[bits] += bytes;
    if (choices_.top == 0) return;
    auto& largest = worker.largest;
    if (largest.size() == choices_.top) {
        if (largest.front().first >= bytes) return;
        std::pop_heap(largest.begin(), largest.end(), std::greater());
        largest.pop_back();
    }
    largest.emplace_back(bytes, entry.path());
    std::push_heap(largest.begin(), largest.end(), std::greater());
}

void HostUsage::finish_directory(const walk::Finished& directory) {
    Sum& sum = directory.result<Sum>();
    const u64 amount = sum.own + (choices_.separate ? 0 : sum.below);
    if (directory.depth() <= choices_.max_depth) {
        const std::string path = directory.path();
        std::lock_guard lock(mutex_);
        print_(amount, path);
    }
    // Seen from the parent, all of this directory is "below".
    sum.below += sum.own;
    sum.own = 0;
}

void HostUsage::measure(const std::string& operand) {
    walk::Meter meter;
    setup_.options.meter = &meter;
    walk::Callbacks callbacks;
    callbacks.visit = [&](const walk::Entry& entry) { return visit(entry); };
    callbacks.finish = [&](const walk::Finished& directory) { finish_directory(directory); };
    callbacks.merge = [](void* into, const void* from) {
        static_cast<Sum*>(into)->own += static_cast<const Sum*>(from)->own;
        static_cast<Sum*>(into)->below += static_cast<const Sum*>(from)->below;
    };
    callbacks.fail = [&](const walk::Failure& failure) {
        // A link to a directory above counts as nothing, as in du(1).
        if (std::string_view(failure.action) != "loop") failures_.add(failure);
    };
    // Each rank reads the root itself: another rank, or a run that is resumed, may have visited it.
    struct stat root {};
    const bool follows = setup_.options.follow != walk::Follow::none;
    const char* const name = operand.c_str();
    if ((follows ? ::stat(name, &root) : ::lstat(name, &root)) == 0) root_device_ = device_of(root);
    Sum sum{};
    const Progress progress("measuring " + quote(operand), meter);
    callbacks.save = [&] {
        // All lines about the work that the checkpoint covers have been printed.
        if (rank_number() == 0) finish_output();
        return failures_.save();
    };
    callbacks.load = [&](std::string_view saved) {
        walk::ByteReader reader(saved, walk::Origin::file);
        return failures_.load(reader);
    };
    const walk::Totals totals = walk::walk(std::span(&operand, 1), setup_.options, callbacks, &sum);
    was_interrupted_ = was_interrupted_ || totals.interrupted;
    total_ += sum.own + sum.below;
}

void HostUsage::print_largest() {
    std::vector<std::pair<u64, std::string>> all;
    for (Worker& worker : workers_)
        std::move(worker.largest.begin(), worker.largest.end(), std::back_inserter(all));
    std::sort(all.begin(), all.end(), std::greater());
    if (all.size() > choices_.top) all.resize(choices_.top);
    print_line({"The largest files:"});
    for (const auto& [bytes, path] : all)
        print_(bytes, path);
}

void HostUsage::print_histogram() {
    print_line({"Files by size:"});
    for (size_t bits = 0; bits < workers_[0].files.size(); ++bits) {
        u64 files = 0;
        u64 bytes = 0;
        for (const Worker& worker : workers_) {
            files += worker.files[bits];
            bytes += worker.bytes[bits];
        }
        if (files == 0) continue;
        const std::string bound = bits == 0 ? "0" : "below " + short_size(u64{1} << bits);
        print_line({bound, "\t", counted(files, "file", "files"), "\t", long_size(bytes)});
    }
}

bool HostUsage::finish() {
    end_checkpoints(setup_);
    if (choices_.top != 0) print_largest();
    if (choices_.histogram) print_histogram();
    return failures_.finish();
}

}  // namespace warren::cli
