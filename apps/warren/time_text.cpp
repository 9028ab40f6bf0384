// SPDX-License-Identifier: Apache-2.0
// A recursive-descent parser that consumes the text from left to right. Days and longer units
// follow the calendar, as with mktime(3): a day may have 23 hours.
#include "apps/warren/time_text.hpp"

#include <charconv>
#include <ctime>

namespace warren::cli {

namespace {

constexpr i64 second = 1'000'000'000;
constexpr int amount_most = 100'000;  // for days and longer units

class TimeReader {
 public:
    TimeReader(std::string_view text, i64 now) : left_(text), now_(now) { skip_blanks(); }

    std::optional<i64> read() {
        std::optional<i64> time;
        if (accept("@")) {
            time = read_epoch();
        } else if (is_date()) {
            time = read_date();
        } else if (is_clock()) {
            time = on_day(0, true);
        } else {
            time = read_words();
        }
        skip_blanks();
        return left_.empty() ? time : std::nullopt;
    }

 private:
    static bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }
    static bool is_letter(char letter) { return letter >= 'a' && letter <= 'z'; }

    void skip_blanks() {
        while (left_.starts_with(' '))
            left_.remove_prefix(1);
    }
    bool accept(std::string_view text) {
        if (!left_.starts_with(text)) return false;
        left_.remove_prefix(text.size());
        return true;
    }
    bool number(int& value) {
        if (left_.empty() || !is_digit(left_[0])) return false;
        const auto [end, error] = std::from_chars(left_.data(), left_.data() + left_.size(), value);
        left_.remove_prefix(static_cast<size_t>(end - left_.data()));
        return error == std::errc();
    }
    bool two_digits(int& value, int most) {
        const std::string_view before = left_;
        return number(value) && before.size() - left_.size() == 2 && value <= most;
    }
    bool is_date() const { return left_.size() > 4 && left_[4] == '-' && is_digit(left_[0]); }
    bool is_clock() const { return left_.size() > 2 && left_[2] == ':'; }

    static std::optional<i64> moment_of(i64 seconds, i64 nanoseconds) {
        constexpr i64 seconds_most = INT64_MAX / second - 1;
        if (seconds > seconds_most || seconds < -seconds_most) return {};
        return seconds * second + nanoseconds;
    }

    /// Parses nanoseconds after a decimal point, if there is one.
    bool fraction(i64& nanoseconds) {
        nanoseconds = 0;
        if (!accept(".")) return true;
        if (left_.empty() || !is_digit(left_[0])) return false;
        for (i64 unit = second / 10; !left_.empty() && is_digit(left_[0]); unit /= 10) {
            nanoseconds += unit * (left_[0] - '0');
            left_.remove_prefix(1);
        }
        return true;
    }

    std::optional<i64> read_epoch() {
        const bool is_negative = accept("-");
        i64 seconds = 0;
        const auto [end, error] =
            std::from_chars(left_.data(), left_.data() + left_.size(), seconds);
        if (error != std::errc() || seconds < 0) return {};
        left_.remove_prefix(static_cast<size_t>(end - left_.data()));
        i64 rest = 0;
        if (!fraction(rest)) return {};
        return is_negative ? moment_of(-seconds, -rest) : moment_of(seconds, rest);
    }

    std::optional<i64> read_date() {
        tm day{};
        if (!number(day.tm_year) || !accept("-") || !two_digits(day.tm_mon, 12) || !accept("-") ||
            !two_digits(day.tm_mday, 31) || day.tm_mon == 0 || day.tm_mday == 0) {
            return {};
        }
        day.tm_year -= 1900;
        day.tm_mon -= 1;
        const tm asked = day;
        if (!accept("T")) skip_blanks();
        const std::optional<i64> time = at_clock(day, !left_.empty());
        // Reject dates such as 30 February.
        tm normal = asked;
        ::timegm(&normal);
        return normal.tm_mday == asked.tm_mday ? time : std::nullopt;
    }

    /// That day, at the time of day that follows in the text.
    std::optional<i64> at_clock(tm day, bool has_clock) {
        i64 rest = 0;
        if (has_clock) {
            if (!two_digits(day.tm_hour, 23) || !accept(":") || !two_digits(day.tm_min, 59)) {
                return {};
            }
            if (accept(":") && (!two_digits(day.tm_sec, 60) || !fraction(rest))) return {};
        }
        skip_blanks();
        day.tm_isdst = -1;
        const std::string_view before = left_;
        if (accept("Z") || accept("UTC")) return moment_of(::timegm(&day), rest);
        const bool is_east = accept("+");
        if (is_east || accept("-")) {
            int hours = 0;
            int minutes = 0;
            if (!two_digits_of(hours, 24)) return {};
            accept(":");
            if (!left_.empty() && !two_digits_of(minutes, 59)) return {};
            const i64 offset = (hours * 60 + minutes) * 60;
            return moment_of(::timegm(&day) - (is_east ? offset : -offset), rest);
        }
        left_ = before;
        return moment_of(::mktime(&day), rest);
    }

    /// Parses exactly the next two characters.
    bool two_digits_of(int& value, int most) {
        if (left_.size() < 2 || !is_digit(left_[0]) || !is_digit(left_[1])) return false;
        value = (left_[0] - '0') * 10 + (left_[1] - '0');
        left_.remove_prefix(2);
        return value <= most;
    }

    tm local_now() const {
        const time_t now = now_ / second;
        tm day{};
        ::localtime_r(&now, &day);
        return day;
    }

    /// The day so many days from today, at midnight or at the time of day that follows in the text.
    std::optional<i64> on_day(int days, bool has_clock) {
        tm day = local_now();
        day.tm_hour = day.tm_min = day.tm_sec = 0;
        day.tm_mday += days;
        return at_clock(day, has_clock);
    }

    std::string_view word() {
        skip_blanks();
        size_t size = 0;
        while (size < left_.size() && is_letter(left_[size]))
            ++size;
        const std::string_view result = left_.substr(0, size);
        left_.remove_prefix(size);
        return result;
    }

    std::optional<i64> read_words() {
        if (accept("now") || accept("today")) return now_;
        tm moment = local_now();
        i64 seconds = 0;
        if (accept("yesterday")) {
            --moment.tm_mday;
        } else if (accept("tomorrow")) {
            ++moment.tm_mday;
        } else if (!add_distance(moment, seconds)) {
            return {};
        }
        // Uses today's daylight saving time, like date(1).
        return moment_of(::mktime(&moment) + seconds, now_ % second);
    }

    /// "3 days ago", "-2 hours", "1 week".
    bool add_distance(tm& moment, i64& seconds) {
        bool is_past = accept("-");
        if (!is_past) accept("+");
        int amount = 1;
        skip_blanks();
        if (!left_.empty() && is_digit(left_[0]) && !number(amount)) return false;
        std::string_view unit = word();
        const std::string_view before = left_;
        if (word() == "ago") {
            is_past = !is_past;
        } else {
            left_ = before;  // restores the word, which is then refused
        }
        if (unit.ends_with('s') && unit.size() > 1) unit.remove_suffix(1);
        if (is_past) amount = -amount;
        if (unit == "sec" || unit == "second") {
            seconds = amount;
        } else if (unit == "min" || unit == "minute") {
            seconds = i64{amount} * 60;
        } else if (unit == "hour") {
            seconds = i64{amount} * 3600;
        } else if (amount > amount_most || amount < -amount_most) {
            return false;
        } else if (unit == "day") {
            moment.tm_mday += amount;
        } else if (unit == "week") {
            moment.tm_mday += amount * 7;
        } else if (unit == "month") {
            moment.tm_mon += amount;
        } else if (unit == "year") {
            moment.tm_year += amount;
        } else {
            return false;
        }
        return true;
    }

    std::string_view left_;
    i64 now_;
};

}  // namespace

std::optional<i64> parse_time(std::string_view text, i64 now) {
    return TimeReader(text, now).read();
}

}  // namespace warren::cli
