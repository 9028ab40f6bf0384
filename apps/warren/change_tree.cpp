// SPDX-License-Identifier: Apache-2.0
// One walk for all operands; without -R it goes no deeper than they are.
//
// Invariant: lines of several threads are whole.
#include "apps/warren/change_tree.hpp"

#include <cerrno>

#include "apps/warren/messages.hpp"
#include "apps/warren/progress.hpp"

namespace warren::cli {

bool change_trees(const TreeChange& change, WalkSetup& setup,
                  const std::vector<std::string>& operands) {
    FailureList failures;
    if (!failures.open(setup.errors_file)) return false;
    LineBuffers lines(setup.options);
    bool good = true;
    const auto fail = [&](const walk::Failure& failure) {
        if (!change.is_silent) return failures.add(failure);
        good = false;
    };
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
        const Changed changed =
            change.apply({entry.directory(), entry.name()}, follows, path, told, error);
        if (changed == Changed::failed) {
            fail({path, change.action, error});
        } else if (change.tells_all || (change.tells_changes && changed == Changed::yes)) {
            lines.of(entry.worker()) += told + "\n";
            lines.wrote(entry.worker());
        }
        return walk::Next::go_on;
    };
    callbacks.fail = fail;
    {
        const Progress progress("changing", meter);
        walk::walk(operands, setup.options, callbacks);
    }
    lines.flush();
    setup.options.meter = nullptr;
    return failures.finish() && good;
}

}  // namespace warren::cli
