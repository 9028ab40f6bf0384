// SPDX-License-Identifier: Apache-2.0
// The shape of a state is a text with a line for each name, so that shapes are compared as strings
// and the first line that differs shows the problem.
#include "tests/support/state_history.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "tests/support/compare_trees.hpp"

namespace warren {
namespace {

constexpr u64 page_bytes = sizeof(ModelPage);

/// One line of a shape. `link` numbers the inodes in the order of their first names.
std::string shape_line(const std::string& path, const Attributes& inode, u64 link,
                       const std::string& rest) {
    std::string line = path + " mode " + std::to_string(inode.mode) + " links " +
                       std::to_string(inode.links) + " user " + std::to_string(inode.user) +
                       " group " + std::to_string(inode.group) + " device " +
                       std::to_string(inode.device) + " inode " + std::to_string(link);
    return line + rest + "\n";
}

std::string attribute_text(const std::string& name, std::string_view value) {
    return " " + printable_name(name) + "=" + std::to_string(value.size()) + ":" +
           std::to_string(std::hash<std::string_view>()(value));
}

/// An entry found by a walk over a volume or a model.
struct Walked {
    std::string path;
    u64 inode;
};

std::string shape_of(const ModelFileSystem& model) {
    std::string shape;
    std::unordered_map<u64, u64> links;
    std::vector<Walked> left = {{"", ModelFileSystem::root_number}};
    while (!left.empty()) {
        const Walked at = std::move(left.back());
        left.pop_back();
        const ModelInode& inode = *model.find(ModelFileSystem::handle_of(at.inode));
        std::string rest;
        if (is_mode_of(inode.mode, symlink_mode)) rest = attribute_text("target", inode.target);
        for (const auto& [name, value] : inode.attributes)
            rest += attribute_text(name, value);
        const u64 link = links.try_emplace(at.inode, links.size()).first->second;
        const Handle handle = ModelFileSystem::handle_of(at.inode);
        shape += shape_line(at.path, *model.attributes(handle), link, rest);
        for (const auto& [name, child] : inode.entries) {
            left.push_back({at.path + "/" + name, child});
        }
    }
    return shape;
}

std::string extended_text(Volume& volume, Handle handle) {
    std::vector<char> names(8192);
    const Result<u64> length = volume.list_attributes(handle, names);
    std::map<std::string, std::string> sorted;
    for (u64 at = 0; length && at < *length;) {
        const std::string name(names.data() + at);
        at += name.size() + 1;
        std::vector<std::byte> value(5000);
        const Result<u64> size = volume.get_attribute(handle, name, value);
        sorted[name].assign(reinterpret_cast<char*>(value.data()), size ? *size : 0);
    }
    std::string text;
    for (const auto& [name, value] : sorted)
        text += attribute_text(name, value);
    return text;
}

std::string shape_of(Volume& volume) {
    std::string shape;
    std::unordered_map<u64, u64> links;
    std::vector<Walked> left = {{"", volume.root().inode}};
    while (!left.empty()) {
        const Walked at = std::move(left.back());
        left.pop_back();
        const Result<Handle> handle = volume.handle_of(at.inode);
        const Result<Attributes> inode =
            handle ? volume.attributes(*handle) : Result<Attributes>(handle.code());
        if (!inode) {
            return shape + at.path +
                   " leads to nothing: " + std::to_string(static_cast<int>(inode.code()));
        }
        std::string rest;
        if (is_mode_of(inode->mode, symlink_mode)) {
            const Result<std::string> target = volume.read_link(*handle);
            rest = target ? attribute_text("target", *target) : " without a target";
        }
        rest += extended_text(volume, *handle);
        const u64 link = links.try_emplace(at.inode, links.size()).first->second;
        shape += shape_line(at.path, *inode, link, rest);
        if (!is_mode_of(inode->mode, directory_mode)) continue;
        std::map<std::string, u64> entries;
        const Errc listed = volume.read_directory(*handle, 0, [&](const DirectoryEntry& entry) {
            entries[std::string(entry.name)] = entry.inode;
            return true;
        });
        if (listed != Errc::ok) return shape + at.path + " cannot be listed";
        for (const auto& [name, child] : entries)
            left.push_back({at.path + "/" + name, child});
    }
    return shape;
}

/// The first lines in which two shapes differ.
std::string first_difference(const std::string& found, const std::string& wanted) {
    const auto [at, other] =
        std::mismatch(found.begin(), found.end(), wanted.begin(), wanted.end());
    const auto line_around = [](const std::string& text, std::size_t offset) {
        const std::size_t newline = offset == 0 ? std::string::npos : text.rfind('\n', offset - 1);
        const std::size_t start = newline == std::string::npos ? 0 : newline + 1;
        return text.substr(start, text.find('\n', start) - start);
    };
    return "found  " + line_around(found, static_cast<std::size_t>(at - found.begin())) +
           "\nwanted " + line_around(wanted, static_cast<std::size_t>(other - wanted.begin()));
}

/// The contents of a file as a buffer of `size` bytes.
std::vector<std::byte> flatten(const ModelInode& inode, u64 size) {
    std::vector<std::byte> bytes(size);
    for (const auto& [number, page] : inode.pages) {
        const u64 start = number * page_bytes;
        if (start >= size) break;
        std::memcpy(bytes.data() + start, page.data(), std::min(page_bytes, size - start));
    }
    return bytes;
}

}  // namespace

void StateHistory::add(const ModelFileSystem& model) {
    // Open files without a name are kept: writes to them become visible if they get a name again.
    states_.push_back({model, shape_of(model)});
}

std::string StateHistory::explain(Volume& volume, u64 first, u64 last) const {
    last = std::min<u64>(last, states_.size() - 1);
    const std::string shape = shape_of(volume);
    std::string wrong;
    for (u64 i = last + 1; i-- > first;) {
        if (states_[i].shape != shape) continue;
        wrong = explain_contents(volume, i, first, last);
        if (wrong.empty()) return {};
    }
    if (!wrong.empty()) return wrong;
    return "is in none of the states " + std::to_string(first) + " to " + std::to_string(last) +
           "\nagainst the first:\n" + first_difference(shape, states_[first].shape) +
           "\nagainst the last:\n" + first_difference(shape, states_[last].shape);
}

std::string StateHistory::explain_contents(Volume& volume, u64 state, u64 first, u64 last) const {
    const ModelFileSystem& model = states_[state].model;
    struct Pair {
        u64 number;
        Handle handle;
    };
    std::vector<Pair> left = {{ModelFileSystem::root_number, volume.root()}};
    const Caller anybody{.check = false};
    while (!left.empty()) {
        const Pair at = left.back();
        left.pop_back();
        const ModelInode& inode = *model.find(ModelFileSystem::handle_of(at.number));
        if (is_mode_of(inode.mode, regular_mode)) {
            const std::string wrong = explain_file(volume, at.handle, at.number, first, last);
            if (!wrong.empty()) {
                return "file " + std::to_string(at.number) + " of state " + std::to_string(state) +
                       ": " + wrong;
            }
        }
        for (const auto& [name, child] : inode.entries) {
            const Result<Attributes> found = volume.lookup(anybody, at.handle, name);
            if (!found) return printable_name(name) + " is listed but not found";
            left.push_back({child, found->handle});
        }
    }
    return {};
}

std::string StateHistory::explain_file(Volume& volume, Handle file, u64 number, u64 first,
                                       u64 last) const {
    const Result<Attributes> found = volume.attributes(file);
    if (!found) return "has no attributes";
    u64 smallest = ~u64{0};
    u64 largest = 0;
    struct Candidate {
        std::vector<std::byte> bytes;
        u64 size;  // what lies beyond it is in no state, not even zeros
    };
    std::vector<Candidate> candidates;
    for (u64 i = first; i <= last; ++i) {
        const ModelInode* inode = states_[i].model.find(ModelFileSystem::handle_of(number));
        if (inode == nullptr) continue;
        if (inode->links > 0) {
            smallest = std::min(smallest, inode->size);
            largest = std::max(largest, inode->size);
        }
        candidates.push_back({flatten(*inode, found->size), inode->size});
    }
    if (found->size < smallest || found->size > largest) {
        return "has " + std::to_string(found->size) + " bytes, not " + std::to_string(smallest) +
               " to " + std::to_string(largest);
    }
    if (volume.open_file(file) != Errc::ok) return "cannot be opened";
    std::vector<std::byte> bytes(found->size);
    const Result<u64> got = volume.read(file, 0, bytes);
    static_cast<void>(volume.release(file));
    if (!got || *got != bytes.size()) return "cannot be read";
    for (u64 i = 0; i < bytes.size(); ++i) {
        const bool is_known = std::any_of(
            candidates.begin(), candidates.end(),
            [&](const Candidate& one) { return i < one.size && one.bytes[i] == bytes[i]; });
        if (!is_known) {
            return "byte " + std::to_string(i) + " of " + std::to_string(bytes.size()) + " is " +
                   std::to_string(std::to_integer<int>(bytes[i])) + ", which was never there";
        }
    }
    return {};
}

}  // namespace warren
