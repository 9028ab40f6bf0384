// SPDX-License-Identifier: Apache-2.0
// Evaluates the tree of nodes from its root, and loads attributes only when a test needs them.
#include "apps/warren/find_expression.hpp"

#include <fnmatch.h>
#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <mutex>

#include "apps/warren/listing.hpp"
#include "apps/warren/messages.hpp"

namespace warren::cli {

namespace {

bool matches(const std::string& pattern, const std::string& text, bool fold_case) {
    return ::fnmatch(pattern.c_str(), text.c_str(), fold_case ? FNM_CASEFOLD : 0) == 0;
}

bool has_permission(u32 mode, u64 wanted, bool all, bool any) {
    if (all) return (mode & wanted) == wanted;
    if (any) return wanted == 0 || (mode & wanted) != 0;
    return (mode & 07777) == wanted;
}

bool has_name(u32 id, bool user) {
    // The library returns its result in static memory.
    static std::mutex mutex;
    std::lock_guard lock(mutex);
    return user ? ::getpwuid(id) != nullptr : ::getgrgid(id) != nullptr;
}

}  // namespace

bool Expression::changes_files() const {
    return std::any_of(nodes_.begin(), nodes_.end(), [](const Node& node) {
        return node.kind == Kind::remove || node.kind == Kind::run;
    });
}

void Expression::evaluate(const Found& found, FindPlace& place, Verdict& verdict) const {
    if (found.depth < min_depth_) return;  // descended into, but neither tested nor acted upon
    verdict.selected = test(nodes_[root_], found, place, verdict);
    if (!found.failed) return;
    // A file whose attributes cannot be read is neither selected nor printed.
    verdict.selected = false;
    verdict.output.clear();
}

bool Expression::test(const Node& node, const Found& found, FindPlace& place,
                      Verdict& verdict) const {
    // After -quit or a failure nothing more is evaluated.
    auto branch = [&](size_t index) {
        return !found.failed && !verdict.quit && test(nodes_[index], found, place, verdict);
    };
    switch (node.kind) {
        case Kind::always:
            return true;
        case Kind::never:
            return false;
        case Kind::both:
            return branch(node.left) && branch(node.right);
        case Kind::either:
            return branch(node.left) || branch(node.right);
        case Kind::sequence:
            branch(node.left);
            return branch(node.right);
        case Kind::negation:
            return !branch(node.left) && !found.failed;
        case Kind::name:
            return matches(node.text, std::string(last_component(found.name)), node.fold_case);
        case Kind::path:
            return matches(node.text, place.path(found), node.fold_case);
        case Kind::regex:
            return node.regex->matches(place.path(found));
        case Kind::link_name: {
            std::string target;
            return found.type == 'l' && place.read_link(found, target) &&
                   matches(node.text, target, node.fold_case);
        }
        case Kind::type:
            return node.text.find(found.type) != std::string::npos;
        case Kind::empty:
            if (found.type == 'd') return place.is_empty(found);
            return found.type == 'f' && found.attributes().size == 0 && !found.failed;
        case Kind::access:
            return place.may(found, static_cast<int>(node.number));
        case Kind::same_file:
            return place.is_file(found, node.unit, node.number);
        default:
            return is_action(node.kind) ? act(node, found, place, verdict)
                                        : test_attributes(node, found);
    }
}

bool Expression::test_attributes(const Node& node, const Found& found) const {
    const Attributes& attributes = found.attributes();
    if (found.failed) return false;
    auto compare = [&](u64 value) {
        if (node.sign == Sign::more) return value > node.number;
        if (node.sign == Sign::less) return value < node.number;
        return value == node.number;
    };
    switch (node.kind) {
        case Kind::size:
            return compare((attributes.size + node.unit - 1) / node.unit);
        case Kind::newer:
            return attributes.*node.time > static_cast<i64>(node.number);
        case Kind::age: {
            const i64 past = now_ - attributes.*node.time;
            // A time in the future counts as less than any age.
            if (past < 0) return node.sign == Sign::less;
            return compare(static_cast<u64>(past) / (node.unit * 1'000'000'000));
        }
        case Kind::links:
            return compare(attributes.links);
        case Kind::inode:
            return compare(attributes.handle.inode);
        case Kind::user:
            return compare(attributes.user);
        case Kind::group:
            return compare(attributes.group);
        case Kind::no_user:
            return !has_name(attributes.user, true);
        case Kind::no_group:
            return !has_name(attributes.group, false);
        default:
            return has_permission(attributes.mode, node.number, node.sign == Sign::more,
                                  node.sign == Sign::any);
    }
}

bool Expression::act(const Node& node, const Found& found, FindPlace& place,
                     Verdict& verdict) const {
    if (node.kind == Kind::prune) {
        verdict.prune = true;
        return true;
    }
    switch (node.kind) {
        case Kind::quit:
            verdict.quit = true;
            return true;
        case Kind::remove:
            return place.remove(found);
        case Kind::run:
            return place.run(found, node.number, verdict);
        case Kind::print_format:
        case Kind::print_list: {
            const size_t before = verdict.output.size();
            if (node.kind == Kind::print_list) {
                append_listed(verdict.output, found, place.path(found));
            } else {
                append_formatted(verdict.output, node.text, found, place.path(found));
            }
            if (found.failed) verdict.output.resize(before);
            return true;
        }
        default:
            if (node.kind == Kind::print) {
                append_masked_name(verdict.output, place.path(found));
                verdict.output += '\n';
            } else {
                (verdict.output += place.path(found)) += '\0';
            }
            return true;
    }
}

}  // namespace warren::cli
