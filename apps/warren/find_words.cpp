// SPDX-License-Identifier: Apache-2.0
// The parser (find_parser.cpp) has its own list of words; tests/apps/manual_test.py compares the
// two.
#include "apps/warren/find_words.hpp"

#include "apps/warren/find_regex.hpp"

namespace warren::cli {

namespace {

constexpr OptionWord tests[] = {
    {"-name", "GLOB", "the name matches"},
    {"-iname", "GLOB", "likewise, in letters of any case"},
    {"-path", "GLOB", "the path matches"},
    {"-wholename", "GLOB", "the same as -path"},
    {"-ipath", "GLOB", "likewise, in letters of any case"},
    {"-iwholename", "GLOB", "the same as -ipath"},
    {"-lname", "GLOB", "it is a symbolic link whose target matches"},
    {"-ilname", "GLOB", "likewise, in letters of any case"},
    {"-regex", "PATTERN", "the whole path matches"},
    {"-iregex", "PATTERN", "likewise, in letters of any case"},
    {"-regextype", "SYNTAX", "the syntax of the patterns behind it", FindRegex::syntaxes},
    {"-type", "LETTERS",
     "file (f), directory (d), link (l), block (b) or character (c) "
     "device, pipe (p), socket (s); with commas: any of them"},
    {"-size", "[+-]N[cwbkMG]", "so many units of 512 bytes, or of the unit named"},
    {"-empty", nullptr, "a file or directory with nothing in it"},
    {"-newer", "FILE", "modified after FILE was"},
    {"-anewer", "FILE", "accessed after FILE was modified"},
    {"-cnewer", "FILE", "changed after FILE was modified"},
    {"-newerXY", "FILE",
     "time X (a, c, m or B for birth) is after time Y of FILE; Y may be t: FILE is a "
     "time"},
    {"-mtime", "[+-]DAYS", "modified so many days ago (+: more, -: less)"},
    {"-atime", "[+-]DAYS", "accessed"},
    {"-ctime", "[+-]DAYS", "changed"},
    {"-mmin", "[+-]MINUTES", "modified so many minutes ago"},
    {"-amin", "[+-]MINUTES", "accessed"},
    {"-cmin", "[+-]MINUTES", "changed"},
    {"-links", "[+-]N", "it has so many names"},
    {"-inum", "[+-]N", "its inode has this number"},
    {"-samefile", "FILE", "it is FILE, under any name"},
    {"-user", "NAME", "owned by this user"},
    {"-group", "NAME", "owned by this group"},
    {"-uid", "[+-]N", "owned by the user of this number"},
    {"-gid", "[+-]N", "owned by the group of this number"},
    {"-nouser", nullptr, "no user has the owner's number"},
    {"-nogroup", nullptr, "no group has the group's number"},
    {"-perm", "[-/]MODE", "exactly this mode (-: all these bits, /: any of them)"},
    {"-readable", nullptr, "this process may read it"},
    {"-writable", nullptr, "it may write it"},
    {"-executable", nullptr, "it may execute or enter it"},
    {"-true", nullptr, "always"},
    {"-false", nullptr, "never"},
};

constexpr OptionWord limits[] = {
    {"-maxdepth", "N", "at most N levels below the starts"},
    {"-mindepth", "N", "only from N levels below the starts on"},
    {"-prune", nullptr, "do not enter this directory"},
    {"-xdev", nullptr, "do not enter other file systems"},
    {"-mount", nullptr, "the same as -xdev"},
    {"-depth", nullptr, "directories after what is in them"},
    {"-d", nullptr, "the same as -depth"},
    {"-quit", nullptr, "end the search"},
    {"-ignore_readdir_race", nullptr, "names that vanish meanwhile are no errors"},
    {"-noleaf", nullptr, nullptr},
    {"-warn", nullptr, nullptr},
    {"-nowarn", nullptr, nullptr},
};

constexpr OptionWord actions[] = {
    {"-print", nullptr, "print the path (default)"},
    {"-print0", nullptr, "print the path and a zero byte"},
    {"-ls", nullptr, "print a line as ls -dils does"},
    {"-printf", "FORMAT",
     "print what FORMAT says: %p %P %H %f %h %l %d %s %b %k %m %M %y %i %n %u %g %U %G, "
     "%t %T@ %T+ %Ts and the same with A and C, %-20f with a width, \\n \\t \\0"},
    {"-exec", "COMMAND ;", "run COMMAND with the path in place of {}"},
    {"-exec", "COMMAND {} +", "run COMMAND with many paths"},
    {"-delete", nullptr, "remove it; implies -depth"},
};

constexpr OptionWord operators[] = {
    {"(", "EXPRESSION )", "what is in brackets comes first"},
    {"!", "EXPRESSION", "not"},
    {"-not", "EXPRESSION", "the same as !"},
    {"-a", nullptr, "and; the default between two words"},
    {"-and", nullptr, "the same as -a"},
    {"-o", nullptr, "or"},
    {"-or", nullptr, "the same as -o"},
    {",", nullptr, "both, with the value of the second"},
};

template <size_t count>
Section section(const char* heading, const OptionWord (&words)[count]) {
    return {heading, {words, words + count}};
}

}  // namespace

std::vector<Section> find_sections() {
    return {section("Tests", tests), section("Limits", limits), section("Actions", actions),
            section("Operators, the strongest first", operators)};
}

}  // namespace warren::cli
