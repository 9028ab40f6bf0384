// SPDX-License-Identifier: Apache-2.0
// Walks model and volume in parallel. A file of terabytes is read only where either side may have
// data.
#include "tests/support/compare_trees.hpp"

#include <algorithm>
#include <cstdio>
#include <set>
#include <unordered_map>

namespace warren {
namespace {

constexpr u64 page_bytes = sizeof(ModelPage);
constexpr std::size_t report_bytes_max = 4000;

std::string octal(u32 mode) {
    char text[16];
    std::snprintf(text, sizeof text, "%06o", mode);
    return text;
}

class Differences {
 public:
    template <class T>
    void expect(const char* what, const T& found, const T& wanted) {
        if (found == wanted) return;
        text_ += std::string(what) + " is " + std::to_string(found) + ", not " +
                 std::to_string(wanted) + "; ";
    }
    void expect_time(const char* what, i64 found, const ModelTime& wanted) {
        if (wanted.contains(found)) return;
        text_ += std::string(what) + " is " + std::to_string(found) + ", not in [" +
                 std::to_string(wanted.earliest) + ", " + std::to_string(wanted.latest) + "]; ";
    }
    void say(const std::string& text) { text_ += text + "; "; }
    std::string take() { return std::move(text_); }

 private:
    std::string text_;
};

/// Compares one page-aligned range of a file with the model.
std::string compare_range(Volume& volume, Handle file, const ModelInode& inode, u64 begin,
                          u64 end) {
    std::vector<std::byte> bytes(std::min<u64>(end - begin, mib));
    for (u64 at = begin; at < end;) {
        const std::span<std::byte> part =
            std::span(bytes).first(std::min<u64>(bytes.size(), end - at));
        const Result<u64> got = volume.read(file, at, part);
        if (!got) return "read answers " + std::to_string(static_cast<int>(got.code()));
        if (*got != part.size()) return "a short read at " + std::to_string(at);
        for (u64 i = 0; i < part.size(); ++i) {
            const auto page = inode.pages.find((at + i) / page_bytes);
            const std::byte wanted =
                page == inode.pages.end() ? std::byte{0} : page->second[(at + i) % page_bytes];
            if (part[i] == wanted) continue;
            return "byte " + std::to_string(at + i) + " is " +
                   std::to_string(static_cast<int>(part[i])) + ", not " +
                   std::to_string(static_cast<int>(wanted));
        }
        at += part.size();
    }
    return {};
}

/// Pages of a file that may contain data on either side.
std::set<u64> interesting_pages(Volume& volume, Handle file, const ModelInode& inode) {
    std::set<u64> pages;
    for (const auto& [number, page] : inode.pages)
        pages.insert(number);
    for (u64 at = 0; at < inode.size;) {
        const Result<u64> data = volume.seek(file, at, Seek::data);
        if (!data) break;
        const Result<u64> hole = volume.seek(file, *data, Seek::hole);
        const u64 end = hole ? *hole : inode.size;
        for (u64 page = *data / page_bytes; page * page_bytes < end; ++page)
            pages.insert(page);
        at = std::max(end, *data + 1);
    }
    // The first and last page, and a few in between, in any case.
    const u64 last = inode.size == 0 ? 0 : (inode.size - 1) / page_bytes;
    for (u64 i = 0; i < 8; ++i)
        pages.insert(last / 7 * i);
    pages.insert(last);
    return pages;
}

}  // namespace

std::string printable_name(std::string_view bytes) {
    std::string text;
    for (const char c : bytes.substr(0, 24)) {
        if (c > ' ' && c < 127) {
            text += c;
        } else {
            char code[8];
            std::snprintf(code, sizeof code, "\\%03o", static_cast<unsigned>(c) & 0xff);
            text += code;
        }
    }
    if (bytes.size() > 24) text += "...(" + std::to_string(bytes.size()) + ")";
    return text;
}

std::string compare_attributes(const Attributes& found, const ModelInode& inode, bool times) {
    Differences differences;
    if (found.mode != inode.mode) {
        differences.say("mode is " + octal(found.mode) + ", not " + octal(inode.mode));
    }
    differences.expect("links", found.links, inode.links);
    differences.expect("user", found.user, inode.user);
    differences.expect("group", found.group, inode.group);
    differences.expect("device", found.device, inode.device);
    if (!is_mode_of(inode.mode, directory_mode)) {
        differences.expect("size", found.size, inode.size);
    }
    if (times) {
        differences.expect_time("accessed", found.accessed, inode.times.accessed);
        differences.expect_time("modified", found.modified, inode.times.modified);
        differences.expect_time("changed", found.changed, inode.times.changed);
        differences.expect_time("born", found.born, inode.times.born);
    }
    return differences.take();
}

std::string compare_contents(Volume& volume, Handle file, const ModelInode& inode) {
    if (const Errc opened = volume.open_file(file); opened != Errc::ok) {
        return "open answers " + std::to_string(static_cast<int>(opened));
    }
    std::string different;
    const std::set<u64> pages = interesting_pages(volume, file, inode);
    for (auto page = pages.begin(); page != pages.end() && different.empty();) {
        const u64 begin = *page;
        u64 end = begin;
        while (page != pages.end() && *page == end) {
            ++end;
            ++page;
        }
        const u64 stop = std::min(end * page_bytes, inode.size);
        if (begin * page_bytes < stop) {
            different = compare_range(volume, file, inode, begin * page_bytes, stop);
        }
    }
    std::byte beyond[16];
    const Result<u64> rest = volume.read(file, inode.size, beyond);
    if (!rest || *rest != 0) different += " reading at the end gives bytes";
    const Errc released = volume.release(file);
    if (released != Errc::ok) different += " release fails";
    return different;
}

std::string compare_extended(Volume& volume, Handle handle, const ModelInode& inode) {
    std::vector<char> names(8192);
    const Result<u64> length = volume.list_attributes(handle, names);
    if (!length) return "listing answers " + std::to_string(static_cast<int>(length.code()));
    std::set<std::string> found;
    for (u64 at = 0; at < *length;) {
        const std::string name(names.data() + at);
        at += name.size() + 1;
        if (!found.insert(name).second) return "attribute " + name + " is listed twice";
    }
    std::set<std::string> wanted;
    for (const auto& [name, value] : inode.attributes)
        wanted.insert(name);
    if (found != wanted) {
        return std::to_string(found.size()) + " extended attributes instead of " +
               std::to_string(wanted.size()) + ", or others";
    }
    for (const auto& [name, value] : inode.attributes) {
        std::vector<std::byte> bytes(value.size() + 1);
        const Result<u64> size = volume.get_attribute(handle, name, bytes);
        if (!size || std::string_view(reinterpret_cast<char*>(bytes.data()), *size) != value) {
            return "attribute " + name + " has another value";
        }
    }
    return {};
}

namespace {

class Comparison {
 public:
    Comparison(Volume& volume, const ModelFileSystem& model, const CompareOptions& options)
        : volume_(volume), model_(model), options_(options) {}

    std::string run(Handle root) {
        visit("/", ModelFileSystem::root_number, root);
        while (!left_.empty() && text_.size() < report_bytes_max) {
            const Directory directory = std::move(left_.back());
            left_.pop_back();
            list(directory);
        }
        return std::move(text_);
    }

 private:
    struct Directory {
        std::string path;
        u64 number;
        Handle handle;
    };

    void say(const std::string& path, const std::string& what) {
        if (what.empty() || text_.size() >= report_bytes_max) return;
        text_ += path + ": " + what + "\n";
    }

    /// Compares one inode; all names of an inode must lead to the same one.
    void visit(const std::string& path, u64 number, Handle handle) {
        const auto [known, is_new] = handles_.try_emplace(number, handle);
        if (!is_new) {
            if (known->second != handle) say(path, "is not the hard link it should be");
            return;
        }
        const auto [owner, is_first] = numbers_.try_emplace(handle.inode, number);
        if (!is_first) return say(path, "shares its inode with another file");
        const ModelInode& inode = *model_.find(ModelFileSystem::handle_of(number));
        const Result<Attributes> found = volume_.attributes(handle);
        if (!found) {
            return say(path, "answers " + std::to_string(static_cast<int>(found.code())));
        }
        say(path, compare_attributes(*found, inode, options_.times));
        say(path, compare_extended(volume_, handle, inode));
        if (is_mode_of(inode.mode, directory_mode)) {
            const auto above = handles_.find(inode.parent);
            const bool is_root = number == ModelFileSystem::root_number;
            if (!is_root && found->parent != above->second.inode) {
                say(path, "has another parent");
            }
            left_.push_back({path, number, handle});
        } else if (is_mode_of(inode.mode, symlink_mode)) {
            const Result<std::string> target = volume_.read_link(handle);
            if (!target || *target != inode.target) say(path, "has another target");
        } else if (is_mode_of(inode.mode, regular_mode) && options_.contents) {
            say(path, compare_contents(volume_, handle, inode));
        }
    }

    void list(const Directory& directory) {
        const auto& wanted = model_.find(ModelFileSystem::handle_of(directory.number))->entries;
        std::map<std::string, u64> found;
        u64 last_cookie = 2;
        const Errc listed =
            volume_.read_directory(directory.handle, 0, [&](const DirectoryEntry& entry) {
                if (!found.emplace(std::string(entry.name), entry.inode).second) {
                    say(directory.path, printable_name(entry.name) + " is listed twice");
                }
                if (entry.cookie <= last_cookie || entry.cookie >> 63 != 0) {
                    say(directory.path, "cookies do not ascend");
                }
                last_cookie = entry.cookie;
                return true;
            });
        if (listed != Errc::ok) {
            return say(directory.path,
                       "listing answers " + std::to_string(static_cast<int>(listed)));
        }
        for (const auto& [name, inode] : found) {
            if (!wanted.contains(name)) say(directory.path, printable_name(name) + " is too much");
        }
        for (const auto& [name, number] : wanted) {
            const std::string path = directory.path + printable_name(name);
            if (!found.contains(name)) {
                say(path, "is missing");
                continue;
            }
            const Caller anybody{.check = false};
            const Result<Attributes> entry = volume_.lookup(anybody, directory.handle, name);
            if (!entry || entry->handle.inode != found[name]) {
                say(path, "is listed but not found, or found elsewhere");
                continue;
            }
            const ModelInode& inode = *model_.find(ModelFileSystem::handle_of(number));
            const bool is_directory = is_mode_of(inode.mode, directory_mode);
            visit(is_directory ? path + "/" : path, number, entry->handle);
        }
    }

    Volume& volume_;
    const ModelFileSystem& model_;
    const CompareOptions options_;
    std::string text_;
    std::vector<Directory> left_;
    std::unordered_map<u64, Handle> handles_;  // by number in the model
    std::unordered_map<u64, u64> numbers_;     // by inode
};

}  // namespace

std::string compare_trees(Volume& volume, const ModelFileSystem& model,
                          const CompareOptions& options, Handle root) {
    if (root == Handle{}) root = volume.root();
    return Comparison(volume, model, options).run(root);
}

}  // namespace warren
