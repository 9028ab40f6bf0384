// SPDX-License-Identifier: Apache-2.0
// warren stat: shows all attributes of a file, including extended attributes.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "apps/warren/arguments.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/listing.hpp"
#include "apps/warren/location.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/mounts.hpp"

namespace warren::cli {

namespace {

constexpr Option stat_options[] = {
    {'L', "dereference", nullptr, "show the target of a symbolic link instead of the link"},
    {json_option, "json", nullptr, "print an array of objects"},
};

constexpr Page stat_page = {
    .usage = "[OPTION]... FILE...",
    .summary =
        "Show the attributes of files: IMAGE:/path inside a volume that is not mounted, or a path "
        "of the host.",
    .options = stat_options,
    .examples =
        "  warren stat v.img:/src/main.c\n"
        "  warren stat --json v.img:/src",
    .see_also = "stat(1)",
    .opens_images = true,
};

struct Subject {
    std::string text;
    Facts facts;
    std::string target;
    std::vector<std::string> attributes;
    std::optional<FileSpace> space;  // of a regular file in a volume
};

/// How much of a file is shared; Errc::not_supported if its file system cannot tell.
Result<FileSpace> space_of(Session& session, const Location& location, const Facts& facts,
                           Follow follow) {
    if (!facts.is_regular()) return Errc::not_supported;
    if (location.in_image()) {
        Volume* volume = session.open(location.image, Access::read);
        return volume == nullptr ? Result<FileSpace>(Errc::io)
                                 : volume->space_of(facts.attributes.handle);
    }
    std::string path = location.path;
    std::error_code error;
    if (follow == Follow::yes) path = std::filesystem::canonical(path, error).string();
    if (error || !is_on_warren_mount(path)) return Errc::not_supported;
    auto daemon = fuse::ControlConnection::for_path(path);
    if (!daemon) return Errc::not_supported;
    FileSpace space;
    const Errc code = daemon->scan(path, {.counts_shared = true},
                                   [&](const Scanned& entry) { space = entry.space; });
    return code == Errc::ok ? Result<FileSpace>(space) : Result<FileSpace>(code);
}

/// Exclusive and shared bytes. The file's metadata is exclusive.
std::pair<u64, u64> split(const Subject& subject) {
    const u64 allocated = subject.facts.attributes.blocks * 4096;
    const u64 shared = std::min(subject.space->shared * 4096, allocated);
    return {allocated - shared, shared};
}

void print_subject(const Subject& subject) {
    const Attributes& a = subject.facts.attributes;
    char mode[16];
    std::snprintf(mode, sizeof mode, "%04o", a.mode & 07777);
    const std::string target = subject.facts.is_link() ? " -> " + output_name(subject.target) : "";
    print_line({"    File: ", output_name(subject.text), target});
    print_line({"    Type: ", type_name(a.mode)});
    std::string parts;
    if (subject.space) {
        const auto [exclusive, shared] = split(subject);
        parts =
            ": " + std::to_string(exclusive) + " exclusive, " + std::to_string(shared) + " shared";
    }
    print_line({"    Size: ", std::to_string(a.size), " bytes, ", std::to_string(a.blocks * 4096),
                " allocated", parts});
    if (type_letter(a.mode) == 'b' || type_letter(a.mode) == 'c') {
        print_line({"  Device: ", std::to_string(a.device >> 20), ", ",
                    std::to_string(a.device & 0xfffff)});
    }
    print_line(
        {"   Inode: ", std::to_string(a.handle.inode), ", links: ", std::to_string(a.links)});
    print_line({"  Access: (", mode, "/", mode_text(a.mode), ") owner: ", user_text(a.user), " (",
                std::to_string(a.user), "), group: ", group_text(a.group), " (",
                std::to_string(a.group), ")"});
    print_line({"Accessed: ", full_time(a.accessed)});
    print_line({"Modified: ", full_time(a.modified)});
    print_line({" Changed: ", full_time(a.changed)});
    if (a.born != 0) print_line({"    Born: ", full_time(a.born)});
    for (const std::string& attribute : subject.attributes) {
        print_line({"    Also: ", attribute});
    }
}

void add_subject(Json& json, const Subject& subject) {
    json.open_object();
    json.member("path", std::string_view(subject.text));
    add_attributes(json, subject.facts.attributes);
    if (subject.space) {
        const auto [exclusive, shared] = split(subject);
        json.member("exclusive", exclusive).member("shared", shared);
    }
    if (subject.facts.is_link()) json.member("target", std::string_view(subject.target));
    json.key("attributes").open_array();
    for (const std::string& attribute : subject.attributes)
        json.text(attribute);
    json.close_array().close_object();
}

bool read_subject(Session& session, Directory& start, const Location& location, Follow follow,
                  Subject& subject) {
    const Result<Facts> facts = start.stat(location.path, follow);
    if (!facts) {
        complain({"cannot stat ", quote(location.text), ": ", reason(facts.code()),
                  missing_hint(location)});
        return false;
    }
    subject.text = location.text;
    subject.facts = *facts;
    Errc code = Errc::ok;
    if (facts->is_link()) code = start.read_link(location.path, subject.target);
    if (code == Errc::ok) code = start.list_attributes(location.path, subject.attributes);
    if (code == Errc::ok || code == Errc::not_supported) {
        const Result<FileSpace> space = space_of(session, location, *facts, follow);
        if (space) subject.space = *space;
        code = space.code();
    }
    if (code == Errc::ok || code == Errc::not_supported) return true;
    complain({"cannot read ", quote(location.text), ": ", reason(code)});
    return false;
}

int command_stat(std::span<char* const> arguments) {
    const Arguments parsed = parse_arguments(stat_page, arguments);
    if (parsed.done) return parsed.exit_code;
    if (!need_operand(parsed)) return stat_page.usage_exit;
    const Follow follow = parsed.has('L') ? Follow::yes : Follow::no;
    Session session;
    Json json;
    json.open_array();
    bool good = true;
    for (const std::string& text : parsed.operands) {
        const Location location = parse_location(text);
        const std::shared_ptr<Directory> start = session.directory(location, Access::read);
        Subject subject;
        if (!start || !read_subject(session, *start, location, follow, subject)) {
            good = false;
        } else if (parsed.has(json_option)) {
            add_subject(json, subject);
        } else {
            print_subject(subject);
        }
    }
    if (parsed.has(json_option)) print_line({json.close_array().result()});
    return session.close() && good ? 0 : 1;
}

}  // namespace

const Command stat_command = {"stat", "show all attributes of a file", stat_page, command_stat};

}  // namespace warren::cli
