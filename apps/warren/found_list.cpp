// SPDX-License-Identifier: Apache-2.0
// Text is printed in large chunks, each with the output of one thread.
#include "apps/warren/found_list.hpp"

#include "apps/warren/messages.hpp"

namespace warren::cli {

namespace {

constexpr size_t sent_at_once = 64 * kib;

}  // namespace

FoundList::FoundList(bool is_sorted, bool is_json, u64 memory_bytes)
    : is_sorted_(is_sorted), is_json_(is_json), memory_bytes_(memory_bytes) {
    sorted_.emplace(memory_bytes_);
}

bool FoundList::add(std::string_view path, std::string_view text, std::string& unsent) {
    if (is_sorted_) return sorted_->add(path, text) == Errc::ok;
    append(text, unsent);
    return true;
}

void FoundList::append(std::string_view text, std::string& unsent) {
    if (is_json_ && !unsent.empty()) unsent += JsonArray::separator;
    unsent += text;
    if (unsent.size() >= sent_at_once) send(unsent);
}

void FoundList::send(std::string& unsent) {
    if (!unsent.empty()) is_json_ ? objects_.add(unsent) : print_bytes(unsent);
    unsent.clear();
}

bool FoundList::end_of_tree() {
    if (!is_sorted_) return true;
    std::string unsent;
    for (std::string_view path, text; sorted_->next(path, text);)
        append(text, unsent);
    send(unsent);
    const Errc code = sorted_->error();
    sorted_.emplace(memory_bytes_);
    if (code == Errc::ok) return true;
    complain_of_list(code);
    is_broken_ = true;
    return false;
}

void FoundList::close() {
    if (is_json_ && !is_broken_) objects_.close();
}

}  // namespace warren::cli
