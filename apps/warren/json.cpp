// SPDX-License-Identifier: Apache-2.0
// The only state is a flag: whether a comma is due before the next value or key.
#include "apps/warren/json.hpp"

#include <cstdio>

namespace warren::cli {

namespace {

/// The length of the well-formed UTF-8 sequence at the start of `text`; 0 if there is none.
size_t utf8_length(std::string_view text) {
    auto byte = [&](size_t index) {
        return index < text.size() ? static_cast<unsigned char>(text[index]) : 0u;
    };
    const unsigned first = byte(0);
    if (first < 0x80) return 1;
    size_t length = 0;
    unsigned low = 0x80;  // bounds of the second byte
    unsigned high = 0xbf;
    if (first >= 0xc2 && first <= 0xdf) length = 2;
    if (first >= 0xe0 && first <= 0xef) length = 3;
    if (first >= 0xf0 && first <= 0xf4) length = 4;
    if (first == 0xe0) low = 0xa0;   // overlong
    if (first == 0xed) high = 0x9f;  // surrogates
    if (first == 0xf0) low = 0x90;   // overlong
    if (first == 0xf4) high = 0x8f;  // beyond U+10FFFF
    if (length == 0 || byte(1) < low || byte(1) > high) return 0;
    for (size_t index = 2; index < length; ++index) {
        if (byte(index) < 0x80 || byte(index) > 0xbf) return 0;
    }
    return length;
}

void append_escape(std::string& target, unsigned code) {
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, "\\u%04x", code & 0xffff);
    target += escaped;
}

}  // namespace

void Json::begin_value() {
    if (comma_) text_ += ", ";
    comma_ = true;
}

Json& Json::open_object() {
    begin_value();
    text_ += '{';
    comma_ = false;
    return *this;
}

Json& Json::close_object() {
    text_ += '}';
    comma_ = true;
    return *this;
}

Json& Json::open_array() {
    begin_value();
    text_ += '[';
    comma_ = false;
    return *this;
}

Json& Json::close_array() {
    text_ += ']';
    comma_ = true;
    return *this;
}

Json& Json::key(std::string_view name) {
    text(name);
    text_ += ": ";
    comma_ = false;
    return *this;
}

Json& Json::text(std::string_view value) {
    begin_value();
    text_ += '"';
    while (!value.empty()) {
        const auto first = static_cast<unsigned char>(value[0]);
        const size_t length = utf8_length(value);
        if (length == 0) {
            append_escape(text_, 0xdc00u + first);
        } else if (first < 0x20 || first == 0x7f) {
            append_escape(text_, first);
        } else {
            if (first == '"' || first == '\\') text_ += '\\';
            text_ += value.substr(0, length);
        }
        value.remove_prefix(length == 0 ? 1 : length);
    }
    text_ += '"';
    return *this;
}

Json& Json::number(u64 value) {
    begin_value();
    text_ += std::to_string(value);
    return *this;
}

Json& Json::number(double value) {
    begin_value();
    char digits[48];
    std::snprintf(digits, sizeof digits, "%.3f", value);
    text_ += digits;
    return *this;
}

Json& Json::boolean(bool value) {
    begin_value();
    text_ += value ? "true" : "false";
    return *this;
}

}  // namespace warren::cli
