// SPDX-License-Identifier: Apache-2.0
// warren info: shows the properties and usage of a volume, read from the image or from the daemon
// of its mount.
#include <sys/stat.h>

#include "apps/warren/arguments.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/json.hpp"
#include "apps/warren/location.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/mounts.hpp"
#include "apps/warren/units.hpp"

namespace warren::cli {

namespace {

constexpr Option info_options[] = {
    {json_option, "json", nullptr, "print an array of objects; sizes in bytes"},
};

constexpr Page info_page = {
    .usage = "[OPTION]... IMAGE|MOUNT...",
    .summary = "Show the properties and the usage of volumes.",
    .options = info_options,
    .examples =
        "  warren info v.img\n"
        "  warren info --json /mnt/w",
    .opens_images = true,
};

/// Asks the daemon; false, after an error message, if that fails.
bool info_of_mount(const std::string& path, fuse::MountInfo& info) {
    const std::string attempt = "cannot describe " + quote(path);
    auto connection = connect_for(path, attempt, "df(1)");
    if (!connection) return false;
    const Errc code = connection->info(info);
    if (code == Errc::ok) return true;
    complain({attempt, ": the mount's daemon: ", reason(code)});
    return false;
}

bool info_of_image(const std::string& image, fuse::MountInfo& info) {
    Session session;
    Volume* volume = session.open(image, Access::read);
    if (volume == nullptr) return false;
    info.image = image;
    info.label = volume->label();
    info.uuid = volume->uuid();
    info.statistics = volume->statistics();
    info.dedup = volume->dedup_statistics();
    info.engine = volume->engine();
    info.engine_note = volume->engine_note();
    return session.close();
}

bool read_info(const std::string& operand, fuse::MountInfo& info) {
    const Location location = parse_location(operand);
    if (location.in_image()) return info_of_image(location.image, info);
    struct stat found {};
    const bool there = ::stat(operand.c_str(), &found) == 0;
    const bool image =
        there && (S_ISREG(found.st_mode) || S_ISBLK(found.st_mode)) && !is_on_warren_mount(operand);
    if (!image) return info_of_mount(operand, info);
    if (const std::string point = mount_point_of_image(operand); !point.empty()) {
        return info_of_mount(point, info);
    }
    return info_of_image(operand, info);
}

std::string share(u64 part, u64 whole) {
    if (whole == 0) return "";
    return " (" + std::to_string((part * 100 + whole / 2) / whole) + "%)";
}

/// In parentheses: the name of the GPU, what it did, or why none is used; "" if there is nothing to
/// say.
std::string note_on_engine(const fuse::MountInfo& info) {
    return info.engine_note.empty() ? "" : " (" + info.engine_note + ")";
}

/// What writes did not have to store.
u64 saved_bytes(const DedupStatistics& dedup) {
    return dedup.shared_bytes + dedup.zero_bytes;
}

void print_info(const fuse::MountInfo& info) {
    const Statistics& statistics = info.statistics;
    const u64 used = statistics.blocks - statistics.blocks_free;
    print_line({"Image:      ", quote_if_needed(info.image)});
    if (!info.mountpoint.empty()) {
        print_line({"Mounted at: ", quote_if_needed(info.mountpoint),
                    info.read_only ? ", read-only" : "", ", by process ",
                    std::to_string(info.process)});
    }
    print_line({"Engine:     ", info.engine, note_on_engine(info)});
    if (!info.mountpoint.empty()) {
        print_line({"Disk:       ", info.disk_note});
        print_line({"Requests:   ", grouped(info.requests), " of the kernel since the mount"});
    }
    if (info.dedup.is_on) {
        const DedupStatistics& dedup = info.dedup;
        print_line({"Dedup:      ", long_size(saved_bytes(dedup)), " saved (",
                    long_size(dedup.shared_bytes), " shared, ", long_size(dedup.zero_bytes),
                    " of zeros); ", counted(dedup.looked_up, "block", "blocks"), " looked up, ",
                    counted(dedup.found, "run", "runs"), " found; an index of ",
                    long_size(dedup.index_bytes), ", ",
                    dedup.is_filling ? "being filled: " : "filled from ",
                    long_size(dedup.filled_bytes), " that the volume had"});
    } else if (info.dedup.is_default) {
        const bool is_mounted = !info.mountpoint.empty();
        print_line({"Dedup:      ", is_mounted ? "off for this mount" : "on when it is mounted"});
    }
    print_line({"Label:      ", info.label.empty() ? "(none)" : masked(info.label)});
    print_line({"UUID:       ", info.uuid});
    print_line({"Size:       ", long_size(statistics.blocks * 4096)});
    print_line({"Used:       ", long_size(used * 4096), share(used, statistics.blocks)});
    print_line({"Available:  ", long_size(statistics.blocks_available * 4096)});
    print_line({"Inodes:     ", grouped(statistics.inodes_used), " used, room for ",
                grouped(statistics.inodes_free), " more"});
}

void add_info(Json& json, const fuse::MountInfo& info) {
    const Statistics& statistics = info.statistics;
    json.open_object().member("image", std::string_view(info.image));
    if (!info.mountpoint.empty()) {
        json.member("mountpoint", std::string_view(info.mountpoint));
        json.key("read_only").boolean(info.read_only);
        json.member("process", u64{info.process});
        json.member("disk", std::string_view(info.disk_note));
        json.member("requests", info.requests);
    }
    json.key("dedup").open_object();
    json.key("default").boolean(info.dedup.is_default).key("on").boolean(info.dedup.is_on);
    json.member("index_bytes", info.dedup.index_bytes);
    json.member("looked_up", info.dedup.looked_up).member("found", info.dedup.found);
    json.member("shared_bytes", info.dedup.shared_bytes);
    json.member("zero_bytes", info.dedup.zero_bytes);
    json.member("saved_bytes", saved_bytes(info.dedup));
    json.member("filled_bytes", info.dedup.filled_bytes);
    json.key("filling").boolean(info.dedup.is_filling);
    json.close_object();
    json.member("engine", std::string_view(info.engine));
    json.member("engine_note", std::string_view(info.engine_note));
    json.member("label", std::string_view(info.label)).member("uuid", std::string_view(info.uuid));
    json.member("size", statistics.blocks * 4096).member("free", statistics.blocks_free * 4096);
    json.member("available", statistics.blocks_available * 4096);
    json.member("inodes_used", statistics.inodes_used);
    json.member("inodes_free", statistics.inodes_free);
    json.close_object();
}

int command_info(std::span<char* const> arguments) {
    const Arguments parsed = parse_arguments(info_page, arguments);
    if (parsed.done) return parsed.exit_code;
    if (!need_operand(parsed)) return info_page.usage_exit;
    Json json;
    json.open_array();
    bool good = true;
    bool first = true;
    for (const std::string& operand : parsed.operands) {
        fuse::MountInfo info;
        if (!read_info(operand, info)) {
            good = false;
        } else if (parsed.has(json_option)) {
            add_info(json, info);
        } else {
            if (!first) print_line({});
            print_info(info);
            first = false;
        }
    }
    if (parsed.has(json_option)) print_line({json.close_array().result()});
    return good ? 0 : 1;
}

}  // namespace

const Command info_command = {"info", "show properties and usage of a volume", info_page,
                              command_info};

}  // namespace warren::cli
