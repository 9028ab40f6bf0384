// SPDX-License-Identifier: Apache-2.0
// A tree of nodes in one vector, built from the words by descent (an opening bracket goes one
// deeper, so the depth is what the user typed) and evaluated from the root.
#include "apps/warren/find_expression.hpp"

#include <fnmatch.h>
#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <ctime>

#include "apps/warren/listing.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/units.hpp"

namespace warren::cli {

namespace {

constexpr u64 seconds_per_day = 86400;

}  // namespace

class ExpressionParser {
 public:
    ExpressionParser(std::span<const std::string> words, const Expression::TimeOf& time_of)
        : words_(words), time_of_(time_of) {}

    bool parse(Expression& result);

 private:
    using Node = Expression::Node;
    using Kind = Expression::Kind;
    using Sign = Expression::Sign;

    bool at_end() const { return next_ == words_.size(); }
    bool accept(std::string_view word) {
        if (at_end() || words_[next_] != word) return false;
        ++next_;
        return true;
    }
    size_t add(Node node) {
        expression_->nodes_.push_back(std::move(node));
        return expression_->nodes_.size() - 1;
    }
    bool parse_either(size_t& result);
    bool parse_both(size_t& result);
    bool parse_negation(size_t& result);
    bool parse_primary(size_t& result);
    bool parse_word(const std::string& word, const std::string& value, Node& node);
    bool parse_compared(const std::string& word, std::string_view value, Node& node);
    bool parse_number_word(const std::string& word, const std::string& value, Node& node);
    bool parse_size(std::string_view value, Node& node);
    bool parse_permission(std::string_view value, Node& node);
    bool parse_owner(const std::string& word, const std::string& value, Node& node);
    bool parse_depth(const std::string& word, const std::string& value);
    bool bad(const std::string& word, const std::string& value) {
        complain({"invalid argument ", quote(value), " to ", quote(word)});
        return false;
    }

    std::span<const std::string> words_;
    const Expression::TimeOf& time_of_;
    size_t next_ = 0;
    Expression* expression_ = nullptr;
};

bool ExpressionParser::parse(Expression& result) {
    expression_ = &result;
    if (words_.empty()) {
        result.root_ = add({});
        return true;
    }
    if (!parse_either(result.root_)) return false;
    if (at_end()) return true;
    complain({"unexpected ", quote(words_[next_])});
    return false;
}

bool ExpressionParser::parse_either(size_t& result) {
    if (!parse_both(result)) return false;
    while (accept("-o") || accept("-or")) {
        Node node;
        node.kind = Kind::either;
        node.left = result;
        if (!parse_both(node.right)) return false;
        result = add(node);
    }
    return true;
}

bool ExpressionParser::parse_both(size_t& result) {
    if (!parse_negation(result)) return false;
    while (!at_end() && words_[next_] != "-o" && words_[next_] != "-or" && words_[next_] != ")") {
        if (!accept("-a")) accept("-and");
        Node node;
        node.kind = Kind::both;
        node.left = result;
        if (!parse_negation(node.right)) return false;
        result = add(node);
    }
    return true;
}

bool ExpressionParser::parse_negation(size_t& result) {
    if (!accept("!") && !accept("-not")) return parse_primary(result);
    Node node;
    node.kind = Kind::negation;
    if (!parse_negation(node.left)) return false;
    result = add(node);
    return true;
}

bool ExpressionParser::parse_primary(size_t& result) {
    if (at_end()) {
        complain({"the expression ends too early"});
        return false;
    }
    if (accept("(")) {
        if (!parse_either(result)) return false;
        if (accept(")")) return true;
        complain({"a ')' is missing"});
        return false;
    }
    const std::string word = words_[next_++];
    Node node;
    bool plain = true;
    if (word == "-true") {
        node.kind = Kind::always;
    } else if (word == "-print") {
        node.kind = Kind::print;
    } else if (word == "-print0") {
        node.kind = Kind::print_zero;
    } else if (word == "-prune") {
        node.kind = Kind::prune;
    } else if (word == "-empty") {
        node.kind = Kind::empty;
    } else {
        plain = false;
    }
    if (!plain) {
        if (at_end()) {
            complain({word.starts_with('-') && word.size() > 1
                          ? "unknown predicate or missing argument: "
                          : "paths must precede the expression: ",
                      quote(word)});
            return false;
        }
        const std::string value = words_[next_++];
        if (!parse_word(word, value, node)) return false;
    }
    if (node.kind == Kind::print || node.kind == Kind::print_zero ||
        node.kind == Kind::print_format) {
        expression_->has_action_ = true;
    }
    result = add(std::move(node));
    return true;
}

bool ExpressionParser::parse_word(const std::string& word, const std::string& value, Node& node) {
    node.text = value;
    if (word == "-maxdepth" || word == "-mindepth") return parse_depth(word, value);
    if (word == "-name" || word == "-iname") {
        node.kind = Kind::name;
        node.fold_case = word == "-iname";
        return true;
    }
    if (word == "-path" || word == "-ipath" || word == "-wholename") {
        node.kind = Kind::path;
        node.fold_case = word == "-ipath";
        return true;
    }
    if (word == "-printf") {
        node.kind = Kind::print_format;
        return true;
    }
    if (word == "-type") {
        node.kind = Kind::type;
        const bool known = value.find_first_not_of("fdlbcps,") == std::string::npos;
        return (known && !value.empty()) || bad(word, value);
    }
    if (word == "-newer") {
        node.kind = Kind::newer;
        const std::optional<i64> time = time_of_(value);
        if (time) node.number = static_cast<u64>(*time);
        return time.has_value();
    }
    if (word == "-size") return parse_size(value, node) || bad(word, value);
    if (word == "-perm") return parse_permission(value, node) || bad(word, value);
    if (word == "-user" || word == "-group") return parse_owner(word, value, node);
    return parse_number_word(word, value, node);
}

/// A number with an optional sign: more than, less than, exactly.
bool ExpressionParser::parse_compared(const std::string& word, std::string_view value, Node& node) {
    const std::string whole(value);
    if (value.starts_with('+')) node.sign = Sign::more;
    if (value.starts_with('-')) node.sign = Sign::less;
    if (node.sign != Sign::equal) value.remove_prefix(1);
    const std::optional<u64> number = parse_number(value);
    if (!number) return bad(word, whole);
    node.number = *number;
    return true;
}

bool ExpressionParser::parse_number_word(const std::string& word, const std::string& value,
                                         Node& node) {
    static const struct {
        std::string_view word;
        Kind kind;
        u64 unit;
        i64 Attributes::*time;
    } known[] = {
        {"-links", Kind::links, 1, nullptr},
        {"-inum", Kind::inode, 1, nullptr},
        {"-uid", Kind::user, 1, nullptr},
        {"-gid", Kind::group, 1, nullptr},
        {"-mtime", Kind::age, seconds_per_day, &Attributes::modified},
        {"-atime", Kind::age, seconds_per_day, &Attributes::accessed},
        {"-ctime", Kind::age, seconds_per_day, &Attributes::changed},
        {"-mmin", Kind::age, 60, &Attributes::modified},
        {"-amin", Kind::age, 60, &Attributes::accessed},
        {"-cmin", Kind::age, 60, &Attributes::changed},
    };
    for (const auto& entry : known) {
        if (entry.word != word) continue;
        node.kind = entry.kind;
        node.unit = entry.unit;
        node.time = entry.time;
        return parse_compared(word, value, node);
    }
    complain({"unknown predicate ", quote(word)});
    return false;
}

bool ExpressionParser::parse_size(std::string_view value, Node& node) {
    node.kind = Kind::size;
    node.unit = 512;
    static constexpr std::string_view letters = "cwbkMG";
    static constexpr u64 units[] = {1, 2, 512, kib, mib, gib};
    if (!value.empty()) {
        const size_t place = letters.find(value.back());
        if (place != std::string_view::npos) {
            node.unit = units[place];
            value.remove_suffix(1);
        }
    }
    if (value.starts_with('+')) node.sign = Sign::more;
    if (value.starts_with('-')) node.sign = Sign::less;
    if (node.sign != Sign::equal) value.remove_prefix(1);
    const std::optional<u64> number = parse_number(value);
    node.number = number.value_or(0);
    return number.has_value();
}

bool ExpressionParser::parse_permission(std::string_view value, Node& node) {
    node.kind = Kind::permission;
    if (value.starts_with('-')) node.sign = Sign::more;
    if (value.starts_with('/')) node.sign = Sign::any;
    if (node.sign != Sign::equal) value.remove_prefix(1);
    if (value.empty() || value.size() > 5) return false;
    for (const char digit : value) {
        if (digit < '0' || digit > '7') return false;
        node.number = node.number * 8 + static_cast<u64>(digit - '0');
    }
    return node.number <= 07777;
}

bool ExpressionParser::parse_owner(const std::string& word, const std::string& value, Node& node) {
    const bool user = word == "-user";
    node.kind = user ? Kind::user : Kind::group;
    if (const std::optional<u64> number = parse_number(value)) {
        node.number = *number;
        return true;
    }
    if (const passwd* found = user ? ::getpwnam(value.c_str()) : nullptr) {
        node.number = found->pw_uid;
        return true;
    }
    if (const group* found = user ? nullptr : ::getgrnam(value.c_str())) {
        node.number = found->gr_gid;
        return true;
    }
    complain({quote(value), " is not the name of a known ", user ? "user" : "group"});
    return false;
}

bool ExpressionParser::parse_depth(const std::string& word, const std::string& value) {
    const std::optional<u64> depth = parse_number(value);
    if (!depth) return bad(word, value);
    u32& place = word == "-maxdepth" ? expression_->max_depth_ : expression_->min_depth_;
    place = static_cast<u32>(std::min<u64>(*depth, ~0u));
    return true;
}

std::optional<Expression> Expression::parse(std::span<const std::string> words,
                                            const TimeOf& time_of) {
    Expression result;
    result.now_ = static_cast<i64>(std::time(nullptr));
    if (!ExpressionParser(words, time_of).parse(result)) return {};
    return result;
}

namespace {

bool matches(const std::string& pattern, const std::string& text, bool fold_case) {
    return ::fnmatch(pattern.c_str(), text.c_str(), fold_case ? FNM_CASEFOLD : 0) == 0;
}

bool has_permission(u32 mode, u64 wanted, bool all, bool any) {
    if (all) return (mode & wanted) == wanted;
    if (any) return wanted == 0 || (mode & wanted) != 0;
    return (mode & 07777) == wanted;
}

}  // namespace

void Expression::evaluate(const Found& found, const Helper& helper, Verdict& verdict) const {
    verdict.selected = test(nodes_[root_], found, helper, verdict);
}

bool Expression::test(const Node& node, const Found& found, const Helper& helper,
                      Verdict& verdict) const {
    const Attributes& attributes = found.attributes;
    auto compare = [&](u64 value) {
        if (node.sign == Sign::more) return value > node.number;
        if (node.sign == Sign::less) return value < node.number;
        return value == node.number;
    };
    auto branch = [&](size_t index) { return test(nodes_[index], found, helper, verdict); };
    switch (node.kind) {
        case Kind::always:
            return true;
        case Kind::both:
            return branch(node.left) && branch(node.right);
        case Kind::either:
            return branch(node.left) || branch(node.right);
        case Kind::negation:
            return !branch(node.left);
        case Kind::name:
            return matches(node.text, std::string(last_component(found.name)), node.fold_case);
        case Kind::path:
            return matches(node.text, helper.path(found), node.fold_case);
        case Kind::type:
            return node.text.find(type_letter(attributes.mode)) != std::string::npos;
        case Kind::size:
            return compare((attributes.size + node.unit - 1) / node.unit);
        case Kind::newer:
            return attributes.modified > static_cast<i64>(node.number);
        case Kind::age: {
            const i64 seconds = now_ - attributes.*node.time / 1'000'000'000;
            return compare(seconds < 0 ? 0 : static_cast<u64>(seconds) / node.unit);
        }
        case Kind::empty:
            if (type_letter(attributes.mode) == 'd') return helper.is_empty(found);
            return type_letter(attributes.mode) == 'f' && attributes.size == 0;
        case Kind::links:
            return compare(attributes.links);
        case Kind::inode:
            return compare(attributes.handle.inode);
        case Kind::user:
            return compare(attributes.user);
        case Kind::group:
            return compare(attributes.group);
        case Kind::permission:
            return has_permission(attributes.mode, node.number, node.sign == Sign::more,
                                  node.sign == Sign::any);
        default:
            return act(node, found, helper, verdict);
    }
}

bool Expression::act(const Node& node, const Found& found, const Helper& helper,
                     Verdict& verdict) const {
    if (node.kind == Kind::prune) {
        verdict.prune = true;
        return true;
    }
    // What is not deep enough is walked through, not acted upon.
    if (found.depth < min_depth_) return true;
    if (node.kind == Kind::print_format) {
        append_formatted(verdict.output, node.text, found, helper.path(found));
        return true;
    }
    verdict.output += helper.path(found);
    verdict.output += node.kind == Kind::print ? '\n' : '\0';
    return true;
}

}  // namespace warren::cli
