// SPDX-License-Identifier: Apache-2.0
// One walk handles all operands; without -R its depth is zero.
//
// Invariant: lines of several threads never mix.
#include "apps/warren/change_tree.hpp"

#include "apps/warren/messages.hpp"
#include "apps/warren/progress.hpp"
#include "apps/warren/ranks.hpp"
#include "apps/warren/tally.hpp"
#include "walk/bytes.hpp"

namespace warren::cli {

bool read_change(const Page& page, const Arguments& parsed, size_t operands, TreeChange& change,
                 WalkSetup& setup) {
    change.recursive = parsed.has('R');
    change.tells_all = parsed.has('v');
    change.tells_changes = parsed.has('c');
    change.is_silent = parsed.has('f');
    change.sums_up = parsed.has(json_option);
    return setup.take_all(parsed) && take_checkpoint(page, parsed, operands, setup);
}

namespace {

enum : size_t { changed_count, unchanged_count };

}  // namespace

int change_trees(const TreeChange& change, WalkSetup& setup,
                 const std::vector<std::string>& operands) {
    raise_open_limit();
    FailureList failures;
    if (change.is_silent) failures.be_silent();
    if (!begin_checkpoints(setup) || !failures.open(setup.errors_file, setup.options.resume))
        return 1;
    LineBuffers lines(setup.options);
    ChangeLimit limit(setup.options);
    Tally tally({"changed", "unchanged"});
    walk::Meter meter;
    setup.options.meter = &meter;
    setup.options.follow = change.follow_operands ? walk::Follow::roots : walk::Follow::none;
    if (!change.recursive) setup.options.max_depth = 0;
    walk::Callbacks callbacks;
    callbacks.visit = [&](const walk::Entry& entry) {
        const bool is_operand = entry.depth() == 0;
        const bool follows = is_operand && change.follow_operands;
        if (!is_operand && entry.type() == walk::Type::link && !change.changes_links) {
            return walk::Next::go_on;
        }
        std::string told;
        i32 error = 0;
        const std::string path(entry.path());
        limit.take();
        const Changed changed =
            change.apply({entry.directory(), entry.name()}, follows, path, told, error);
        if (changed != Changed::failed)
            tally.add(changed == Changed::yes ? changed_count : unchanged_count);
        if (changed == Changed::failed) {
            failures.add({path, change.action, error});
        } else if (change.tells_all || (change.tells_changes && changed == Changed::yes)) {
            lines.of(entry.worker()) += told + "\n";
            lines.wrote(entry.worker());
        }
        return walk::Next::go_on;
    };
    callbacks.fail = [&](const walk::Failure& failure) { failures.add(failure); };
    callbacks.save = [&] {
        lines.flush();
        if (rank_number() == 0) finish_output();
        return tally.save() + failures.save();
    };
    callbacks.load = [&](std::string_view saved) {
        walk::ByteReader reader(saved, walk::Origin::file);
        return tally.load(reader) && failures.load(reader);
    };
    walk::Totals totals;
    {
        const Progress progress("changing", meter);
        totals = walk::walk(operands, setup.options, callbacks);
    }
    lines.flush();
    setup.options.meter = nullptr;
    if (totals.interrupted) return exit_interrupted(setup);
    end_checkpoints(setup);
    const bool is_good = failures.finish();
    if (change.sums_up) tally.print(failures.count());
    return is_good ? 0 : 1;
}

}  // namespace warren::cli
