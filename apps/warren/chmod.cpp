// SPDX-License-Identifier: Apache-2.0
// warren chmod: changes modes on the host, with the options and messages of chmod(1).
#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "apps/warren/arguments.hpp"
#include "apps/warren/change_tree.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/listing.hpp"
#include "apps/warren/location.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/mode_change.hpp"
#include "base/last_error.hpp"

namespace warren::cli {

namespace {

constexpr Option chmod_options[] = {
    {'c', "changes", nullptr, "print only names that were changed"},
    {'f', "silent", nullptr, "suppress most error messages"},
    {'v', "verbose", nullptr, "print a line for every name, changed or not"},
    {'R', "recursive", nullptr, "change directories and everything in them"},
    {reference_option, "reference", "FILE", "use the mode of FILE instead of MODE"},
    {json_option, "json", nullptr,
     "at the end, an object with the numbers of changes and failures"},
    WARREN_WALK_OPTIONS,
    WARREN_CHECKPOINT_OPTIONS,
    // Option letters for modes that begin with a minus, as in `chmod -x FILE`.
    {'r', nullptr, nullptr, nullptr},
    {'w', nullptr, nullptr, nullptr},
    {'x', nullptr, nullptr, nullptr},
    {'X', nullptr, nullptr, nullptr},
    {'s', nullptr, nullptr, nullptr},
    {'t', nullptr, nullptr, nullptr},
    {'u', nullptr, nullptr, nullptr},
    {'g', nullptr, nullptr, nullptr},
    {'o', nullptr, nullptr, nullptr},
    {'a', nullptr, nullptr, nullptr},
};

constexpr Page chmod_page = {
    .usage = "[OPTION]... MODE[,MODE]... FILE...\n[OPTION]... --reference=FILE FILE...",
    .summary =
        "Change the modes of files of the host, with -R of whole trees on all cores. A mode "
        "is an octal number or clauses like u+rwX,g=u,o-w. Symbolic links in a tree are not "
        "changed or followed.",
    .options = chmod_options,
    .examples = "  warren chmod -R u+rwX,go-w tree",
    .see_also = "chmod(1)",
};

/// Reassembles a mode that getopt parsed as options: "-x", or "-rw,+x".
std::string mode_of_letters(const Arguments& parsed) {
    std::string mode;
    for (const auto& [id, value] : parsed.options) {
        if (id < 256 &&
            std::string_view("rwxXstugoa").find(static_cast<char>(id)) != std::string_view::npos) {
            mode += mode.empty() ? "-" : "";
            mode += static_cast<char>(id);
        }
    }
    return mode;
}

std::string mode_in_words(u32 mode) {
    char digits[16];
    std::snprintf(digits, sizeof digits, "%04o (", mode & 07777);
    return digits + mode_text(mode).substr(1) + ")";
}

/// Changes one name; sets `told` to what chmod(1) prints about it.
Changed apply(const ModeChange& change, u32 umask, const Place& place, bool follows,
              const std::string& path, std::string& told, i32& error) {
    struct stat status {};
    const int flags = follows ? 0 : AT_SYMLINK_NOFOLLOW;
    if (::fstatat(place.directory, place.name, &status, flags) != 0) {
        error = errno;
        return Changed::failed;
    }
    const u32 before = status.st_mode;
    const u32 kind = before & S_IFMT;
    if (S_ISLNK(before)) {
        told = "neither symbolic link " + quote(path) + " nor referent has been changed";
        return Changed::no;
    }
    const u32 after = change.apply(before, S_ISDIR(before), umask);
    // With `follows` the mode was read through the link, so the change must follow the link too.
    error = follows ? (::fchmodat(place.directory, place.name, after, 0) == 0 ? 0 : errno)
                    : change_mode(place, after);
    if (error != 0) return Changed::failed;
    if (after == (before & 07777)) {
        told = "mode of " + quote(path) + " retained as " + mode_in_words(before);
        return Changed::no;
    }
    told = "mode of " + quote(path) + " changed from " + mode_in_words(before) + " to " +
           mode_in_words(after | kind);
    return Changed::yes;
}

int command_chmod(std::span<char* const> arguments) {
    const Arguments parsed = parse_arguments(chmod_page, arguments);
    if (parsed.done) return parsed.exit_code;
    std::vector<std::string> operands = parsed.operands;
    std::optional<ModeChange> mode;
    if (const std::string* reference = parsed.value(reference_option)) {
        struct stat status {};
        if (::stat(reference->c_str(), &status) != 0) {
            complain(
                {"failed to get attributes of ", quote(*reference), ": ", reason(last_error())});
            return 1;
        }
        mode = ModeChange::exactly(status.st_mode);
    } else {
        std::string text = mode_of_letters(parsed);
        if (text.empty() && !operands.empty()) {
            text = operands.front();
            operands.erase(operands.begin());
        }
        if (text.empty()) return usage_error(chmod_page, {"missing operand"});
        mode = ModeChange::parse(text);
        if (!mode) return usage_error(chmod_page, {"invalid mode: ", quote(text)});
        if (operands.empty()) {
            return usage_error(chmod_page, {"missing operand after ", quote(text)});
        }
    }
    if (operands.empty()) return usage_error(chmod_page, {"missing operand"});
    WalkSetup setup;
    TreeChange change;
    if (!read_change(chmod_page, parsed, operands.size(), change, setup))
        return chmod_page.usage_exit;
    const u32 umask = process_umask();
    change.apply = [&](const Place& place, bool follows, const std::string& path, std::string& told,
                       i32& error) {
        return apply(*mode, umask, place, follows, path, told, error);
    };
    change.action = "change the mode of";
    return change_trees(change, setup, operands);
}

}  // namespace

const Command chmod_command = {"chmod", "change modes of files and trees", chmod_page,
                               command_chmod, true};

}  // namespace warren::cli
