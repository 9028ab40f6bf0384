// SPDX-License-Identifier: Apache-2.0
// The parser (find_parser.cpp) has its own list of words; tests/apps/manual_test.py compares the
// two.
#include "apps/warren/find_words.hpp"

#include "apps/warren/find_regex.hpp"

namespace warren::cli {

namespace {

constexpr OptionWord tests[] = {
    {"-name", "GLOB", "the name matches"},
    {"-iname", "GLOB", "the same, ignoring case"},
    {"-path", "GLOB", "the path matches"},
    {"-wholename", "GLOB", "the same as -path"},
    {"-ipath", "GLOB", "the same, ignoring case"},
    {"-iwholename", "GLOB", "the same as -ipath"},
    {"-lname", "GLOB", "a symbolic link whose target matches"},
    {"-ilname", "GLOB", "the same, ignoring case"},
    {"-regex", "PATTERN", "the whole path matches"},
    {"-iregex", "PATTERN", "the same, ignoring case"},
    {"-regextype", "SYNTAX", "the syntax of the patterns that follow", FindRegex::syntaxes},
    {"-type", "LETTERS",
     "file (f), directory (d), link (l), block (b) or character (c) "
     "device, pipe (p), socket (s); with commas: any of them"},
    {"-size", "[+-]N[cwbkMG]", "N units of 512 bytes, or of the given unit (+: more, -: less)"},
    {"-empty", nullptr, "an empty file or directory"},
    {"-newer", "FILE", "modified more recently than FILE"},
    {"-anewer", "FILE", "accessed after FILE was modified"},
    {"-cnewer", "FILE", "changed after FILE was modified"},
    {"-newerXY", "FILE",
     "time X (a, c, m or B for birth) is after time Y of FILE; Y may be t: FILE is a "
     "time"},
    {"-mtime", "[+-]DAYS", "modified that many days ago (+: more, -: less)"},
    {"-atime", "[+-]DAYS", "the same, for the last access"},
    {"-ctime", "[+-]DAYS", "the same, for the last change of attributes"},
    {"-mmin", "[+-]MINUTES", "modified that many minutes ago"},
    {"-amin", "[+-]MINUTES", "the same, for the last access"},
    {"-cmin", "[+-]MINUTES", "the same, for the last change of attributes"},
    {"-links", "[+-]N", "the number of hard links"},
    {"-inum", "[+-]N", "the inode number"},
    {"-samefile", "FILE", "the same file as FILE, under any name"},
    {"-user", "NAME", "owned by this user"},
    {"-group", "NAME", "owned by this group"},
    {"-uid", "[+-]N", "owned by the user with this number"},
    {"-gid", "[+-]N", "owned by the group with this number"},
    {"-nouser", nullptr, "the owner's number belongs to no user"},
    {"-nogroup", nullptr, "the group's number belongs to no group"},
    {"-perm", "[-/]MODE", "exactly this mode (-: all these bits, /: any of them)"},
    {"-readable", nullptr, "readable by this process"},
    {"-writable", nullptr, "writable by this process"},
    {"-executable", nullptr, "executable by this process, or a directory that it may search"},
    {"-true", nullptr, "always"},
    {"-false", nullptr, "never"},
};

constexpr OptionWord limits[] = {
    {"-maxdepth", "N", "at most N levels below the starts"},
    {"-mindepth", "N", "at least N levels below the starts"},
    {"-prune", nullptr, "do not enter this directory"},
    {"-xdev", nullptr, "do not enter other file systems"},
    {"-mount", nullptr, "the same as -xdev"},
    {"-depth", nullptr, "process a directory after its contents"},
    {"-d", nullptr, "the same as -depth"},
    {"-quit", nullptr, "end the search"},
    {"-ignore_readdir_race", nullptr, "do not report files that vanish during the search"},
    {"-noleaf", nullptr, nullptr},
    {"-warn", nullptr, nullptr},
    {"-nowarn", nullptr, nullptr},
};

constexpr OptionWord actions[] = {
    {"-print", nullptr, "print the path (default)"},
    {"-print0", nullptr, "print the path followed by a zero byte"},
    {"-ls", nullptr, "print a line like ls -dils"},
    {"-printf", "FORMAT",
     "print as FORMAT says: %p %P %H %f %h %l %d %s %b %k %m %M %y %i %n %u %g %U %G, "
     "%t %T@ %T+ %Ts and the same with A and C, %-20f with a width, \\n \\t \\0"},
    {"-exec", "COMMAND ;", "run COMMAND with the path in place of {}"},
    {"-exec", "COMMAND {} +", "run COMMAND with as many paths as fit"},
    {"-delete", nullptr, "remove the file; implies -depth"},
};

constexpr OptionWord operators[] = {
    {"(", "EXPRESSION )", "group"},
    {"!", "EXPRESSION", "not"},
    {"-not", "EXPRESSION", "the same as !"},
    {"-a", nullptr, "and; the default between two words"},
    {"-and", nullptr, "the same as -a"},
    {"-o", nullptr, "or"},
    {"-or", nullptr, "the same as -o"},
    {",", nullptr, "evaluate both; the value is that of the second"},
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
