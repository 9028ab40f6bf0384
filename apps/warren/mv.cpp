// SPDX-License-Identifier: Apache-2.0
// warren mv: renames files. Moving any number of names into one directory is one command of the
// engine.
#include <deque>
#include <set>

#include "apps/warren/arguments.hpp"
#include "apps/warren/commands.hpp"
#include "apps/warren/location.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/mounts.hpp"
#include "apps/warren/progress.hpp"
#include "warren/volume_path.hpp"

namespace warren::cli {

namespace {

/// On a mount each stat is a round trip to the daemon, so with more names than this only those that
/// could not be moved are examined.
constexpr size_t looked_at_first = 64;

constexpr Option mv_options[] = {
    {'f', "force", nullptr, "replace existing files (default)"},
    {'n', "no-clobber", nullptr, "do not replace existing files"},
    {'T', "no-target-directory", nullptr,
     "treat TARGET as the new name, even if it is a directory"},
    {'t', "target-directory", "DIRECTORY", "move all SOURCEs into DIRECTORY"},
    {'v', "verbose", nullptr, "print each name"},
};

constexpr Page mv_page = {
    .usage = "[OPTION]... SOURCE TARGET\n[OPTION]... SOURCE... DIRECTORY",
    .summary =
        "Rename files or move them into a directory, inside one volume: IMAGE:/path if it is "
        "not mounted, else paths on the mount. All names are moved by one command of the "
        "engine.",
    .options = mv_options,
    .notes =
        "On a mounted volume, a name is neither moved nor replaced if it is or contains a mount "
        "point in this mount namespace. Mounts on it or below it that belong to other mount "
        "namespaces are detached, while mv(1) moves them along.",
    .examples =
        "  warren mv v.img:/a v.img:/b          rename\n"
        "  warren mv v.img:/x v.img:/y v.img:/d  put x and y into d\n"
        "  warren mv -t /mnt/w/done /mnt/w/in/*",
    .see_also = "mv(1)",
    .opens_images = true,
};

struct MovedItem {
    Location source;
    std::string target;  // path in the volume or of the host
};

class Mover {
 public:
    explicit Mover(const Arguments& parsed)
        : verbose_(parsed.has('v')), keep_(parsed.last_of({'n', 'f'}) == 'n') {}

    int run(const std::vector<std::string>& sources, const Location& target, bool never_into,
            bool must_be_directory);

 private:
    bool collect(const std::vector<std::string>& sources, bool into);
    bool admit(const MovedItem& item, bool& good);
    bool lacks_directory(std::string path, bool may_be_new);
    bool move_in_image();
    bool move_on_mount();
    bool report(const MovedItem& item, Errc code);

    bool verbose_;
    bool keep_;
    Location target_;
    Session session_;
    std::shared_ptr<Directory> directory_;
    std::deque<MovedItem> items_;
};

/// Pairs each source with its new name; false if one is invalid.
bool Mover::collect(const std::vector<std::string>& sources, bool into) {
    bool good = true;
    std::set<std::string> names;
    const bool look = target_.in_image() || keep_ || sources.size() <= looked_at_first;
    for (const std::string& text : sources) {
        MovedItem item{parse_location(text), target_.path};
        const std::string_view last = last_component(item.source.path);
        if (last == "." || last == ".." || last == "/") {
            complain({"cannot move ", quote(text), ": ", reason(Errc::busy)});
            good = false;
            continue;
        }
        if (into) item.target = joined(target_.path, last);
        const std::string shown = target_.prefix() + item.target;
        if (!names.insert(item.target).second) {
            complain({"will not overwrite just-created ", quote(shown), " with ", quote(text)});
            good = false;
            continue;
        }
        if (item.source.image != target_.image) {
            complain({"cannot move ", quote(text), " to ", quote(shown),
                      ": not on the same volume (use 'warren cp -a', then remove the source)"});
            good = false;
            continue;
        }
        bool item_good = true;
        if (!look || admit(item, item_good)) items_.push_back(std::move(item));
        if (!item_good) good = false;
    }
    return good;
}

/// Whether a slash at the end of the path asks for a directory that is not there.
bool Mover::lacks_directory(std::string path, bool may_be_new) {
    if (!path.ends_with('/')) return false;
    path.erase(path.find_last_not_of('/') + 1);
    if (path.empty()) return false;  // the root
    const Result<Facts> found = directory_->stat(path, Follow::no);
    return found ? !found->is_directory() : !may_be_new;
}

/// Whether to move the item; if not, `good` says whether that is a success.
bool Mover::admit(const MovedItem& item, bool& good) {
    const Result<Facts> source = directory_->stat(item.source.path, Follow::no);
    if (!source) {
        complain({"cannot stat ", quote(item.source.text), ": ", reason(source.code()),
                  missing_hint(item.source)});
        good = false;
        return false;
    }
    if (lacks_directory(item.source.path, false) ||
        lacks_directory(item.target, source->is_directory())) {
        complain({"cannot move ", quote(item.source.text), " to ",
                  quote(target_.prefix() + item.target), ": ", reason(Errc::not_directory)});
        good = false;
        return false;
    }
    const Result<Facts> target = directory_->stat(item.target, Follow::no);
    if (!target) return true;
    if (keep_) return false;
    if (!target->is_same(*source)) return true;
    good = false;
    if (!source->is_directory() && !is_same_name(*directory_, item.source.path, item.target)) {
        // rename(2) does nothing if both names are the same file; mv(1) removes the first.
        const Errc code = directory_->remove(item.source.path);
        good = report(item, code);
        return false;
    }
    complain({quote(item.source.text), " and ", quote(target_.prefix() + item.target),
              " are the same file"});
    return false;
}

bool Mover::report(const MovedItem& item, Errc code) {
    const std::string target = target_.prefix() + item.target;
    if (code == Errc::ok) {
        if (verbose_) print_line({"renamed ", quote(item.source.text), " -> ", quote(target)});
        return true;
    }
    const Result<Facts> there = directory_->stat(item.target, Follow::no);
    const Result<Facts> source = directory_->stat(item.source.path, Follow::no);
    if (!source) {
        complain({"cannot stat ", quote(item.source.text), ": ", reason(source.code())});
    } else if (there && there->is_directory() && !source->is_directory()) {
        complain({"cannot overwrite directory ", quote(target), " with non-directory ",
                  quote(item.source.text)});
    } else if (there && !there->is_directory() && source->is_directory()) {
        complain({"cannot overwrite non-directory ", quote(target), " with directory ",
                  quote(item.source.text)});
    } else if (code == Errc::invalid) {
        complain({"cannot move ", quote(item.source.text), " to a subdirectory of itself, ",
                  quote(target)});
    } else {
        complain(
            {"cannot move ", quote(item.source.text), " to ", quote(target), ": ", reason(code)});
    }
    return false;
}

bool Mover::move_in_image() {
    Volume* volume = session_.open(target_.image, Access::write);
    if (volume == nullptr) return false;
    const Caller caller = command_caller();
    std::deque<Located> places;  // names that `moves` points to
    std::vector<Move> moves;
    std::vector<const MovedItem*> moved;
    bool good = true;
    for (const MovedItem& item : items_) {
        Located& from = places.emplace_back();
        Located& to = places.emplace_back();
        const Errc code = PathWalker(*volume, caller)
                              .locate_move(volume->root(), item.source.path, item.target, from, to);
        if (code != Errc::ok) {
            good = report(item, code) && good;
            continue;
        }
        moves.push_back({from.directory, from.name, to.directory, to.name});
        moved.push_back(&item);
    }
    std::vector<Errc> results(moves.size(), Errc::ok);
    {
        const Progress progress("moving");
        volume->move_many(caller, moves, results);
    }
    for (size_t index = 0; index < results.size(); ++index) {
        if (!report(*moved[index], results[index])) good = false;
    }
    return good;
}

bool Mover::move_on_mount() {
    std::vector<fuse::PathMove> moves;
    for (const MovedItem& item : items_)
        moves.push_back({item.source.path, item.target});
    if (moves.empty()) return true;
    const std::string first = quote(items_.front().source.text);
    auto connection = connect_for(moves.front().source, "cannot move " + first, "mv(1)");
    if (!connection) return false;
    std::vector<Errc> results(moves.size(), Errc::io);
    Errc code = Errc::ok;
    {
        const Progress progress("moving");
        code = connection->move(moves, results);
    }
    if (code != Errc::ok) {
        complain({"cannot move ", first, ": the mount's daemon: ", reason(code)});
        return false;
    }
    bool good = true;
    for (size_t index = 0; index < results.size(); ++index) {
        if (!report(items_[index], results[index])) good = false;
    }
    return good;
}

int Mover::run(const std::vector<std::string>& sources, const Location& target, bool never_into,
               bool must_be_directory) {
    target_ = target;
    directory_ = session_.directory(target, Access::write);
    if (!directory_) return 1;
    const Result<Facts> facts = directory_->stat(target.path, Follow::yes);
    const bool into = !never_into && facts && facts->is_directory();
    if (must_be_directory && !into) {
        complain({"target ", quote(target.text), ": ",
                  reason(facts ? Errc::not_directory : facts.code()), missing_hint(target)});
        return 1;
    }
    bool good = collect(sources, into);
    if (!items_.empty() && !(target.in_image() ? move_in_image() : move_on_mount())) good = false;
    return session_.close() && good ? 0 : 1;
}

int command_mv(std::span<char* const> arguments) {
    const Arguments parsed = parse_arguments(mv_page, arguments);
    if (parsed.done) return parsed.exit_code;
    std::vector<std::string> sources = parsed.operands;
    const std::string* directory = parsed.value('t');
    if (sources.empty()) return usage_error(mv_page, {"missing file operand"});
    if (directory != nullptr && parsed.has('T')) {
        return usage_error(mv_page,
                           {"cannot combine --target-directory and --no-target-directory"});
    }
    if (directory == nullptr && sources.size() == 1) {
        return usage_error(mv_page, {"missing destination file operand after ", quote(sources[0])});
    }
    if (parsed.has('T') && sources.size() > 2) {
        return usage_error(mv_page, {"extra operand ", quote(sources[2])});
    }
    const Location target = parse_location(directory != nullptr ? *directory : sources.back());
    if (directory == nullptr) sources.pop_back();
    Mover mover(parsed);
    return mover.run(sources, target, parsed.has('T'), directory != nullptr || sources.size() > 1);
}

}  // namespace

const Command mv_command = {"mv", "rename and move files", mv_page, command_mv};

}  // namespace warren::cli
