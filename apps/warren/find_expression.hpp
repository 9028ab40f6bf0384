// SPDX-License-Identifier: Apache-2.0
// The expressions of find(1): tests, actions and how they are joined.
//
// Invariant: a parsed expression is constant; any number of threads evaluate it at once, each with
// its own Verdict.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/warren/tree_scan.hpp"

namespace warren::cli {

/// What evaluating the expression for one entry brought.
struct Verdict {
    std::string output;     // of -print, -print0 and -printf
    bool selected = false;  // the value of the whole expression
    bool prune = false;
};

class Expression {
 public:
    /// Answers questions that a test needs the volume for.
    struct Helper {
        std::function<bool(const Found&)> is_empty;
        std::function<std::string(const Found&)> path;
    };
    /// The modification time of a file named by -newer.
    using TimeOf = std::function<std::optional<i64>(const std::string&)>;

    /// Nothing, with a complaint, if the words make no expression.
    static std::optional<Expression> parse(std::span<const std::string> words,
                                           const TimeOf& time_of);

    void evaluate(const Found& found, const Helper& helper, Verdict& verdict) const;

    /// What every file must fulfil before anything comes of it: a scan may leave out the others.
    /// Its pattern is a part of this expression.
    ScanFilter filter() const;

    bool has_action() const { return has_action_; }
    u32 min_depth() const { return min_depth_; }
    u32 max_depth() const { return max_depth_; }

 private:
    friend class ExpressionParser;
    enum class Kind : u8 {
        always,
        name,
        path,
        type,
        size,
        newer,
        age,
        empty,
        links,
        inode,
        user,
        group,
        permission,
        print,
        print_zero,
        print_format,
        prune,
        both,
        either,
        negation,
    };
    enum class Sign : u8 { equal, more, less, any };
    struct Node {
        Kind kind = Kind::always;
        std::string text;
        bool fold_case = false;
        Sign sign = Sign::equal;
        u64 number = 0;
        u64 unit = 1;
        i64 Attributes::*time = nullptr;
        size_t left = 0;
        size_t right = 0;
    };

    bool test(const Node& node, const Found& found, const Helper& helper, Verdict& verdict) const;
    bool act(const Node& node, const Found& found, const Helper& helper, Verdict& verdict) const;
    bool narrow(size_t index, ScanFilter& filter) const;
    bool acts(size_t index) const;

    std::vector<Node> nodes_;
    size_t root_ = 0;
    bool has_action_ = false;
    u32 min_depth_ = 0;
    u32 max_depth_ = ~0u;
    i64 now_ = 0;
};

/// Appends what find -printf `format` writes for the entry. Unknown directives stay as they are.
void append_formatted(std::string& target, std::string_view format, const Found& found,
                      const std::string& path);

}  // namespace warren::cli
