// SPDX-License-Identifier: Apache-2.0
// The expressions of find(1): tests, actions and operators.
//
// Invariant: a parsed expression is constant; any number of threads evaluate it concurrently, each
// with its own Verdict and FindPlace.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/warren/find_regex.hpp"
#include "apps/warren/tree_scan.hpp"

namespace warren::cli {

/// The result of evaluating the expression for one entry.
struct Verdict {
    std::string output;     // of -print, -print0, -printf and -ls
    bool selected = false;  // the value of the whole expression
    bool prune = false;
    bool quit = false;
};

/// Answers questions of tests and actions that need the file system. The default answers are for a
/// volume, in which such tests are refused; see Expression::needs_host().
class FindPlace {
 public:
    virtual ~FindPlace() = default;
    virtual bool is_empty(const Found& found) = 0;
    virtual const std::string& path(const Found& found) = 0;
    virtual bool remove(const Found&) { return false; }
    /// Runs command `number` of Expression::commands(), or collects the path for it.
    virtual bool run(const Found&, size_t, Verdict&) { return false; }
    virtual bool read_link(const Found&, std::string&) { return false; }
    /// Like access(2), for -readable and the like.
    virtual bool may(const Found&, int) { return false; }
    virtual bool is_file(const Found&, u64, u64) { return false; }
};

/// The words of one -exec command.
struct FindCommand {
    std::vector<std::string> words;
    bool gathers = false;  // ends with {} +
};

class Expression {
 public:
    /// The result of stat for a file named by -newer or -samefile.
    using FactsOf = std::function<std::optional<Facts>(const std::string&)>;

    /// Returns nullopt, after an error message, if the words are not a valid expression.
    static std::optional<Expression> parse(std::span<const std::string> words,
                                           const FactsOf& facts_of);

    void evaluate(const Found& found, FindPlace& place, Verdict& verdict) const;

    /// A condition that every file must meet before the expression can act on it; a scan may skip
    /// all others. The filter's pattern points into this expression.
    ScanFilter filter() const;

    bool has_action() const { return has_action_; }
    u32 min_depth() const { return min_depth_; }
    u32 max_depth() const { return max_depth_; }
    /// Whether directories come after their contents.
    bool depth_first() const { return depth_first_; }
    bool one_file_system() const { return one_file_system_; }
    bool ignores_vanished() const { return ignores_vanished_; }
    /// The first word that works only on files of the host; empty if there is none.
    const std::string& needs_host() const { return needs_host_; }
    const std::vector<FindCommand>& commands() const { return commands_; }
    /// Whether it removes files or runs commands, so that attributes read earlier may be outdated.
    bool changes_files() const;

 private:
    friend class ExpressionParser;
    enum class Kind : u8 {
        always,
        never,
        name,
        path,
        regex,
        link_name,
        type,
        size,
        newer,
        age,
        empty,
        links,
        inode,
        user,
        group,
        no_user,
        no_group,
        permission,
        access,
        same_file,
        print,
        print_zero,
        print_format,
        print_list,
        prune,
        quit,
        remove,
        run,
        both,
        either,
        sequence,
        negation,
    };
    static constexpr bool is_action(Kind kind) { return kind >= Kind::print && kind <= Kind::run; }
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
        std::shared_ptr<const FindRegex> regex;
    };

    bool test(const Node& node, const Found& found, FindPlace& place, Verdict& verdict) const;
    bool test_attributes(const Node& node, const Found& found) const;
    bool act(const Node& node, const Found& found, FindPlace& place, Verdict& verdict) const;
    bool narrow(size_t index, ScanFilter& filter) const;
    bool acts(size_t index) const;

    std::vector<Node> nodes_;
    std::vector<FindCommand> commands_;
    std::string needs_host_;
    size_t root_ = 0;
    bool has_action_ = false;
    bool depth_first_ = false;
    bool one_file_system_ = false;
    bool ignores_vanished_ = false;
    u32 min_depth_ = 0;
    u32 max_depth_ = ~0u;
    i64 now_ = 0;  // nanoseconds
};

/// Parses symbolic permissions, as in -perm u+w,g=r; false if they are malformed.
bool parse_symbolic_permission(std::string_view text, u64& mode);

/// Appends the output of find -printf `format` for the entry. Unknown directives are copied as they
/// are.
void append_formatted(std::string& target, std::string_view format, const Found& found,
                      const std::string& path);

/// Appends the line of find -ls.
void append_listed(std::string& target, const Found& found, const std::string& path);

}  // namespace warren::cli
