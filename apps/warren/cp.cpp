// SPDX-License-Identifier: Apache-2.0
// warren cp: copies on the host on all cores, and into a volume, out of it, within it and between
// volumes, with the options and messages of cp(1).
#include <algorithm>
#include <set>

#include "apps/warren/arguments.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/copy.hpp"
#include "apps/warren/cp_host.hpp"
#include "apps/warren/interrupt.hpp"
#include "apps/warren/location.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/ranks.hpp"
#include "apps/warren/resources.hpp"
#include "apps/warren/units.hpp"
#include "base/processors.hpp"

namespace warren::cli {

namespace {

constexpr u32 threads_max = 16;
constexpr int reflink_option = 256;
constexpr int preserve_option = 258;
constexpr int no_preserve_option = 259;
constexpr int sparse_option = 260;

constexpr std::string_view preserved_names[] = {"mode",    "ownership", "timestamps", "links",
                                                "context", "xattr",     "all"};

constexpr Option cp_options[] = {
    {'a', "archive", nullptr, "same as -r -P -p, and hard links stay hard links"},
    {'d', nullptr, nullptr, "same as -P; hard links stay hard links"},
    {'f', "force", nullptr, "replace a target that you may not write"},
    {'H', nullptr, nullptr, "follow symbolic links on the command line"},
    {'j', "threads", "N", "copy on N threads (default: all cores, at most 16)"},
    {'L', "dereference", nullptr, "follow all symbolic links"},
    {'n', "no-clobber", nullptr, "do not overwrite existing files"},
    {'P', "no-dereference", nullptr, "copy symbolic links as links (default with -r)"},
    {'p', nullptr, nullptr, "keep mode, owner, times and extended attributes"},
    {preserve_option, "preserve", "[=LIST]",
     "keep the attributes of a comma-separated list: {} (default: as -p)",
     names_of<preserved_names>},
    {no_preserve_option, "no-preserve", "LIST", "do not keep these attributes",
     names_of<preserved_names>},
    {'R', nullptr, nullptr, nullptr},
    {'r', "recursive", nullptr, "copy directories and everything in them"},
    {'T', "no-target-directory", nullptr,
     "treat TARGET as the name of the copy, even if it is a directory"},
    {'t', "target-directory", "DIRECTORY", "copy all SOURCEs into DIRECTORY"},
    {'u', "update", nullptr, "copy only files that are newer than the target, or missing"},
    {'v', "verbose", nullptr, "print each name"},
    {'x', "one-file-system", nullptr, "do not enter other file systems"},
    {reflink_option, "reflink", "[=WHEN]", "share blocks: {} (default: auto; without WHEN: always)",
     names_of<when_names>},
    {sparse_option, "sparse", "WHEN",
     "make holes where the source has them (auto, the default), wherever there are zeros "
     "(always), or nowhere (never)",
     names_of<when_names>},
    {verify_option, "verify", nullptr, "read the copies back and compare them"},
    {json_option, "json", nullptr, "at the end, an object with the amounts copied and failed"},
    {rate_option, "max-ops", "N", "at most N opens, reads and stats per second, and N changes"},
    {errors_option, "errors", "FILE", "write failures to FILE, one JSON object per line"},
    {inode_order_option, "inode-order", nullptr,
     "read in inode order, which saves seeks on hard disks"},
    WARREN_RANK_OPTIONS,
    WARREN_MEMORY_OPTION,
    {progress_option, "progress", nullptr, "show progress even if stderr is not a terminal"},
    WARREN_CHECKPOINT_OPTIONS,
};

constexpr Page cp_page = {
    .usage = "[OPTION]... SOURCE TARGET\n[OPTION]... SOURCE... DIRECTORY",
    .summary =
        "Copy files. Each name is a path of the host, or IMAGE:/path inside a volume that is "
        "not mounted. Holes in files stay holes. On the host a copy gets its name when it is "
        "complete. It then replaces an existing file; other hard links to that file keep the "
        "old contents.",
    .options = cp_options,
    .notes =
        "A SOURCE of the form IMAGE:/ or DIRECTORY/. stands for the contents of the "
        "directory. -x, --preserve, --sparse, --verify, --max-ops, --errors, --inode-order, "
        "--json and --checkpoint apply only to files of the host.\n\n"
        "--reflink=always fails for a file unless its copy shares all blocks. On a mounted "
        "volume, where FICLONE is not available, it uses copy_file_range(2), and the daemon "
        "reports whether every block of the copy is shared. In a volume, contents of up to "
        "128 bytes have no block and are copied. With auto, data that cannot be shared are "
        "copied. With never or --sparse=never, copying does not use copy_file_range(2), which "
        "may share blocks.",
    .examples =
        "  warren cp -a src dst                a tree, on all cores\n"
        "  warren cp -a src v.img:/            put the tree src into the volume\n"
        "  warren cp -a v.img:/src/. back      take out what is in /src\n"
        "  warren cp v.img:/a old.img:/b       from one volume to another",
    .see_also = "cp(1)",
    .opens_images = true,
};

CopyOptions read_options(const Arguments& parsed) {
    CopyOptions result;
    const bool archive = parsed.has('a');
    result.recursive = archive || parsed.has('r') || parsed.has('R');
    result.preserve = archive || parsed.has('p');
    result.keep_links = archive || parsed.has('d');
    result.no_clobber = parsed.has('n');
    result.update = parsed.has('u');
    result.force = parsed.has('f');
    result.verbose = parsed.has('v');
    const int follow = parsed.last_of({'L', 'P', 'H', 'd', 'a'});
    result.follow_links = follow == 'L' || follow == 'H' || (follow == 0 && !result.recursive);
    result.threads = std::min(usable_processors(), threads_max);
    return result;
}

/// The name of a source within the target directory; "" if its contents go directly into it.
std::string_view name_in_target(const Location& source) {
    const std::string_view name = last_component(source.path);
    if (name == "." || name == ".." || name == "/") return "";
    return name;
}

struct Target {
    Location location;
    std::shared_ptr<Directory> directory;
    bool into = false;  // the target is a directory that sources are put into
};

/// Determines whether the target is a directory to put sources into. Returns false, after an error
/// message, if it must be one and is not.
bool open_target(Session& session, const Arguments& parsed, bool must_be_directory,
                 Target& target) {
    target.directory = session.directory(target.location, Access::write);
    if (!target.directory) return false;
    if (parsed.has('T')) return true;
    const Result<Facts> facts = target.directory->stat(target.location.path, Follow::yes);
    target.into = facts && facts->is_directory();
    if (target.into || !must_be_directory) return true;
    const Errc code = facts ? Errc::not_directory : facts.code();
    complain({"target ", quote(target.location.text), ": ", reason(code),
              missing_hint(target.location)});
    return false;
}

/// Passes each source to the copier; false if one could not be added.
bool add_sources(Session& session, Copier& copier, const std::vector<std::string>& sources,
                 const Target& target) {
    bool good = true;
    std::set<std::string> names;
    for (const std::string& text : sources) {
        const Location source = parse_location(text);
        std::string name = target.location.path;
        if (target.into) {
            const std::string_view behind = name_in_target(source);
            if (!behind.empty()) name = joined(name, behind);
            if (!behind.empty() && !names.insert(name).second) {
                complain({"will not overwrite just-created ",
                          quote(target.location.prefix() + name), " with ", quote(text)});
                good = false;
                continue;
            }
        }
        const std::shared_ptr<Directory> from = session.directory(source, Access::read);
        if (!from) {
            good = false;
            continue;
        }
        if (const std::string hint = missing_hint(source); !hint.empty()) {
            complain({"cannot stat ", quote(text), ": ", reason(Errc::no_entry), hint});
            good = false;
            continue;
        }
        copier.add(
            {from, source.prefix(), source.path, target.directory, target.location.prefix(), name});
    }
    return good;
}

int check_operands(const Arguments& parsed) {
    const size_t count = parsed.operands.size();
    if (count == 0) return usage_error(cp_page, {"missing file operand"});
    if (parsed.has('T') && parsed.has('t')) {
        return usage_error(cp_page,
                           {"cannot combine --target-directory and --no-target-directory"});
    }
    if (parsed.has('t')) return 0;
    if (count == 1) {
        return usage_error(cp_page,
                           {"missing destination file operand after ", quote(parsed.operands[0])});
    }
    if (parsed.has('T') && count > 2) {
        return usage_error(cp_page, {"extra operand ", quote(parsed.operands[2])});
    }
    return 0;
}

/// Parses a list of attributes to keep or not to keep; false, after an error message, if one is
/// unknown.
bool read_preserved(const std::string& list, bool keeps, TreeCopyRules& rules) {
    for (size_t begin = 0; begin <= list.size();) {
        const size_t end = std::min(list.find(',', begin), list.size());
        const std::string name = list.substr(begin, end - begin);
        const bool all = name == "all";
        if (std::ranges::find(preserved_names, name) == std::end(preserved_names)) {
            usage_error(cp_page, {"invalid argument ", quote(name), " for --preserve: name ",
                                  listed(names_of<preserved_names>())});
            return false;
        }
        if (all || name == "mode") rules.keeps.mode = keeps;
        if (all || name == "mode") rules.default_modes = !keeps;
        if (all || name == "ownership") rules.keeps.owner = keeps;
        if (all || name == "timestamps") rules.keeps.times = keeps;
        if (all || name == "xattr") rules.keeps.extended = keeps;
        if (all || name == "context") rules.keeps.context = keeps;
        if (all || name == "links") rules.keep_links = keeps;
        begin = end + 1;
    }
    return true;
}

/// Applies -p and similar options in the order in which they were given.
bool read_kept(const Arguments& parsed, TreeCopyRules& rules) {
    for (const auto& [id, value] : parsed.options) {
        if (id == 'a' || id == 'p' || (id == preserve_option && value.empty())) {
            rules.keeps = Keeps::all();
        }
        if (id == 'a' || id == 'd') rules.keep_links = true;
        const bool is_list = (id == preserve_option && !value.empty()) || id == no_preserve_option;
        if (is_list && !read_preserved(value, id == preserve_option, rules)) return false;
    }
    return true;
}

/// Parses WHEN of --reflink or --sparse; false, after an error message, if it is unknown.
template <class When>
bool read_when(const Arguments& parsed, int option, const char* name, When& when) {
    const std::string* text = parsed.value(option);
    if (text == nullptr || *text == "auto") return true;
    when = *text == "never" ? When::never : When::always;
    if (*text == "never" || *text == "always" || text->empty()) return true;
    usage_error(cp_page, {"invalid argument ", quote(*text), " for ", name, ": name ",
                          listed(names_of<when_names>())});
    return false;
}

/// The rules for copying trees of the host, from the options; false, after an error message, if one
/// is wrong.
bool read_host_rules(const Arguments& parsed, const CopyOptions& how, TreeCopyRules& rules,
                     WalkSetup& setup) {
    rules.recursive = how.recursive;
    rules.no_clobber = how.no_clobber;
    rules.update = how.update;
    rules.force = how.force;
    rules.verbose = how.verbose;
    rules.sums_up = parsed.has(json_option);
    rules.verify = parsed.has(verify_option);
    setup.options.one_file_system = parsed.has('x');
    const int follow = parsed.last_of({'L', 'P', 'H', 'd', 'a'});
    if (follow == 'L' || (follow == 0 && !how.recursive)) setup.options.follow = walk::Follow::all;
    if (follow == 'H') setup.options.follow = walk::Follow::roots;
    if (!read_kept(parsed, rules) ||
        !read_when(parsed, reflink_option, "--reflink", rules.reflink) ||
        !read_when(parsed, sparse_option, "--sparse", rules.sparse)) {
        return false;
    }
    if (rules.reflink == Reflink::always && rules.sparse != Sparse::automatic) {
        usage_error(cp_page, {"--reflink=always can be combined only with --sparse=auto"});
        return false;
    }
    const std::string* threads = parsed.value('j');
    const size_t trees = parsed.operands.size() - (parsed.has('t') ? 0 : 1);
    return setup.take_all(parsed) && (threads == nullptr || setup.take(threads_option, *threads)) &&
           take_checkpoint(cp_page, parsed, trees, setup);
}

/// Copies where the source or the target is in a volume.
int copy_with_volumes(const Arguments& parsed, CopyOptions how,
                      const std::vector<std::string>& sources, Target& target) {
    if (leave_to_rank_0()) return 0;
    if (const std::string* text = parsed.value('j')) {
        const std::optional<u64> threads = parse_number(*text);
        if (!threads || *threads == 0 || *threads > 256) {
            return usage_error(cp_page, {"invalid number of threads: ", quote(*text)});
        }
        how.threads = static_cast<u32>(*threads);
    }
    for (const int id :
         {int{'x'}, verify_option, preserve_option, no_preserve_option, sparse_option, rate_option,
          errors_option, inode_order_option, checkpoint_option, resume_option, json_option}) {
        if (parsed.has(id)) {
            return usage_error(cp_page,
                               {"-x, --preserve, --sparse, --verify, --max-ops, --errors, "
                                "--inode-order, --checkpoint and --json work on files of the "
                                "host only"});
        }
    }
    if (!read_when(parsed, reflink_option, "--reflink", how.reflink)) return cp_page.usage_exit;
    Session session;
    if (!open_target(session, parsed, parsed.has('t') || sources.size() > 1, target)) return 1;
    if (!how.recursive && sources.size() == 1) how.threads = 1;
    bool good = true;
    {
        Progress progress("copying");
        Copier copier(how, progress);
        good = add_sources(session, copier, sources, target);
        if (!copier.run()) good = false;
    }
    return session.close() && good ? 0 : 1;
}

int copy_on_host(const Arguments& parsed, const CopyOptions& how,
                 const std::vector<std::string>& sources, const Target& target) {
    TreeCopyRules rules;
    WalkSetup setup;
    if (!read_host_rules(parsed, how, rules, setup)) return cp_page.usage_exit;
    CopyRun run(rules, setup);
    if (!run.failures.open(setup.errors_file, setup.options.resume)) return 1;
    const bool must_be_directory = parsed.has('t') || sources.size() > 1;
    HostCopy copy(run, target.location.text, must_be_directory, parsed.has('T'));
    const bool good = copy.all(sources);
    if (copy.was_interrupted()) return exit_interrupted(setup);
    if (run.is_cut()) {
        complain({"interrupted; what was copied so far is kept"});
        return interrupted_exit();
    }
    return good ? 0 : 1;
}

int command_cp(std::span<char* const> arguments) {
    const Arguments parsed = parse_arguments(cp_page, arguments);
    if (parsed.done) return parsed.exit_code;
    if (const int code = check_operands(parsed); code != 0) return code;
    const CopyOptions how = read_options(parsed);
    std::vector<std::string> sources = parsed.operands;
    Target target;
    if (const std::string* directory = parsed.value('t')) {
        target.location = parse_location(*directory);
    } else {
        target.location = parse_location(sources.back());
        sources.pop_back();
    }
    raise_descriptor_limit();
    catch_interrupts();
    const bool volumes = target.location.in_image() ||
                         std::any_of(sources.begin(), sources.end(), [](const std::string& text) {
                             return parse_location(text).in_image();
                         });
    const int code = volumes ? copy_with_volumes(parsed, how, sources, target)
                             : copy_on_host(parsed, how, sources, target);
    if (volumes && interrupted()) {
        complain({"interrupted; what was copied so far is kept"});
        return interrupted_exit();
    }
    return code;
}

}  // namespace

const Command cp_command = {"cp", "copy files and trees, also into and out of volumes", cp_page,
                            command_cp, true};

}  // namespace warren::cli
