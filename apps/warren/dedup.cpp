// SPDX-License-Identifier: Apache-2.0
// warren dedup: reports which bytes of trees are duplicates and in which files, and shares them
// where the file system can. Hard links, holes and blocks that are already shared save nothing and
// do not count as savings.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "apps/warren/arguments.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/dedup_scan.hpp"
#include "apps/warren/json.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/splitting.hpp"
#include "apps/warren/units.hpp"
#include "base/temporary_file.hpp"

namespace warren::cli {

namespace {

enum : int {
    fixed_option = 400,
    index_option,
    apply_option,
    memory_option,
    secret_option,
    rate_option
};

constexpr Option dedup_options[] = {
    {fixed_option, "fixed", "SIZE", "compare blocks of this size (default: 4K)"},
    WARREN_SPLITTING_OPTIONS,
    {apply_option, "apply", nullptr,
     "share equal blocks after comparing them byte by byte (Warren, btrfs, xfs)"},
    {index_option, "index", "FILE",
     "also find duplicates of data from earlier runs; FILE is updated"},
    {secret_option, "secret-file", "FILE", "key the index with the contents of this file"},
    {rate_option, "rate", "SIZE", "read and compare at most SIZE bytes per second"},
    {memory_option, "memory", "SIZE", "maximum memory for the index; the rest goes to $TMPDIR"},
    {'a', "all", nullptr, "list every file with duplicate data, not only the first 20"},
    {json_option, "json", nullptr, "print one object, with all files"},
};

constexpr Page dedup_page = {
    .usage = "[OPTION]... DIR...",
    .summary =
        "Report duplicate data in trees of files, and where they are. DIR is a directory of "
        "the host, or IMAGE:/path inside a volume that is not mounted.",
    .options = dedup_options,
    .notes =
        "Of equal blocks the first one found is the original. Hard links, holes, and blocks "
        "that are already shared do not count as savings. Which blocks of a Warren volume are "
        "shared is not known to this command, so there shared blocks do count. Equal md5, "
        "sha1 and xxh3-128 digests are confirmed byte by byte. Symbolic links are not "
        "followed.\n\n"
        "On a mount with -o dedup, --apply also shares what the mount itself did not share: "
        "short synchronous writes, data that other threads were writing at that time, and "
        "data that its index had dropped. Use --rate to limit the load on other programs.",
    .examples =
        "  warren dedup /srv/images\n"
        "  warren dedup --preset fastcdc --json ~/backups\n"
        "  warren dedup --apply /srv/images\n"
        "  warren dedup --apply --rate=50M /mnt/w\n"
        "  warren dedup --apply v.img:/",
    .chooses_processor = true,
};

constexpr size_t files_shown = 20;

struct CommandOptions {
    DedupOptions how;
    std::string index_path;
    bool applies = false;
    bool shows_all = false;
    bool is_json = false;
};

bool read_secret(const std::string& path, std::string& secret) {
    const int file = open_input(path);
    if (file < 0) return false;
    char buffer[4096];
    ssize_t count = 0;
    while ((count = ::read(file, buffer, sizeof buffer)) > 0)
        secret.append(buffer, static_cast<size_t>(count));
    ::close(file);
    if (secret.empty()) complain({quote(path), ": no secret in it"});
    return !secret.empty();
}

bool names_image(const std::vector<std::string>& operands) {
    return std::ranges::any_of(
        operands, [](const std::string& text) { return parse_location(text).in_image(); });
}

/// Parses the limits on memory and rate; false, after an error message, if they are invalid.
bool parse_limits(const Arguments& parsed, DedupOptions& how) {
    if (const std::string* text = parsed.value(memory_option)) {
        const std::optional<u64> size = parse_size(*text);
        if (!size || *size < mib) {
            usage_error(dedup_page, {"invalid memory ", quote(*text), ": 1M or more"});
            return false;
        }
        how.index.memory_bytes = *size;
    }
    if (const std::string* text = parsed.value(rate_option)) {
        const std::optional<u64> size = parse_size(*text);
        if (!size || *size == 0) {
            usage_error(dedup_page, {"invalid rate ", quote(*text), ": 1 byte a second or more"});
            return false;
        }
        how.bytes_per_second = *size;
    }
    return true;
}

/// Parses the options; false, after an error message, if they are invalid.
bool parse_options(const Arguments& parsed, CommandOptions& wanted) {
    dedup::Splitter& splitter = wanted.how.splitter;
    if (!parse_work(dedup_page, parsed, splitter)) return false;
    wanted.applies = parsed.has(apply_option);
    wanted.shows_all = parsed.has('a');
    wanted.is_json = parsed.has(json_option);
    auto wrong = [&](std::initializer_list<std::string_view> parts) {
        static_cast<void>(usage_error(dedup_page, parts));
        return false;
    };
    if (const std::string* text = parsed.value(fixed_option)) {
        const std::optional<u64> size = parse_size(*text);
        if (!size || *size == 0 || *size > gib)
            return wrong({"invalid block size ", quote(*text), ": 1 byte to 1 GiB"});
        splitter.block_bytes = *size;
        if (parsed.has(preset_option)) return wrong({"--fixed and --preset exclude each other"});
    }
    if (parsed.has(preset_option)) {
        const std::optional<chunk::Rule> rule = parse_rule(dedup_page, parsed, "lbfs");
        if (!rule) return false;
        splitter.block_bytes = 0;
        splitter.rule = *rule;
        if (wanted.applies) return wrong({"--apply shares whole blocks: leave --preset out"});
    }
    if (wanted.applies && splitter.block_bytes % 4096 != 0)
        return wrong({"--apply needs blocks of a multiple of 4096 bytes"});
    if (!parse_limits(parsed, wanted.how)) return false;
    wanted.how.index.algorithm = splitter.algorithm;
    wanted.how.index.spill_folder = temporary_folder();
    if (const std::string* path = parsed.value(index_option)) wanted.index_path = *path;
    if (!wanted.index_path.empty() && names_image(parsed.operands))
        return wrong({"--index keeps paths of the host: leave it out with an image"});
    wanted.how.keeps_index = !wanted.index_path.empty();
    const std::string* secret = parsed.value(secret_option);
    return secret == nullptr || read_secret(*secret, wanted.how.index.secret);
}

std::string index_reason(Errc code) {
    if (code == Errc::corrupt) return "the index is damaged; remove it and run again";
    if (code == Errc::invalid) return "the index was made with another --algorithm";
    if (code == Errc::access)
        return "the index was made with another --secret-file, or cannot be read";
    return reason(code);
}

bool open_index(const CommandOptions& wanted, dedup::Index& index) {
    Errc code = Errc::no_entry;
    if (!wanted.index_path.empty()) code = index.load(wanted.index_path, wanted.how.index);
    if (code == Errc::no_entry) code = index.open(wanted.how.index);
    if (code == Errc::ok) return true;
    complain({quote(wanted.index_path), ": ", index_reason(code)});
    return false;
}

void print_totals(Json& json, const DedupTotals& totals) {
    json.member("files", totals.files).member("other_names", totals.other_names);
    json.member("bytes", totals.bytes).member("hole_bytes", totals.hole_bytes);
    json.member("zero_bytes", totals.zero_bytes).member("equal_bytes", totals.equal_bytes);
    json.member("already_shared_bytes", totals.shared_bytes);
    json.member("savings_bytes", totals.savings_bytes);
}

void print_json(const CommandOptions& wanted, const DedupScan& scan, const SharingResult& sharing) {
    Json json;
    json.open_object();
    print_totals(json, scan.totals());
    if (wanted.applies) {
        json.member("applied_bytes", sharing.shared_bytes);
        json.member("applied_failures", sharing.failures);
    }
    json.key("equal").open_array();
    for (const DedupFile* file : scan.files_by_savings()) {
        json.open_object().member("file", file->path).member("bytes", file->bytes);
        json.member("savings_bytes", file->savings_bytes);
        json.member("original", file->most_like).close_object();
    }
    json.close_array().close_object();
    print_bytes(json.result() + "\n");
}

void print_text(const CommandOptions& wanted, const DedupScan& scan, const SharingResult& sharing) {
    const DedupTotals& totals = scan.totals();
    size_t shown = 0;
    const std::vector<const DedupFile*> files = scan.files_by_savings();
    for (const DedupFile* file : files) {
        if (!wanted.shows_all && shown == files_shown) {
            print_line({"... and ", counted(files.size() - shown, "file", "files"),
                        " more (--all names them)"});
            break;
        }
        ++shown;
        std::string size = short_size(file->savings_bytes);
        size.insert(0, size.size() < 8 ? 8 - size.size() : 0, ' ');
        print_line({size, "  ", output_name(file->path), "  as in ", output_name(file->most_like)});
    }
    print_line({counted(totals.files, "file", "files"), ", ", long_size(totals.bytes), ": ",
                long_size(totals.savings_bytes), " could be saved"});
    auto also = [](u64 bytes, std::string_view what) {
        if (bytes != 0) print_line({"  ", long_size(bytes), " ", what});
    };
    also(totals.shared_bytes, "are equal and shared already");
    also(totals.hole_bytes, "are holes");
    also(totals.zero_bytes, "are zeros on disk");
    if (totals.other_names != 0)
        print_line(
            {"  ", counted(totals.other_names, "name is", "names are"), " a second one of a file"});
    if (wanted.applies) {
        print_line({long_size(sharing.shared_bytes), " shared",
                    sharing.failures == 0 ? "" : "; some blocks could not be, see above"});
    }
}

/// Scans the trees, shares equal blocks if requested, and prints the result. Returns false, after
/// error messages, if anything failed.
bool scan_and_share(const Arguments& parsed, const CommandOptions& wanted, dedup::Index& index,
                    Session& session) {
    DedupScan scan(wanted.how, index, session);
    if (const Errc code = scan.open(); code != Errc::ok) {
        complain({reason(code)});
        return false;
    }
    bool good = true;
    for (const std::string& path : parsed.operands)
        good = scan.add_tree(path, wanted.applies ? Access::write : Access::read) && good;
    tell_work(parsed, wanted.how.splitter, scan.work());
    SharingResult sharing;
    if (wanted.applies) {
        sharing = scan.share();
        good = good && sharing.failures == 0;
    }
    if (wanted.is_json) {
        print_json(wanted, scan, sharing);
    } else {
        print_text(wanted, scan, sharing);
    }
    if (wanted.index_path.empty()) return good;
    const Errc code = index.save(wanted.index_path);
    if (code != Errc::ok) complain({quote(wanted.index_path), ": ", reason(code)});
    return code == Errc::ok && good;
}

int command_dedup(std::span<char* const> arguments) {
    const Arguments parsed = parse_arguments(dedup_page, arguments);
    if (parsed.done) return parsed.exit_code;
    if (!need_operand(parsed)) return 1;
    CommandOptions wanted;
    if (!parse_options(parsed, wanted)) return dedup_page.usage_exit;
    dedup::Index index;
    if (!open_index(wanted, index)) return 1;
    Session session;
    const bool good = scan_and_share(parsed, wanted, index, session);
    return session.close() && good ? 0 : 1;
}

}  // namespace

const Command dedup_command = {"dedup", "find duplicate data, and share it", dedup_page,
                               command_dedup};

}  // namespace warren::cli
