// SPDX-License-Identifier: Apache-2.0
// JSON output for scripts. Names in a volume are bytes, JSON is Unicode: bytes that are not UTF-8
// become the lone surrogates U+DC80 to U+DCFF, which Python's os.fsencode() turns back into the
// bytes.
#pragma once

#include <string>
#include <string_view>

#include "warren/types.hpp"

namespace warren::cli {

/// Builds one JSON text. Requires: calls nest like the text; a key precedes each member.
class Json {
 public:
    Json& open_object();
    Json& close_object();
    Json& open_array();
    Json& close_array();
    Json& key(std::string_view name);
    Json& text(std::string_view value);
    Json& number(u64 value);
    Json& number(double value);
    Json& boolean(bool value);
    /// Key and value at once.
    Json& member(std::string_view name, std::string_view value) { return key(name).text(value); }
    Json& member(std::string_view name, u64 value) { return key(name).number(value); }

    const std::string& result() const { return text_; }

 private:
    void begin_value();

    std::string text_;
    bool comma_ = false;
};

}  // namespace warren::cli
