// SPDX-License-Identifier: Apache-2.0
// warren clone: copies files and trees within one volume by sharing blocks, as one command of the
// engine.
#include "apps/warren/arguments.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/location.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/mounts.hpp"
#include "apps/warren/progress.hpp"
#include "apps/warren/units.hpp"
#include "warren/volume_path.hpp"

namespace warren::cli {

namespace {

constexpr Option clone_options[] = {
    {'v', "verbose", nullptr, "print how much was cloned"},
};

constexpr Page clone_page = {
    .usage = "[OPTION]... SOURCE TARGET",
    .summary =
        "Make TARGET a copy of the file or tree SOURCE that shares its blocks, inside one "
        "volume: IMAGE:/path if it is not mounted, else paths on the mount. All of TARGET "
        "appears at once; after an error or a crash, none of it exists.",
    .options = clone_options,
    .notes =
        "A clone keeps what `cp -a` keeps: modes, owners, times, access control lists, "
        "extended attributes, links, hard links within SOURCE, devices, holes. It needs the "
        "same permissions as `cp -a`: only root may clone devices. For other users, the clone "
        "belongs to the caller, and the first error ends the command, where `cp -a` would "
        "continue. TARGET is the name of the clone, not a directory to put it into: it must not "
        "exist, except that an empty directory may be replaced if SOURCE is a directory. Symbolic "
        "links are cloned, not followed. Each file is cloned atomically, a tree is not: "
        "concurrent changes to the tree may or may not be in the clone.",
    .examples =
        "  warren clone v.img:/src v.img:/src.before\n"
        "  warren clone /mnt/w/base /mnt/w/job-17   a tree of its own for each job",
    .see_also = "cp(1)",
    .opens_images = true,
};

Errc clone_in_image(Volume& volume, const std::string& source, const std::string& target,
                    ClonedTree& cloned) {
    const Caller caller = command_caller();
    WARREN_LET(from, PathWalker(volume, caller).find(volume.root(), source, Follow::no));
    Located to;
    const Slash slash = (from->mode & 0170000) == 0040000 ? Slash::ignored : Slash::refused;
    WARREN_TRY(PathWalker(volume, caller).locate(volume.root(), target, to, slash));
    if (to.name.empty()) return Errc::exists;
    return volume.clone(caller, from->handle, to.directory, to.name, cloned);
}

void complain_of(const Location& source, const Location& target, Errc code,
                 const std::string& failed) {
    const std::string what = "cannot clone " + quote(source.text) + " to " + quote(target.text);
    if (code == Errc::invalid) {
        complain({what, ": the clone would be or lie within its source"});
    } else if (code == Errc::exists || code == Errc::not_empty) {
        complain({what, ": the target exists; remove it first or choose another name"});
    } else if (code == Errc::not_supported) {
        complain({what, ": the volume was made without shared blocks; use 'warren cp -a'"});
    } else if (!failed.empty()) {
        complain({what, ": ", quote(failed), " in it: ", reason(code)});
    } else {
        complain({what, ": ", reason(code), missing_hint(source)});
    }
}

int command_clone(std::span<char* const> arguments) {
    const Arguments parsed = parse_arguments(clone_page, arguments);
    if (parsed.done) return parsed.exit_code;
    if (parsed.operands.size() != 2) {
        return usage_error(
            clone_page,
            {parsed.operands.size() > 2 ? "too many operands" : "missing operand: SOURCE TARGET"});
    }
    const Location source = parse_location(parsed.operands[0]);
    const Location target = parse_location(parsed.operands[1]);
    Session session;
    ClonedTree cloned;
    Errc code = Errc::ok;
    if (source.image != target.image) {
        code = Errc::cross_device;
    } else if (target.in_image()) {
        Volume* volume = session.open(target.image, Access::write);
        if (volume == nullptr) return 1;
        const Progress progress("cloning " + quote(source.text));
        code = clone_in_image(*volume, source.path, target.path, cloned);
    } else {
        auto daemon =
            connect_for(source.path, "cannot clone " + quote(source.text), "cp -a --reflink");
        if (!daemon) return 1;
        const Progress progress("cloning " + quote(source.text));
        code = daemon->clone(source.path, target.path, cloned);
    }
    if (code != Errc::ok) complain_of(source, target, code, cloned.failed);
    if (!session.close() || code != Errc::ok) return 1;
    if (parsed.has('v')) {
        print_line({quote(source.text), " -> ", quote(target.text), ": ",
                    counted(cloned.files, "file", "files"), ", ",
                    counted(cloned.directories, "directory", "directories")});
    }
    return 0;
}

}  // namespace

const Command clone_command = {"clone", "copy files and trees by sharing their blocks", clone_page,
                               command_clone};

}  // namespace warren::cli
