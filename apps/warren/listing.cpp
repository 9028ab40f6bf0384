// SPDX-License-Identifier: Apache-2.0
// Each user and group name is looked up only once.
#include "apps/warren/listing.hpp"

#include <grp.h>
#include <pwd.h>

#include <cstdio>
#include <ctime>
#include <map>
#include <mutex>

namespace warren::cli {

namespace {

constexpr i64 nanoseconds_per_second = 1'000'000'000;
constexpr i64 half_year_seconds = 31556952 / 2;

struct Moment {
    time_t seconds;
    i64 rest;
};

Moment split(i64 nanoseconds) {
    i64 seconds = nanoseconds / nanoseconds_per_second;
    i64 rest = nanoseconds % nanoseconds_per_second;
    if (rest < 0) {
        rest += nanoseconds_per_second;
        --seconds;
    }
    return {static_cast<time_t>(seconds), rest};
}

std::string format_time(const char* format, time_t seconds) {
    std::tm parts{};
    if (::localtime_r(&seconds, &parts) == nullptr) return std::to_string(seconds);
    char text[64];
    const size_t length = std::strftime(text, sizeof text, format, &parts);
    return std::string(text, length);
}

/// ".123456789".
std::string fraction_of(const Moment& moment) {
    char fraction[16];
    std::snprintf(fraction, sizeof fraction, ".%09d", static_cast<int>(moment.rest));
    return fraction;
}

std::string day_and_clock(time_t seconds, bool has_clock) {
    return format_time(has_clock ? "%b %e %H:%M" : "%b %e  %Y", seconds);
}

std::mutex names_mutex;

}  // namespace

char type_letter(u32 mode) {
    switch (mode & 0170000) {
        case 0100000:
            return 'f';
        case 0040000:
            return 'd';
        case 0120000:
            return 'l';
        case 0060000:
            return 'b';
        case 0020000:
            return 'c';
        case 0010000:
            return 'p';
        case 0140000:
            return 's';
        default:
            return '?';
    }
}

std::string type_name(u32 mode) {
    switch (type_letter(mode)) {
        case 'f':
            return "regular file";
        case 'd':
            return "directory";
        case 'l':
            return "symbolic link";
        case 'b':
            return "block special file";
        case 'c':
            return "character special file";
        case 'p':
            return "fifo";
        case 's':
            return "socket";
        default:
            return "unknown";
    }
}

std::string mode_text(u32 mode) {
    std::string text(1, type_letter(mode) == 'f' ? '-' : type_letter(mode));
    for (u32 bit = 9; bit-- > 0;)
        text += (mode >> bit & 1) != 0 ? "xwr"[bit % 3] : '-';
    auto special = [&](u32 flag, size_t place, char with_x, char without) {
        if ((mode & flag) != 0) text[place] = text[place] == 'x' ? with_x : without;
    };
    special(04000, 3, 's', 'S');
    special(02000, 6, 's', 'S');
    special(01000, 9, 't', 'T');
    return text;
}

std::string user_text(u32 user) {
    static std::map<u32, std::string> known;
    std::lock_guard lock(names_mutex);
    const auto [entry, added] = known.try_emplace(user);
    if (added) {
        const passwd* found = ::getpwuid(user);
        entry->second = found != nullptr ? found->pw_name : std::to_string(user);
    }
    return entry->second;
}

std::string group_text(u32 group) {
    static std::map<u32, std::string> known;
    std::lock_guard lock(names_mutex);
    const auto [entry, added] = known.try_emplace(group);
    if (added) {
        const ::group* found = ::getgrgid(group);
        entry->second = found != nullptr ? found->gr_name : std::to_string(group);
    }
    return entry->second;
}

std::string short_time(i64 nanoseconds) {
    const Moment moment = split(nanoseconds);
    const time_t now = std::time(nullptr);
    const bool recent = moment.seconds <= now && now - moment.seconds < half_year_seconds;
    return day_and_clock(moment.seconds, recent);
}

std::string short_time_of_find(i64 nanoseconds) {
    constexpr i64 past_seconds = i64{180} * 24 * 3600;
    constexpr i64 ahead_seconds = 3600;
    const Moment moment = split(nanoseconds);
    const time_t now = std::time(nullptr);
    const bool recent =
        moment.seconds >= now - past_seconds && moment.seconds <= now + ahead_seconds;
    return day_and_clock(moment.seconds, recent);
}

std::string full_time(i64 nanoseconds) {
    const Moment moment = split(nanoseconds);
    return format_time("%Y-%m-%d %H:%M:%S", moment.seconds) + fraction_of(moment) +
           format_time(" %z", moment.seconds);
}

std::string long_time_of_find(i64 nanoseconds) {
    const Moment moment = split(nanoseconds);
    return format_time("%a %b %e %H:%M:%S", moment.seconds) + fraction_of(moment) +
           format_time("0 %Y", moment.seconds);
}

std::string joined_time_of_find(i64 nanoseconds) {
    const Moment moment = split(nanoseconds);
    return format_time("%Y-%m-%d+%H:%M:%S", moment.seconds) + fraction_of(moment) + "0";
}

std::string epoch_time(i64 nanoseconds) {
    const Moment moment = split(nanoseconds);
    return std::to_string(moment.seconds) + fraction_of(moment);
}

void add_attributes(Json& json, const Attributes& attributes) {
    char mode[16];
    std::snprintf(mode, sizeof mode, "%04o", attributes.mode & 07777);
    json.member("type", std::string_view(type_name(attributes.mode)));
    json.member("mode", std::string_view(mode));
    json.member("inode", attributes.handle.inode);
    json.member("links", u64{attributes.links});
    json.member("user", u64{attributes.user});
    json.member("group", u64{attributes.group});
    json.member("size", attributes.size);
    json.member("allocated", attributes.blocks * 4096);
    json.member("accessed", std::string_view(epoch_time(attributes.accessed)));
    json.member("modified", std::string_view(epoch_time(attributes.modified)));
    json.member("changed", std::string_view(epoch_time(attributes.changed)));
    if (attributes.born != 0) {
        json.member("born", std::string_view(epoch_time(attributes.born)));
    }
    if (type_letter(attributes.mode) == 'b' || type_letter(attributes.mode) == 'c') {
        json.member("major", u64{attributes.device >> 20});
        json.member("minor", u64{attributes.device & 0xfffff});
    }
}

}  // namespace warren::cli
