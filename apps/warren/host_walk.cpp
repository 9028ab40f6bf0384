// SPDX-License-Identifier: Apache-2.0
// Messages use the wording of find(1), du(1) and rm(1).
#include "apps/warren/host_walk.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <set>

#include "apps/warren/json.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/mounts.hpp"
#include "apps/warren/progress.hpp"
#include "apps/warren/ranks.hpp"
#include "apps/warren/units.hpp"
#include "base/last_error.hpp"
#include "base/processors.hpp"
#include "walk/bytes.hpp"
#include "walk/rank.hpp"

namespace warren::cli {

namespace {

constexpr size_t failures_printed = 1000;
constexpr u64 threads_most = 4096;
constexpr u64 checkpoint_seconds_most = 1'000'000;
constexpr u64 list_bytes_least = 4 * kib;
FailureList* opened_list = nullptr;

/// A copy of the words that stays valid until the program ends.
const char* lasting(std::string_view words) {
    static std::set<std::string, std::less<>> known;
    return known.emplace(words).first->c_str();
}

std::string sentence(const walk::Failure& failure) {
    const std::string_view action = failure.action;
    const std::string why = reason(static_cast<Errc>(failure.error));
    if (action == "stat") return "cannot access " + quote(failure.path) + ": " + why;
    if (action == "open" || action == "read") {
        return "cannot read directory " + quote(failure.path) + ": " + why;
    }
    if (action == "loop") {
        return "not entered: " + quote(failure.path) + " leads to a directory above it";
    }
    if (action == "omit") return "-r not specified; omitting directory " + quote(failure.path);
    if (action == "copy into itself") {
        return "cannot copy a directory, " + quote(failure.path) + ", into itself";
    }
    if (action == "copy onto itself") {
        return quote(failure.path) + " and its target are the same file";
    }
    if (action == "keep the queue of rank 0 in") {
        return "cannot " + std::string(action) + " " + quote(failure.path) + ": " + why +
               "; nothing is lost, but memory has what is beyond --memory: let TMPDIR name a "
               "folder with room";
    }
    if (action == "read again the queue of rank 0 in") {
        return "cannot " + std::string(action) + " " + quote(failure.path) + ": " + why +
               "; a part of the tree is missing: let TMPDIR name another folder";
    }
    if (action == walk::action_resume) {
        return "cannot resume from " + quote(failure.path) + ": " +
               checkpoint_reason(static_cast<Errc>(failure.error));
    }
    if (action == "copy while it changes") {
        return quote(failure.path) + ": changed while it was copied; run again";
    }
    if (action == "verify") return quote(failure.path) + " is not what was written";
    return "cannot " + std::string(action) + " " + quote(failure.path) + ": " + why;
}

/// Whether the option's value is one of the names; if not, prints an error message.
bool is_one_of(std::span<const std::string_view> names, std::string_view value,
               std::string_view option) {
    if (std::ranges::find(names, value) != names.end()) return true;
    complain({"invalid value ", quote(value), " for ", option, ": name ",
              listed({names.begin(), names.end()})});
    return false;
}

}  // namespace

std::vector<std::string_view> scheduler_choices() {
    std::vector<std::string_view> names;
    for (const walk::SchedulerName& known : walk::scheduler_names())
        names.push_back(known.name);
    return names;
}

WalkSetup::WalkSetup() {
    options.group = rank_group();
}

bool WalkSetup::take(int option, const std::string& value) {
    if (option == errors_option) {
        errors_file = value;
    } else if (option == inode_order_option) {
        options.inode_order = true;
    } else if (option == memory_option) {
        const std::optional<u64> size = parse_size(value);
        if (!size || *size < list_bytes_least) {
            complain({"invalid memory ", quote(value), ": name 4K or more"});
            return false;
        }
        list_bytes = options.queue_bytes = *size;
    } else if (option == progress_option) {
        Progress::show_always();
    } else if (option == checkpoint_option) {
        options.checkpoint = value;
    } else if (option == resume_option) {
        options.resume = true;
    } else if (option == scheduler_option) {
        const auto named = walk::scheduler_named(value);
        if (!named) {
            complain(
                {"there is no scheduler ", quote(value), ": it is ", listed(scheduler_choices())});
            return false;
        }
        options.scheduler = named->scheduler;
        if (!split_given) options.split = named->split;
    } else if (option == ahead_option) {
        if (!is_one_of(when_names, value, "--ask-ahead")) return false;
        options.ahead = value == "auto"     ? walk::Ahead::measured
                        : value == "always" ? walk::Ahead::always
                                            : walk::Ahead::never;
    } else if (option == split_option) {
        if (!is_one_of(split_names, value, "--split")) return false;
        options.split = value == "half" ? walk::Split::half : walk::Split::random;
        split_given = true;
    } else {
        return take_number(option, value);
    }
    return true;
}

bool WalkSetup::take_number(int option, const std::string& value) {
    const std::optional<u64> number = parse_number(value);
    const u64 most = option == threads_option              ? threads_most
                     : option == checkpoint_seconds_option ? checkpoint_seconds_most
                                                           : ~u64{0};
    if (!number || *number == 0 || *number > most) {
        complain({"invalid number ", quote(value), " for ",
                  option == threads_option              ? "--threads: name 1 to 4096"
                  : option == checkpoint_seconds_option ? "--checkpoint-every: name 1 to 1000000"
                                                        : "--max-ops: name at least 1"});
        return false;
    }
    if (option == threads_option) options.threads = static_cast<u32>(*number);
    if (option == rate_option) options.operations_per_second = *number;
    if (option == checkpoint_seconds_option) {
        options.checkpoint_milliseconds = static_cast<u32>(*number * 1000);
    }
    return true;
}

bool WalkSetup::take_all(const Arguments& parsed) {
    for (const auto& [option, value] : parsed.options) {
        if (is_walk_option(option) && !take(option, value)) return false;
    }
    return true;
}

bool WalkSetup::leave_to_rank_0() {
    const bool is_done = cli::leave_to_rank_0();
    options.group = nullptr;
    return is_done;
}

ChangeLimit::ChangeLimit(const walk::Options& options)
    : limit_(options.group == nullptr || options.operations_per_second == 0
                 ? options.operations_per_second
                 : std::max<u64>(1, options.operations_per_second / options.group->ranks())) {}

FailureList::~FailureList() {
    if (opened_list == this) opened_list = nullptr;
    if (file_ != nullptr) std::fclose(file_);
}

bool FailureList::open(const std::string& file, bool goes_on) {
    opened_list = this;
    if (file.empty()) return true;
    name_ = file;
    if (rank_number() == 0) file_ = std::fopen(file.c_str(), goes_on ? "ae" : "we");
    if (rank_number() == 0 && file_ == nullptr) {
        complain({"cannot make ", quote(file), ": ", reason(last_error())});
    }
    return share_over_ranks(file_ == nullptr ? "no" : "yes") == "yes";
}

void FailureList::receive(std::string_view bytes) {
    walk::ByteReader reader(bytes);
    const i32 error = reader.get<i32>();
    const char* action = lasting(reader.get_bytes());
    if (opened_list != nullptr) opened_list->add({std::string(reader.get_bytes()), action, error});
}

void FailureList::add(const walk::Failure& failure) {
    if (rank_number() != 0) {
        walk::ByteWriter writer;
        writer.put(failure.error);
        writer.put_bytes(failure.action);
        writer.put_bytes(failure.path);
        return send_to_rank_0(RankMessage::failure, writer.bytes());
    }
    std::lock_guard lock(mutex_);
    ++count_;
    if (first_.size() < failures_printed) first_.push_back(failure);
    if (file_ == nullptr) return;
    Json json;
    json.open_object().member("path", std::string_view(failure.path));
    json.member("action", std::string_view(failure.action));
    json.member("errno", static_cast<u64>(failure.error));
    json.member("reason", std::string_view(reason(static_cast<Errc>(failure.error))));
    const std::string line = json.close_object().result() + "\n";
    if (std::fwrite(line.data(), 1, line.size(), file_) != line.size()) file_failed_ = true;
}

u64 FailureList::count() const {
    std::lock_guard lock(mutex_);
    return count_;
}

std::string FailureList::save() {
    std::lock_guard lock(mutex_);
    if (file_ != nullptr && std::fflush(file_) != 0) file_failed_ = true;
    struct stat status {};
    const bool has_file = file_ != nullptr && ::fstat(::fileno(file_), &status) == 0;
    walk::ByteWriter writer;
    writer.put(count_);
    writer.put_bytes(has_file ? name_ : std::string());
    writer.put(static_cast<u64>(status.st_size));
    for (const walk::Failure& failure : first_) {
        writer.put(failure.error);
        writer.put_bytes(failure.action);
        writer.put_bytes(failure.path);
    }
    return writer.take();
}

bool FailureList::load(walk::ByteReader& saved) {
    const u64 count = saved.get<u64>();
    const std::string_view file = saved.get_bytes();
    const auto kept = static_cast<off_t>(saved.get<u64>());
    std::vector<walk::Failure> failures;
    while (!saved.at_end()) {
        const i32 error = saved.get<i32>();
        const char* action = lasting(saved.get_bytes());
        failures.push_back({std::string(saved.get_bytes()), action, error});
    }
    if (!saved.good()) return false;
    std::lock_guard lock(mutex_);
    count_ += count;
    const bool is_same_file = file == name_;
    // What was written after the checkpoint will be reported again, and its last line may be
    // incomplete: cut it off.
    struct stat status {};
    if (is_same_file && file_ != nullptr && ::fstat(::fileno(file_), &status) == 0 &&
        status.st_size > kept && ::ftruncate(::fileno(file_), kept) != 0) {
        file_failed_ = true;
    }
    std::ranges::move(failures, std::back_inserter(first_));
    return true;
}

bool FailureList::finish() {
    flush_ranks();
    std::lock_guard lock(mutex_);
    if (!is_silent_) {
        for (const walk::Failure& failure : first_)
            complain({sentence(failure)});
    }
    if (count_ > first_.size() && !is_silent_) {
        complain({"and ", grouped(count_ - first_.size()), " more",
                  name_.empty() ? " (--errors FILE keeps them all)" : ""});
    }
    if (file_ != nullptr) {
        if (std::fclose(file_) != 0) file_failed_ = true;
        file_ = nullptr;
        if (file_failed_) complain({"cannot write ", quote(name_)});
    }
    return count_ == 0 && !file_failed_;
}

bool spans_one_rank(bool alone, const std::vector<std::string>& operands) {
    if (rank_count() == 1) return false;
    if (rank_number() == 0) {
        alone = alone || std::any_of(operands.begin(), operands.end(), is_of_volume);
    }
    return share_over_ranks(alone ? "alone" : "together") == "alone";
}

u32 walk_threads(const walk::Options& options) {
    if (options.threads != 0) return options.threads;
    return std::min(usable_processors(), 32u);
}

LineBuffers::LineBuffers(const walk::Options& options) : buffers_(walk_threads(options)) {}

void LineBuffers::send(std::string& text) {
    if (text.empty()) return;
    print_bytes(text);
    text.clear();
}

void LineBuffers::flush() {
    for (Buffer& buffer : buffers_)
        send(buffer.text);
}

Descriptor open_again(const walk::Finished& directory, int flags) {
    Descriptor opened(::openat(directory.directory(), directory.name(), flags | O_DIRECTORY));
    if (opened && !directory.is_read(opened.get())) {
        opened.close();
        errno = ESTALE;
    }
    return opened;
}

void raise_open_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 1u << 16);
    static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
}

char type_letter(walk::Type type) {
    static constexpr std::string_view letters = "?pcdbfls";
    return letters[static_cast<size_t>(type)];
}

void append_number(std::string& text, u64 number) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
    text.append(digits, end);
}

}  // namespace warren::cli
