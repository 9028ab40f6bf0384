// SPDX-License-Identifier: Apache-2.0
// warren rebuild: packs directories that are sparsely filled after many deletions into as few
// blocks as possible.
#include <mutex>

#include "apps/warren/arguments.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/json.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/progress.hpp"
#include "apps/warren/tree_scan.hpp"
#include "apps/warren/units.hpp"

namespace warren::cli {

namespace {

constexpr Option rebuild_options[] = {
    {'q', "quiet", nullptr, "print nothing"},
    {'r', "recursive", nullptr, "include all subdirectories"},
    {json_option, "json", nullptr, "print an array of objects"},
};

constexpr Page rebuild_page = {
    .usage = "[OPTION]... DIRECTORY...",
    .summary =
        "Pack directories into as few blocks as possible: IMAGE:/path inside a volume that is "
        "not mounted, or a directory on a mounted volume. This pays after most names of a "
        "directory were removed.",
    .options = rebuild_options,
    .examples =
        "  warren rebuild v.img:/mail/inbox\n"
        "  warren rebuild -r /mnt/w",
    .opens_images = true,
};

class Rebuilder {
 public:
    explicit Rebuilder(const Arguments& parsed)
        : quiet_(parsed.has('q')), recursive_(parsed.has('r')), json_(parsed.has(json_option)) {
        if (json_) objects_.open_array();
    }

    bool rebuild(const std::string& text);
    bool finish() {
        if (json_) print_line({objects_.close_array().result()});
        return session_.close();
    }

 private:
    bool rebuild_in_image(const Location& location, const std::vector<std::string>& paths);
    bool rebuild_on_mount(const std::vector<std::string>& paths);
    bool report(const std::string& path, Errc code, const Rebuilt& rebuilt);

    bool quiet_;
    bool recursive_;
    bool json_;
    Json objects_;
    Session session_;
};

bool Rebuilder::report(const std::string& path, Errc code, const Rebuilt& rebuilt) {
    if (code != Errc::ok) {
        complain({"cannot rebuild ", quote(path), ": ", reason(code)});
        return false;
    }
    if (json_) {
        objects_.open_object().member("path", std::string_view(path));
        objects_.member("entries", rebuilt.entries);
        objects_.member("blocks_before", rebuilt.blocks_before);
        objects_.member("blocks_after", rebuilt.blocks_after);
        objects_.member("in_steps", u64{rebuilt.in_steps}).close_object();
    } else if (!quiet_) {
        print_line({output_name(path), ": ", counted(rebuilt.entries, "entry", "entries"), ", ",
                    counted(rebuilt.blocks_before, "block", "blocks"), " -> ",
                    grouped(rebuilt.blocks_after),
                    rebuilt.in_steps ? " (leaf by leaf: one commit cannot hold it)" : ""});
    }
    return true;
}

bool Rebuilder::rebuild_in_image(const Location& location, const std::vector<std::string>& paths) {
    Volume* volume = session_.open(location.image, Access::write);
    if (volume == nullptr) return false;
    const std::shared_ptr<Directory> root = volume_directory(*volume, command_caller());
    bool good = true;
    for (const std::string& path : paths) {
        Rebuilt rebuilt;
        const Result<Facts> facts =
            root->stat(std::string_view(path).substr(location.image.size() + 1), Follow::yes);
        Errc code = facts.code();
        if (facts) code = facts->is_directory() ? Errc::ok : Errc::not_directory;
        if (code == Errc::ok) {
            code = volume->rebuild(command_caller(), facts->attributes.handle, rebuilt);
        }
        if (!report(path, code, rebuilt)) good = false;
    }
    return good;
}

bool Rebuilder::rebuild_on_mount(const std::vector<std::string>& paths) {
    bool good = true;
    auto connection = connect_for(paths.front(), "cannot rebuild " + quote(paths.front()),
                                  "e2fsck -D on ext4, for instance");
    if (!connection) return false;
    for (const std::string& path : paths) {
        Rebuilt rebuilt;
        const Errc code = connection->rebuild(path, rebuilt);
        if (!report(path, code, rebuilt)) good = false;
    }
    return good;
}

bool Rebuilder::rebuild(const std::string& text) {
    const Location location = parse_location(text);
    std::vector<std::string> paths = {text};
    // Open for writing before the scan, which would open the image read-only.
    if (location.in_image() && session_.open(location.image, Access::write) == nullptr)
        return false;
    const Progress progress("rebuilding " + quote(text));
    if (recursive_) {
        const auto scan = TreeScan::open(session_, location, "e2fsck -D on ext4, for instance");
        if (!scan) return false;
        const Errc code = scan->run(~0u, [](const Found&) { return true; });
        if (code != Errc::ok) return report(text, code, {});
        paths.clear();
        for (const DirectoryRecord* directory : scan->directories()) {
            paths.push_back(path_of(*directory));
        }
        std::sort(paths.begin(), paths.end());
        if (paths.empty()) return report(text, Errc::not_directory, {});
    }
    return location.in_image() ? rebuild_in_image(location, paths) : rebuild_on_mount(paths);
}

int command_rebuild(std::span<char* const> arguments) {
    const Arguments parsed = parse_arguments(rebuild_page, arguments);
    if (parsed.done) return parsed.exit_code;
    if (!need_operand(parsed)) return rebuild_page.usage_exit;
    Rebuilder rebuilder(parsed);
    bool good = true;
    for (const std::string& text : parsed.operands) {
        if (!rebuilder.rebuild(text)) good = false;
    }
    return rebuilder.finish() && good ? 0 : 1;
}

}  // namespace

const Command rebuild_command = {"rebuild", "pack directories into fewer blocks", rebuild_page,
                                 command_rebuild};

}  // namespace warren::cli
