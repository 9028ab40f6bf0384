// SPDX-License-Identifier: Apache-2.0
// Pipes that are read and devices that are written into are copied as streams; a target that is a
// link is replaced by its destination. Rank 0 examines the operands, so that all ranks copy the
// same things to the same places.
#include "apps/warren/cp_host.hpp"

#include <cerrno>
#include <cstdlib>
#include <memory>

#include "apps/warren/directory.hpp"
#include "apps/warren/location.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/progress.hpp"
#include "apps/warren/ranks.hpp"
#include "base/last_error.hpp"

namespace warren::cli {

std::string folder_of(std::string_view path) {
    while (path.size() > 1 && path.ends_with('/'))
        path.remove_suffix(1);
    const size_t slash = path.rfind('/');
    if (slash == path.npos) return ".";
    return std::string(path.substr(0, slash == 0 ? 1 : slash));
}

HostCopy::HostCopy(CopyRun& run, std::string target, bool must_be_directory, bool is_name)
    : run_(run),
      target_(std::move(target)),
      must_be_directory_(must_be_directory),
      is_name_(is_name) {}

bool HostCopy::find_target() {
    struct stat status {};
    const int error = ::stat(target_.c_str(), &status) == 0 ? 0 : errno;
    const bool is_directory = error == 0 && S_ISDIR(status.st_mode);
    into_ = is_directory && !is_name_;
    links_folder_ = is_directory ? target_ : folder_of(target_);
    if (into_ || !must_be_directory_) return true;
    const Errc code = error == 0 ? Errc::not_directory : static_cast<Errc>(error);
    complain(
        {"target ", quote(target_), ": ", reason(code), missing_hint(parse_location(target_))});
    return false;
}

/// The folder for links, then source and target of every tree, each terminated by a zero byte.
std::string HostCopy::plan(const std::vector<std::string>& sources) {
    if (!find_target()) ++refused_;
    if (refused_ != 0) return {};
    std::string pairs = links_folder_ + '\0';
    for (const std::string& source : sources)
        plan_one(source, pairs);
    return pairs;
}

/// What all ranks copy, and the mark of the run. When resuming from a checkpoint these are those of
/// the earlier run, since that may have created the target already.
bool HostCopy::decide(const std::vector<std::string>& sources, std::string& pairs) {
    std::string decided;
    if (rank_number() == 0) {
        pairs = plan(sources);
        decided = run_.mark + '\0' + pairs;
    }
    if (!begin_checkpoints(run_.setup, decided)) return false;
    decided = share_over_ranks(decided);
    const size_t end = decided.find('\0');
    run_.mark = decided.substr(0, end);
    pairs = decided.substr(end + 1);
    return true;
}

bool HostCopy::all(const std::vector<std::string>& sources) {
    std::string pairs;
    if (!decide(sources, pairs)) return false;
    {
        walk::Meter meter;
        run_.setup.options.meter = &meter;
        const Progress progress("copying", meter);
        std::vector<std::string> names;
        for (size_t begin = 0; begin < pairs.size(); begin += names.back().size() + 1)
            names.emplace_back(pairs.c_str() + begin);
        for (size_t i = 1; i + 1 < names.size(); i += 2) {
            if (!TreeCopy(run_, names[i], names[i + 1], names[0]).copy()) was_interrupted_ = true;
        }
        run_.lines.flush();
        run_.setup.options.meter = nullptr;
        if (was_interrupted_) return true;
        if (!names.empty() && rank_number() == 0) remove_link_folder(run_, names[0]);
    }
    end_checkpoints(run_.setup);
    const bool is_good = run_.failures.finish() && refused_ == 0;
    if (run_.rules.sums_up) run_.tally.print(run_.failures.count() + refused_);
    return is_good;
}

void HostCopy::plan_one(const std::string& source, std::string& pairs) {
    std::string target = target_;
    const std::string_view last = last_component(source);
    if (into_ && (last == "." || last == ".." || last == "/")) {
        target = joined(target_, ".");  // the directory, if the target is a link to it
    } else if (into_) {
        target = joined(target_, last);
        if (!made_.insert(target).second) {
            complain({"will not overwrite just-created ", quote(target), " with ", quote(source)});
            ++refused_;
            return;
        }
    }
    const bool follows = run_.setup.options.follow != walk::Follow::none;
    struct stat from {};
    if ((follows ? ::stat(source.c_str(), &from) : ::lstat(source.c_str(), &from)) != 0) {
        complain({"cannot stat ", quote(source), ": ", reason(last_error()),
                  missing_hint(parse_location(source))});
        ++refused_;
        return;
    }
    if (copies_stream(source, from, target)) return;
    pairs += source + '\0' + target + '\0';
}

/// Whether the source is done with: it or its target is a stream, or it cannot be copied.
/// Otherwise, if the target is a link, `target` becomes the destination of the link.
bool HostCopy::copies_stream(const std::string& source, const struct stat& from,
                             std::string& target) {
    if (S_ISDIR(from.st_mode) || S_ISLNK(from.st_mode)) return false;
    if (run_.rules.recursive && !S_ISREG(from.st_mode)) return false;
    struct stat there {};
    const bool found = ::lstat(target.c_str(), &there) == 0;
    if (found && S_ISLNK(there.st_mode)) {
        const std::unique_ptr<char, void (*)(void*)> resolved(::realpath(target.c_str(), nullptr),
                                                              std::free);
        if (!resolved) {
            run_.failures.add({target, "write through dangling symbolic link", errno});
            return true;
        }
        target = resolved.get();
        if (::stat(target.c_str(), &there) != 0) there = {};
    }
    const bool is_stream = found && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode);
    if (S_ISREG(from.st_mode) && !is_stream) return false;
    if (found && S_ISDIR(there.st_mode)) return false;  // reported there
    if (found && run_.rules.no_clobber) return true;
    copy_through(source, target, from.st_mode & 0777);
    return true;
}

void HostCopy::copy_through(const std::string& source, const std::string& target, u32 mode) {
    const Descriptor from(::open(source.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
    if (!from) return run_.failures.add({source, "open for reading", errno});
    Descriptor to(
        ::open(target.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, mode));
    if (!to) return run_.failures.add({target, "create regular file", errno});
    const Fault fault = copy_stream(from.get(), to.get());
    if (fault) {
        return run_.failures.add({fault.at_target ? target : source, fault.action, fault.error});
    }
    if (const int error = to.close()) return run_.failures.add({target, "close", error});
    run_.tally.add(copied_files);
    if (run_.rules.verbose) print_line({quote(source), " -> ", quote(target)});
}

}  // namespace warren::cli
