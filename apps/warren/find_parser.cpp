// SPDX-License-Identifier: Apache-2.0
// Builds a tree of nodes, stored in one vector, by recursive descent. Each opening bracket
// recurses, so the depth is bounded by what the user typed.
#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>

#include "apps/fuse/option_word.hpp"
#include "apps/warren/find_expression.hpp"
#include "apps/warren/messages.hpp"
#include "apps/warren/time_text.hpp"
#include "apps/warren/units.hpp"
#include "base/file_clock.hpp"

namespace warren::cli {

namespace {

constexpr u64 seconds_per_day = 86400;

}  // namespace

class ExpressionParser {
 public:
    ExpressionParser(std::span<const std::string> words, const Expression::FactsOf& facts_of)
        : words_(words), facts_of_(facts_of) {}

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
    bool parse_sequence(size_t& result);
    bool parse_either(size_t& result);
    bool parse_both(size_t& result);
    bool parse_negation(size_t& result);
    bool parse_primary(size_t& result);
    bool parse_switch(const std::string& word, Node& node);
    bool parse_command(const std::string& word, Node& node);
    bool parse_pattern(const std::string& word, const std::string& value, Node& node);
    bool parse_newer(const std::string& word, const std::string& value, Node& node);
    bool parse_regex(const std::string& word, const std::string& value, Node& node);
    bool parse_word(const std::string& word, const std::string& value, Node& node);
    bool parse_compared(const std::string& word, std::string_view value, Node& node);
    bool parse_number_word(const std::string& word, const std::string& value, Node& node);
    bool parse_size(std::string_view value, Node& node);
    bool parse_permission(std::string_view value, Node& node);
    bool parse_owner(const std::string& word, const std::string& value, Node& node);
    bool parse_depth(const std::string& word, const std::string& value);
    static bool acts(Kind kind) {
        return kind == Kind::print || kind == Kind::print_zero || kind == Kind::print_format ||
               kind == Kind::print_list || kind == Kind::remove || kind == Kind::run;
    }
    bool bad(const std::string& word, const std::string& value) {
        complain({"invalid argument ", quote(value), " to ", quote(word)});
        return false;
    }

    std::span<const std::string> words_;
    const Expression::FactsOf& facts_of_;
    std::string regex_syntax_ = "findutils-default";
    size_t next_ = 0;
    Expression* expression_ = nullptr;
};

bool ExpressionParser::parse(Expression& result) {
    expression_ = &result;
    if (words_.empty()) {
        result.root_ = add({});
        return true;
    }
    if (!parse_sequence(result.root_)) return false;
    if (at_end()) return true;
    complain({"unexpected ", quote(words_[next_])});
    return false;
}

bool ExpressionParser::parse_sequence(size_t& result) {
    if (!parse_either(result)) return false;
    while (accept(",")) {
        Node node;
        node.kind = Kind::sequence;
        node.left = result;
        if (!parse_either(node.right)) return false;
        result = add(node);
    }
    return true;
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
    while (!at_end() && words_[next_] != "-o" && words_[next_] != "-or" && words_[next_] != ")" &&
           words_[next_] != ",") {
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
        if (!parse_sequence(result)) return false;
        if (accept(")")) return true;
        complain({"a ')' is missing"});
        return false;
    }
    const std::string word = words_[next_++];
    Node node;
    if (word == "-exec") {
        if (!parse_command(word, node)) return false;
    } else if (!parse_switch(word, node)) {
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
    if (acts(node.kind)) expression_->has_action_ = true;
    result = add(std::move(node));
    return true;
}

/// Words that take no value.
bool ExpressionParser::parse_switch(const std::string& word, Node& node) {
    static const struct {
        std::string_view word;
        Kind kind;
        u64 number;
    } known[] = {
        {"-true", Kind::always, 0},
        {"-false", Kind::never, 0},
        {"-print", Kind::print, 0},
        {"-print0", Kind::print_zero, 0},
        {"-ls", Kind::print_list, 0},
        {"-prune", Kind::prune, 0},
        {"-empty", Kind::empty, 0},
        {"-quit", Kind::quit, 0},
        {"-delete", Kind::remove, 0},
        {"-nouser", Kind::no_user, 0},
        {"-nogroup", Kind::no_group, 0},
        {"-readable", Kind::access, R_OK},
        {"-writable", Kind::access, W_OK},
        {"-executable", Kind::access, X_OK},
        {"-depth", Kind::always, 0},
        {"-d", Kind::always, 0},
        {"-xdev", Kind::always, 0},
        {"-mount", Kind::always, 0},
        {"-ignore_readdir_race", Kind::always, 0},
        {"-noleaf", Kind::always, 0},
        {"-warn", Kind::always, 0},
        {"-nowarn", Kind::always, 0},
    };
    const auto found = std::find_if(std::begin(known), std::end(known),
                                    [&](const auto& entry) { return entry.word == word; });
    if (found == std::end(known)) return false;
    node.kind = found->kind;
    node.number = found->number;
    if (word == "-depth" || word == "-d" || word == "-delete") expression_->depth_first_ = true;
    if (word == "-xdev" || word == "-mount") expression_->one_file_system_ = true;
    if (word == "-ignore_readdir_race") expression_->ignores_vanished_ = true;
    const bool for_host =
        node.kind == Kind::remove || node.kind == Kind::access || word == "-depth" || word == "-d";
    if (for_host) expression_->needs_host_ = word;
    return true;
}

/// -exec, with all words up to ";" or "{} +".
bool ExpressionParser::parse_command(const std::string& word, Node& node) {
    FindCommand command;
    bool ended = false;
    while (!at_end() && !ended) {
        const std::string& next = words_[next_++];
        const bool follows_braces = !command.words.empty() && command.words.back() == "{}";
        command.gathers = next == "+" && follows_braces;
        ended = next == ";" || command.gathers;
        if (!ended) command.words.push_back(next);
    }
    if (command.gathers) command.words.pop_back();
    if (!ended || command.words.empty()) {
        complain({word, " needs a command that ends with ';' or '{} +' (in a shell: \\;)"});
        return false;
    }
    node.kind = Kind::run;
    node.number = expression_->commands_.size();
    expression_->commands_.push_back(std::move(command));
    expression_->needs_host_ = word;
    return true;
}

bool ExpressionParser::parse_pattern(const std::string& word, const std::string& value,
                                     Node& node) {
    static const struct {
        std::string_view word;
        Kind kind;
        bool fold_case;
    } known[] = {
        {"-name", Kind::name, false},           {"-iname", Kind::name, true},
        {"-path", Kind::path, false},           {"-ipath", Kind::path, true},
        {"-wholename", Kind::path, false},      {"-iwholename", Kind::path, true},
        {"-lname", Kind::link_name, false},     {"-ilname", Kind::link_name, true},
        {"-printf", Kind::print_format, false},
    };
    for (const auto& entry : known) {
        if (entry.word != word) continue;
        node.kind = entry.kind;
        node.fold_case = entry.fold_case;
        node.text = value;
        if (node.kind == Kind::link_name) expression_->needs_host_ = word;
        return true;
    }
    return false;
}

bool ExpressionParser::parse_word(const std::string& word, const std::string& value, Node& node) {
    node.text = value;
    if (word == "-maxdepth" || word == "-mindepth") return parse_depth(word, value);
    if (parse_pattern(word, value, node)) return true;
    if (word == "-regex" || word == "-iregex" || word == "-regextype") {
        return parse_regex(word, value, node);
    }
    if (word == "-type") {
        node.kind = Kind::type;
        const bool known = value.find_first_not_of("fdlbcps,") == std::string::npos;
        return (known && !value.empty()) || bad(word, value);
    }
    if (word == "-samefile") {
        const std::optional<Facts> facts = facts_of_(value);
        if (!facts) return false;
        node.kind = Kind::same_file;
        node.unit = facts->file_system;
        node.number = facts->attributes.handle.inode;
        expression_->needs_host_ = word;
        return true;
    }
    if (word.starts_with("-newer") || word == "-anewer" || word == "-cnewer") {
        return parse_newer(word, value, node);
    }
    if (word == "-size") return parse_size(value, node) || bad(word, value);
    if (word == "-perm") return parse_permission(value, node) || bad(word, value);
    if (word == "-user" || word == "-group") return parse_owner(word, value, node);
    return parse_number_word(word, value, node);
}

/// -newer, -anewer, -cnewer, and -newerXY, which compares a time with that of a file or a literal
/// time.
bool ExpressionParser::parse_newer(const std::string& word, const std::string& value, Node& node) {
    const auto time_named = [](char letter) {
        return letter == 'a'   ? &Attributes::accessed
               : letter == 'c' ? &Attributes::changed
               : letter == 'm' ? &Attributes::modified
               : letter == 'B' ? &Attributes::born
                               : nullptr;
    };
    const std::string which = word == "-newer"    ? "mm"
                              : word == "-anewer" ? "am"
                              : word == "-cnewer" ? "cm"
                                                  : word.substr(std::string("-newer").size());
    const bool is_text = which.size() == 2 && which[1] == 't';
    const auto other = which.size() == 2 ? time_named(which[1]) : nullptr;
    node.kind = Kind::newer;
    node.time = which.size() == 2 ? time_named(which[0]) : nullptr;
    if (node.time == nullptr || (other == nullptr && !is_text)) {
        complain({"unknown predicate ", quote(word)});
        return false;
    }
    if (is_text) {
        const std::optional<i64> time = parse_time(value, expression_->now_);
        if (time) node.number = static_cast<u64>(*time);
        if (!time) {
            complain({"cannot read ", quote(value),
                      " as a time: write such as 2024-01-31, '2024-01-31 15:04', @1706713440 or "
                      "'2 days ago'"});
        }
        return time.has_value();
    }
    const std::optional<Facts> facts = facts_of_(value);
    if (!facts) return false;
    const i64 time = facts->attributes.*other;
    node.number = static_cast<u64>(time);
    return true;
}

bool ExpressionParser::parse_regex(const std::string& word, const std::string& value, Node& node) {
    if (word == "-regextype") {
        if (!FindRegex::knows(value)) {
            complain({"invalid argument ", quote(value), " to ", quote(word), ": name ",
                      listed(FindRegex::syntaxes())});
            return false;
        }
        regex_syntax_ = value;
        return true;
    }
    std::string problem;
    node.kind = Kind::regex;
    node.regex = FindRegex::make(value, regex_syntax_, word == "-iregex", problem);
    if (node.regex == nullptr) complain({"invalid pattern ", quote(value), ": ", problem});
    return node.regex != nullptr;
}

/// A number with an optional sign: + more than, - less than, none exactly.
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
    if (value.empty()) return false;
    if (value[0] < '0' || value[0] > '7') return parse_symbolic_permission(value, node.number);
    if (value.size() > 5) return false;
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
                                            const FactsOf& facts_of) {
    Expression result;
    result.now_ = now_nanoseconds();
    if (!ExpressionParser(words, facts_of).parse(result)) return {};
    return result;
}

}  // namespace warren::cli
