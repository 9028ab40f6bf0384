// SPDX-License-Identifier: Apache-2.0
// warren chown: changes owners and groups on the host, with the options and messages of chown(1).
#include <grp.h>
#include <pwd.h>

#include <cerrno>

#include "apps/warren/arguments.hpp"
#include "apps/warren/change_tree.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/listing.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/units.hpp"
#include "base/last_error.hpp"

namespace warren::cli {

namespace {

constexpr int from_option = 257;
constexpr int dereference_option = 258;

constexpr Option chown_options[] = {
    {'c', "changes", nullptr, "print only names that were changed"},
    {'f', "silent", nullptr, "suppress most error messages"},
    {'v', "verbose", nullptr, "print a line for every name, changed or not"},
    {'h', "no-dereference", nullptr, "change a symbolic link instead of its target"},
    {dereference_option, "dereference", nullptr,
     "change the target of a symbolic link (default without -R)"},
    {'R', "recursive", nullptr, "change directories and everything in them"},
    {'H', nullptr, nullptr, "with -R: follow FILEs that are symbolic links to directories"},
    {'P', nullptr, nullptr, "with -R: follow no symbolic links (default)"},
    {from_option, "from", "OWNER:GROUP",
     "change only files with this owner and this group; either may be omitted"},
    {reference_option, "reference", "FILE", "use the owner and group of FILE"},
    {json_option, "json", nullptr,
     "at the end, an object with the numbers of changes and failures"},
    WARREN_WALK_OPTIONS,
    WARREN_CHECKPOINT_OPTIONS,
};

constexpr Page chown_page = {
    .usage =
        "[OPTION]... OWNER[:[GROUP]] FILE...\n[OPTION]... :GROUP FILE...\n"
        "[OPTION]... --reference=FILE FILE...",
    .summary =
        "Change the owner and group of files of the host, with -R of whole trees on all "
        "cores. OWNER and GROUP are names or numbers; OWNER: means the owner's login group. "
        "Symbolic links in a tree are changed themselves, never their targets.",
    .options = chown_options,
    .examples = "  warren chown -R build:build tree",
    .see_also = "chown(1)",
};

constexpr u32 any_id = ~0u;  // as in chown(2): leave unchanged

struct Owner {
    u32 user = any_id;
    u32 group = any_id;
};

/// Parses a numeric id; a plus before it marks it as a number even if there is such a name.
bool parse_id(std::string_view text, u32& id) {
    if (text.starts_with('+')) text.remove_prefix(1);
    const std::optional<u64> number = parse_number(text);
    if (!number || *number >= any_id) return false;
    id = static_cast<u32>(*number);
    return true;
}

/// "OWNER", "OWNER:GROUP", "OWNER:" or ":GROUP"; false, with a complaint, for anything else.
bool parse_owner(const std::string& text, Owner& owner) {
    const size_t colon = text.find(':');
    const std::string user = text.substr(0, colon);
    const std::string group = colon == text.npos ? "" : text.substr(colon + 1);
    if (!user.empty()) {
        const passwd* entry = user.starts_with('+') ? nullptr : ::getpwnam(user.c_str());
        if (entry != nullptr) {
            owner.user = entry->pw_uid;
            if (colon != text.npos) owner.group = entry->pw_gid;
        } else if (!parse_id(user, owner.user) || (colon != text.npos && group.empty())) {
            usage_error(chown_page, {"invalid user: ", quote(text)});
            return false;
        }
    }
    if (group.empty()) return true;
    const ::group* entry = group.starts_with('+') ? nullptr : ::getgrnam(group.c_str());
    if (entry != nullptr) owner.group = entry->gr_gid;
    if (entry != nullptr || parse_id(group, owner.group)) return true;
    usage_error(chown_page, {"invalid group: ", quote(text)});
    return false;
}

/// The owner as messages show it: user and group, or the one that is changed.
std::string words(const Owner& asked, u32 user, u32 group) {
    if (asked.user == any_id) return group_text(group);
    if (asked.group == any_id) return user_text(user);
    return user_text(user) + ":" + group_text(group);
}

struct OwnerChange {
    Owner to;
    Owner from;
    bool changes_links = false;

    Changed apply(const Place& place, bool follows, const std::string& path, std::string& told,
                  i32& error) const {
        struct stat status {};
        const int flags = follows ? 0 : AT_SYMLINK_NOFOLLOW;
        if (::fstatat(place.directory, place.name, &status, flags) != 0) {
            error = errno;
            return Changed::failed;
        }
        const char* what = to.user == any_id ? "group" : "ownership";
        const std::string before = words(to, status.st_uid, status.st_gid);
        const bool is_meant = (from.user == any_id || from.user == status.st_uid) &&
                              (from.group == any_id || from.group == status.st_gid);
        told = std::string(what) + " of " + quote(path) + " retained as " + before;
        if (!is_meant) return Changed::no;
        if (::fchownat(place.directory, place.name, to.user, to.group, flags) != 0) {
            error = errno;
            return Changed::failed;
        }
        const u32 user = to.user == any_id ? status.st_uid : to.user;
        const u32 group = to.group == any_id ? status.st_gid : to.group;
        if (user == status.st_uid && group == status.st_gid) return Changed::no;
        told = "changed " + std::string(what) + " of " + quote(path) + " from " + before + " to " +
               words(to, user, group);
        return Changed::yes;
    }
};

/// Takes OWNER from the operands or from --reference; false, after an error message, on failure.
bool read_owner(const Arguments& parsed, std::vector<std::string>& operands, Owner& owner) {
    if (const std::string* reference = parsed.value(reference_option)) {
        struct stat status {};
        if (::stat(reference->c_str(), &status) != 0) {
            complain(
                {"failed to get attributes of ", quote(*reference), ": ", reason(last_error())});
            return false;
        }
        owner = {status.st_uid, status.st_gid};
    } else {
        if (operands.empty()) {
            usage_error(chown_page, {"missing operand"});
            return false;
        }
        if (!parse_owner(operands.front(), owner)) return false;
        operands.erase(operands.begin());
    }
    if (!operands.empty()) return true;
    usage_error(chown_page, {"missing operand"});
    return false;
}

int command_chown(std::span<char* const> arguments) {
    const Arguments parsed = parse_arguments(chown_page, arguments);
    if (parsed.done) return parsed.exit_code;
    std::vector<std::string> operands = parsed.operands;
    OwnerChange owner;
    if (!read_owner(parsed, operands, owner.to)) return 1;
    if (const std::string* from = parsed.value(from_option)) {
        if (!parse_owner(*from, owner.from)) return 1;
    }
    const bool recursive = parsed.has('R');
    const int links = parsed.last_of({'h', dereference_option});
    const bool enters = parsed.last_of({'H', 'P'}) == 'H';
    if (recursive && links == dereference_option && !enters) {
        return usage_error(chown_page,
                           {"-R --dereference requires -H: links in a tree are not followed"});
    }
    WalkSetup setup;
    TreeChange change;
    if (!read_change(chown_page, parsed, operands.size(), change, setup))
        return chown_page.usage_exit;
    change.apply = [&](const Place& place, bool follows, const std::string& path, std::string& told,
                       i32& error) { return owner.apply(place, follows, path, told, error); };
    change.action = "change the owner of";
    change.follow_operands = recursive ? enters : links != 'h';
    change.changes_links = true;
    return change_trees(change, setup, operands);
}

}  // namespace

const Command chown_command = {"chown", "change owners of files and trees", chown_page,
                               command_chown, true};

}  // namespace warren::cli
